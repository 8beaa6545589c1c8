"""A Gymnasium vector environment over a `Batch`, with the papers' states, actions and rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from edt_simulator import utility
from edt_simulator._core import Batch
from edt_simulator.layout import METRICS, OBSERVATION

States = NDArray[np.float32]
Flags = NDArray[np.bool_]
Sampler = Callable[[np.random.Generator, int], NDArray[np.void]]
"""Draws that many new scenarios."""

_NETWORK = 1


class TransferVectorEnv(VectorEnv[States, NDArray[Any], NDArray[Any]]):
    """Paths on which an agent chooses concurrency, once an interval.

    Actions, [environments, stages] float32: the concurrency of each stage, rounded and clamped to
    [1, `max_concurrency`] as in both papers. Observations, float32, relative to the scenario so that one network serves
    all paths:

    - one stage [EDT section IV-D]: throughput / BW, concurrency / max, and the change of both since the last interval;
    - three [AutoMDT section IV-D]: free share of the sender's and the receiver's buffer, throughput / b of read,
      network and write, concurrency / max of the three.

    Rewards, float64: utility / R_max, from what was measured; about 1 at the papers' optimum. For one stage, throughput
    in the utility is a share of the bandwidth, so that loss costs `b` * loss * BW / R_max.

    Episodes never terminate; after `episode_steps` they are truncated. With `AutoresetMode.NEXT_STEP` (default) the
    step after that ignores the environment's action, resets it and rewards 0; with `SAME_STEP` the step that truncates
    answers the new episode's first observation, and `info["final_obs"]` and `info["final_info"]` hold the last of the
    old one; with `DISABLED` the caller resets, by `reset(options={"reset_mask": mask})`.

    `info["metrics"]`: the simulator's truth, [environments, metrics], columns as in `METRICS`.
    """

    def __init__(
        self,
        scenarios: NDArray[np.void],
        *,
        stages: Literal[1, 3] = 1,
        model: Literal["fluid", "events"] = "fluid",
        episode_steps: int = 10,
        start: Literal["random", "initial"] = "random",
        sampler: Sampler | None = None,
        k: float = 1.02,
        b: float = 10.0,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        agents: int = 1,
    ) -> None:
        """Makes one environment for each of `scenarios`.

        `start`: an episode begins after one interval at a random concurrency, as in the papers, or before any, at the
        scenario's.
        `sampler`: draws new scenarios for the environments that are reset; without one they keep theirs.
        """
        if episode_steps < 1:
            raise ValueError(f"`episode_steps` is {episode_steps}, must be at least 1")
        if start not in ("random", "initial"):
            raise ValueError(f'`start` is "{start}", must be "random" or "initial"')
        self.metadata = {"autoreset_mode": autoreset_mode, "render_modes": []}
        self.num_envs = len(scenarios)
        self._batch = Batch(scenarios, model=model, stages=stages, threads=threads, agents=agents)
        self._scenarios = scenarios.copy()
        self._stages: Literal[1, 3] = stages
        self._episode_steps = episode_steps
        self._start = start
        self._sampler = sampler
        self._k, self._b = k, b
        self._autoreset_mode = autoreset_mode
        self._seeded = False
        self._steps = np.zeros(self.num_envs, np.int64)
        self._ended = np.zeros(self.num_envs, np.bool_)
        self._make_spaces()
        self._make_arrays()
        self._rescale()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[States, dict[str, Any]]:
        """Begins new episodes; with a seed, everything that follows repeats exactly."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self._batch.reseed(int(self.np_random.integers(2**63)))
            self._seeded = True
        mask = (options or {}).get("reset_mask")
        self._begin(np.ones(self.num_envs, np.bool_) if mask is None else mask)
        return self._states(), {"metrics": self._metrics.copy()}

    def step(self, actions: NDArray[Any]) -> tuple[States, NDArray[np.float64], Flags, Flags, dict[str, Any]]:
        """Runs one interval everywhere, except where the last one ended an episode and `NEXT_STEP` resets."""
        if np.shape(actions) != self._applied.shape or not np.isfinite(actions).all():
            raise ValueError(f"`actions` must be finite and of shape {self._applied.shape}, not {np.shape(actions)}")
        next_step = self._autoreset_mode is AutoresetMode.NEXT_STEP
        resetting = self._ended if next_step else np.zeros(self.num_envs, np.bool_)
        running = ~resetting
        self._advance(np.asarray(actions), running)
        if resetting.any():
            self._begin(resetting)
        rewards = np.where(running, self._rewards(), 0.0)
        self._steps[running] += 1
        self._ended = running & (self._steps >= self._episode_steps)
        terminations = np.zeros(self.num_envs, np.bool_)
        truncations = self._ended.copy()
        infos: dict[str, Any] = {"metrics": self._metrics.copy()}
        if self._autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            infos = self._end_in_same_step()
        return self._states(), rewards, terminations, truncations, infos

    def _make_spaces(self) -> None:
        size = 4 if self._stages == 1 else 8
        most = np.float32(self._scenarios["max_concurrency"].max())
        self.single_observation_space = Box(-np.inf, np.inf, (size,), np.float32)
        self.single_action_space = Box(np.float32(1.0), most, (self._stages,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _make_arrays(self) -> None:
        count = self.num_envs
        self._observations = np.zeros((count, len(OBSERVATION[self._stages])))
        self._previous = np.zeros_like(self._observations)
        self._metrics = np.zeros((count, len(METRICS[self._stages])))
        self._applied = np.zeros((count, self._stages), np.int32)

    def _rescale(self) -> None:
        """Takes what observations and rewards are relative to from the scenarios."""
        stream_bps = utility.effective_stream_bps(self._scenarios)
        capacity_bps = self._scenarios["capacity_bps"]
        if self._stages == 1:
            self._bandwidth = capacity_bps[:, _NETWORK]
            self._maximum = utility.edt_maximum(self._bandwidth, stream_bps[:, _NETWORK], k=self._k)
        else:
            self._bandwidth = capacity_bps.min(axis=1)
            self._maximum = utility.automdt_maximum(capacity_bps, stream_bps, k=self._k)

    def _begin(self, mask: Flags) -> None:
        if self._sampler is None:
            self._batch.reset(mask)
        else:
            self._scenarios[mask] = self._sampler(self.np_random, int(mask.sum()))
            self._batch.reset(mask, self._scenarios)
            self._rescale()
        self._steps[mask] = 0
        self._ended = self._ended & ~mask
        self._metrics[mask] = 0.0
        self._batch.observe(self._observations)
        if self._start == "random":
            most = self._scenarios["max_concurrency"][:, None]
            self._advance(self.np_random.uniform(1.0, most, (self.num_envs, self._stages)), mask)
        self._previous[mask] = self._observations[mask]

    def _advance(self, actions: NDArray[Any], mask: Flags) -> None:
        most = self._scenarios["max_concurrency"][:, None]
        np.copyto(self._applied, np.clip(np.rint(actions), 1, most), casting="unsafe")
        self._previous[mask] = self._observations[mask]
        self._batch.step(self._applied, self._observations, self._metrics, mask)

    def _rewards(self) -> NDArray[np.float64]:
        if self._stages == 1:
            concurrency, throughput, loss = self._observations.T
            share = throughput / self._bandwidth
            values = utility.edt_utility(share, concurrency, loss, k=self._k, b=self._b)
            return np.asarray(values * self._bandwidth / self._maximum)
        concurrency, throughput = self._observations[:, 0:3], self._observations[:, 3:6]
        return np.asarray(utility.automdt_utility(throughput, concurrency, k=self._k) / self._maximum)

    def _states(self) -> States:
        most = self._scenarios["max_concurrency"][:, None]
        now, before = self._observations, self._previous
        if self._stages == 1:
            scale = np.column_stack([self._bandwidth, most])
            level = now[:, [1, 0]] / scale
            return np.hstack([level, level - before[:, [1, 0]] / scale]).astype(np.float32)
        free = now[:, 6:8] / self._scenarios["buffer_bytes"]
        return np.hstack([free, now[:, 3:6] / self._bandwidth[:, None], now[:, 0:3] / most]).astype(np.float32)

    def _end_in_same_step(self) -> dict[str, Any]:
        """Resets what has ended and answers the info that Gymnasium's `SAME_STEP` asks for."""
        ended = self._ended.copy()
        final_states = self._states()
        final_obs = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(ended):
            final_obs[index] = final_states[index]
        final_info = {"metrics": self._metrics.copy(), "_metrics": ended}
        self._begin(ended)
        return {
            "metrics": self._metrics.copy(),
            "final_obs": final_obs,
            "_final_obs": ended,
            "final_info": final_info,
            "_final_info": ended,
        }

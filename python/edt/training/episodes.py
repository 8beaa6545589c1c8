"""Episodes in the simulator, on one explored path that may change within them, and the reward of the moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from edt_simulator import Scenario, TransferVectorEnv, scenario_array
from edt_simulator.utility import automdt_maximum, edt_maximum
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from edt.training.path import PathEstimate

Reals = NDArray[np.float64]
States = NDArray[np.float32]

NETWORK = 1
MOST_STREAMS = 100
"""Most streams of any agent."""


@dataclass(frozen=True, kw_only=True)
class Variety:
    """How episodes differ from the explored path, so that the agent learns to answer and not to repeat one number."""

    changing: float = 0.5
    """Share of the episodes in which a stage loses capacity, from the beginning or in the middle."""
    least_capacity: float = 0.35
    """The least share of its capacity that a stage keeps; drawn log-uniformly up to 1."""
    stream_rate: tuple[float, float] = (0.85, 1.05)
    """The share of the explored rate that a stream moves, drawn for each episode: streams that grow slowly, or an
    exploration that was too bold, must not look like a path that is full."""
    noise: float = 0.03
    """Relative standard deviation of what is measured."""
    congestion_loss: float = 0.002
    """Loss for each multiple of the capacity that streams ask for beyond it; one stage only."""


STATIONARY = Variety(changing=0.0, stream_rate=(1.0, 1.0), noise=0.0, congestion_loss=0.0)
"""The papers' episodes: the explored path as it is, and exact measurements."""


def streams_for(path: PathEstimate) -> int:
    """The most streams that an agent for this path may choose: three times the largest optimum, 8 to 100."""
    return round(min(MOST_STREAMS, max(8.0, 3.0 * max(path.optimum))))


@dataclass
class Episodes:
    """Episodes of one length that begin together, each after one interval at a random concurrency as in both papers.

    States and rewards are those of `TransferVectorEnv`, but a reward is relative to the best utility on the path as it
    is at that moment, so that 1 is the best at any time. That is R_max of the papers where their optimum is at most
    1 / ln k (50.5 streams with k = 1.02) and within the agent's range; beyond, fewer streams are best.
    """

    path: PathEstimate
    count: int
    steps: int = 10
    maximum: int | None = None
    """Most streams of a stage; default `streams_for`."""
    variety: Variety = field(default_factory=Variety)
    seed: int = 0

    def __post_init__(self) -> None:
        self.maximum = streams_for(self.path) if self.maximum is None else self.maximum
        self._scenario = self._base()
        self._scale: Reals = np.ones((self.steps, self.count))
        self._step = 0
        self._seed: int | None = self.seed
        self._environment = TransferVectorEnv(
            scenario_array(self._scenario, self.count),
            stages=self.path.stages,
            episode_steps=self.steps,
            sampler=self._draw,
            k=self.path.k,
            autoreset_mode=AutoresetMode.DISABLED,
            threads=1,
        )

    @property
    def most(self) -> int:
        """Most streams of a stage."""
        return int(self._scenario.max_concurrency)

    def reset(self) -> States:
        """Begins new episodes; returns their first states, [episodes, state]."""
        self._step = 0
        states, _ = self._environment.reset(seed=self._seed)
        self._seed = None
        return states

    def step(self, concurrency: NDArray[Any]) -> tuple[States, Reals]:
        """Runs one interval at `concurrency` [episodes, stages]; returns states and rewards [episodes]."""
        states, rewards, *_ = self._environment.step(concurrency)
        rewards = rewards * self._scale[self._step]
        self._step += 1
        return states, rewards

    def _base(self) -> Scenario:
        path, bits = self.path, 8.0
        rates = [bits * rate for rate in path.stream_rate]
        limits = [bits * rate for rate in path.bandwidth]
        one = path.stages == 1
        return Scenario(
            stream_bps=(rates[0],) * 3 if one else (rates[0], rates[1], rates[2]),
            capacity_bps=(limits[0],) * 3 if one else (limits[0], limits[1], limits[2]),
            rtt_s=path.rtt_s,
            buffer_bytes=path.buffers,
            max_concurrency=float(self.maximum or MOST_STREAMS),
            noise=self.variety.noise,
            congestion_loss=self.variety.congestion_loss if one else 0.0,
        )

    def _draw(self, random: np.random.Generator, count: int) -> NDArray[np.void]:
        """Draws the paths of the next episodes, and how much their rewards have to be scaled at each step."""
        rows = scenario_array(self._scenario, count)
        least, stages = self.variety.least_capacity, self.path.stages
        changing = random.random(count) < self.variety.changing
        # The capacity of one stage, before and after a change at some step.
        shares = np.exp(random.uniform(np.log(least), 0.0, (2, count)))
        shares[0] = np.where(random.random(count) < 0.5, 1.0, shares[0])
        shares = np.where(changing, shares, 1.0)
        stage = random.integers(3, size=count) if stages == 3 else np.full(count, NETWORK)
        when = random.integers(1, self.steps, size=count)
        factors = np.ones((2, count, 3))
        factors[:, np.arange(count), stage] = shares
        # The first interval of an episode comes before its first step; a change holds from the next interval on.
        rows["change_s"][:, 0] = 0.0
        rows["change_s"][:, 1] = when + 0.5
        rows["change_capacity"][:, 0:2] = np.swapaxes(factors, 0, 1)
        rates = np.ones((count, 3))
        rates[:, NETWORK] = random.uniform(*self.variety.stream_rate, count)
        if stages == 1:
            rates[:] = rates[:, NETWORK : NETWORK + 1]
        rows["change_stream"][:, 0:2] = rates[:, None, :]
        before, after = (self._nominal() / self._best_at(factor, rates) for factor in factors)
        self._scale = np.where(np.arange(self.steps)[:, None] < when, before, after)
        return rows

    def _nominal(self) -> float:
        """What the environment's rewards are relative to: R_max of the whole path."""
        streams, limits = np.asarray(self._scenario.stream_bps), np.asarray(self._scenario.capacity_bps)
        if self.path.stages == 1:
            return float(edt_maximum(limits[NETWORK], streams[NETWORK], k=self.path.k))
        return float(automdt_maximum(limits, streams, k=self.path.k))

    def _best_at(self, factors: Reals, rates: Reals) -> Reals:
        """The best utility with each stage, and each of its streams, at a share of its rate, [episodes]."""
        chosen = slice(NETWORK, NETWORK + 1) if self.path.stages == 1 else slice(3)
        streams = (np.asarray(self._scenario.stream_bps) * rates)[:, chosen]
        limits = (np.asarray(self._scenario.capacity_bps) * factors)[:, chosen]
        # Beyond 1 / ln k streams a further one costs more than it brings, even where it moves as much as the first.
        useful = min(float(self.most), 1 / np.log(self.path.k))
        bottleneck = np.minimum(limits, streams * useful).min(axis=1, keepdims=True)
        counts = np.maximum(1.0, bottleneck / streams)
        return np.asarray((bottleneck * self.path.k**-counts).sum(axis=1))

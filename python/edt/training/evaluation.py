"""How good an agent is: against the best constant concurrency and the analytic optimum, and what it answers when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from edt.training.episodes import Episodes, Variety
from edt.training.networks import Policy
from edt.training.path import PathEstimate
from edt.training.ppo import Trained

Reals = NDArray[np.float64]
Chooser = Callable[[NDArray[np.float32]], NDArray[np.float64]]
"""Concurrency [episodes, stages] for states [episodes, state]."""

EPISODES = 2000


@dataclass(frozen=True)
class Comparison:
    """Mean rewards of a step as shares of R_max, over the same kind of episodes."""

    agent: float
    """Taking the mean action, or the most likely move."""
    sampled: float
    """Sampling actions, as the papers do."""
    constant: float
    """The best constant concurrency."""
    constant_streams: tuple[int, ...]
    analytic: float
    """Always n_i* = b / TPT_i of the explored path."""


def compare(trained: Trained, variety: Variety | None = None, episodes: int = EPISODES, seed: int = 1) -> Comparison:
    """Lets an agent and constants run the same number of fresh episodes."""
    path, most = trained.path, trained.policy.most
    variety = variety or trained.options.variety

    def score(choose: Chooser) -> float:
        return mean_reward(Episodes(path, episodes, trained.options.steps, most, variety, seed), choose)

    optimum = tuple(round(streams) for streams in path.optimum)
    constant = best_constant(optimum, most, score)
    return Comparison(
        agent=score(deciding(trained.policy)),
        sampled=score(sampling(trained.policy, seed)),
        constant=score(always(constant)),
        constant_streams=constant,
        analytic=score(always(optimum)),
    )


def mean_reward(episodes: Episodes, choose: Chooser) -> float:
    """The mean reward of a step, as a share of R_max."""
    state, rewards = episodes.reset(), []
    for _ in range(episodes.steps):
        state, reward = episodes.step(choose(state))
        rewards.append(reward.mean())
    return float(np.mean(rewards))


def deciding(policy: Policy) -> Chooser:
    """Takes the mean action, or the most likely move."""

    @torch.no_grad()
    def choose(states: NDArray[np.float32]) -> NDArray[np.float64]:
        given = torch.from_numpy(states)
        return np.asarray(policy.concurrency(policy.best(given), given).numpy(), np.float64)

    return choose


def sampling(policy: Policy, seed: int) -> Chooser:
    """Samples actions."""
    generator = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def choose(states: NDArray[np.float32]) -> NDArray[np.float64]:
        given = torch.from_numpy(states)
        return np.asarray(policy.concurrency(policy.sample(given, generator)[0], given).numpy(), np.float64)

    return choose


def always(streams: tuple[int, ...]) -> Chooser:
    """Keeps a constant concurrency."""

    def choose(states: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.tile(np.asarray(streams, np.float64), (len(states), 1))

    return choose


def best_constant(start: tuple[int, ...], most: int, score: Callable[[Chooser], float]) -> tuple[int, ...]:
    """The best constant concurrency: all values in turn, stage by stage, until no stage gains."""
    best, value = start, score(always(start))
    while True:
        before = best
        for stage in range(len(start)):
            for streams in range(1, most + 1):
                candidate = (*best[:stage], streams, *best[stage + 1 :])
                if candidate != best and (reward := score(always(candidate))) > value:
                    best, value = candidate, reward
        if best == before or len(start) == 1:
            return best


@dataclass(frozen=True)
class Answer:
    """What an agent answers to one state."""

    throughput: float
    """Share of the bandwidth that the network stage moved."""
    streams: float
    """Streams that moved it."""
    answer: tuple[float, ...]
    """The concurrency that the agent chooses next."""


def table(policy: Policy, path: PathEstimate) -> list[Answer]:
    """The agent's answers on its path with full, half and a third of the capacity, at several concurrencies."""
    answers = []
    for share in (1.0, 0.5, 0.35):
        for streams in sorted({1, *(max(1, round(part * max(path.optimum))) for part in (0.25, 0.5, 1.0, 1.5, 2.5))}):
            throughput = min(share, streams * path.stream_rate[len(path.stream_rate) // 2] / path.bottleneck)
            state = state_at(path, policy.most, throughput, streams)
            answers.append(Answer(throughput, streams, tuple(deciding(policy)(state[None])[0].tolist())))
    return answers


def state_at(path: PathEstimate, most: int, throughput: float, streams: float) -> NDArray[np.float32]:
    """The state of a path that has been moving that share of its bandwidth for a while; all stages move the same."""
    if path.stages == 1:
        return np.array([throughput, streams / most, 0.0, 0.0], np.float32)
    return np.array([1.0, 1.0, *[throughput] * 3, *[streams / most] * 3], np.float32)

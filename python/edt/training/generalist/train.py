"""Trains the generalist policy by analytic policy gradient: back through simulator, observations and policy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from edt.training.generalist.paths import HELD_OUT, Dice, Members, draw
from edt.training.generalist.policy import Pilot, Policy
from edt.training.generalist.simulator import WORST, Simulator, Truth

STRIDE = 1_000_003
"""Seeds of episodes from one seed of a training to the next."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train."""

    episodes: int = 800
    """Episodes, each on paths of its own."""
    singles: int = 320
    """Paths of an episode with one agent."""
    teams: int = 64
    """Paths of an episode with up to three agents."""
    intervals: int = 160
    """Intervals of an episode."""
    window: int = 32
    """Intervals that gradients flow back through at most, and after which the policy is updated."""
    learning_rate: float = 3e-3
    """Step size of Adam at first; it falls with half a cosine to a fiftieth."""
    gradient: float = 0.5
    """Most norm of a gradient."""
    excess: float = 0.25
    """Price of streams beyond 1.05 times the best, by their logarithm."""
    change: float = 0.03
    """Price of a change of the streams, by its logarithm, from the seventh interval on."""
    unequal: float = 0.1
    """Price of streams unlike those of the team, by the distance of logarithms."""
    seed: int = 0
    """Seed of weights and paths."""

    def validate(self) -> None:
        """A ValueError names what cannot be used."""
        if min(self.episodes, self.singles, self.intervals, self.window) < 1 or self.teams < 0:
            raise ValueError("episodes, paths with one agent, intervals and windows must be at least 1")
        most = (HELD_OUT - self.episodes) // STRIDE - 1
        if not 0 <= self.seed <= most:
            raise ValueError(f"the seed must be from 0 to {most}: beyond are paths that are held out")

    def episode_seed(self, episode: int) -> int:
        """Seed of the paths of an episode, below those that are held out."""
        return STRIDE * (self.seed + 1) + episode


@dataclass(frozen=True)
class Point:
    """One episode of the training curve."""

    episode: int
    seconds: float
    """Processor seconds."""
    reward: float
    utility: float
    """Mean share of the best utility."""


@dataclass
class Trained:
    """A trained policy and how its training went."""

    policy: Policy
    options: Options
    curve: list[Point] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """What the policy's file says of the training."""
        options, last = self.options, self.curve[-1]
        steps = options.episodes * options.intervals * (options.singles + 3 * options.teams)
        return {
            "seed": options.seed,
            "agent_intervals": steps,
            "processor_seconds": round(last.seconds),
            "reward": round(last.reward, 4),
            "options": asdict(options),
        }


def train(options: Options | None = None, progress: Callable[[Point], None] | None = None) -> Trained:
    """Trains a policy; deterministic for a seed on one machine, on one thread of PyTorch."""
    options = options or Options()
    options.validate()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    trained = Trained(Policy(), options)
    optimizer = torch.optim.Adam(trained.policy.parameters(), lr=options.learning_rate)
    updates = options.episodes * -(-options.intervals // options.window)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates, eta_min=options.learning_rate / 50)
    begin = time.process_time()
    for episode in range(options.episodes):
        reward, utility = run(trained, Dice(options.episode_seed(episode)), optimizer, schedule)
        trained.curve.append(Point(episode + 1, time.process_time() - begin, reward, utility))
        if progress:
            progress(trained.curve[-1])
    return trained


def run(
    trained: Trained,
    dice: Dice,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> tuple[float, float]:
    """One episode with an update after each window; the mean reward, and the mean share of the best utility."""
    options = trained.options
    paths, members = draw(dice, options.singles, options.teams, options.intervals)
    simulator = Simulator(paths, members, dice)
    pilot = Pilot(trained.policy, simulator.price)
    asked, total, utility, count = members.start, 0.0, 0.0, 0.0
    gained, present = torch.zeros(()), torch.zeros(())
    for interval in range(options.intervals):
        seen, truth = simulator.step(interval, asked)
        reward = rewards(options, members, seen.streams, truth) - changes(options, members, interval, pilot)
        gained, present = gained + (reward * truth.here).sum(), present + truth.here.sum()
        utility += float((truth.utility.detach().clamp(min=WORST) * truth.here).sum())
        asked = pilot.decide(seen, simulator.joins(interval))
        if (interval + 1) % options.window == 0 or interval + 1 == options.intervals:
            update(trained, -gained / present, optimizer)
            schedule.step()
            total, count = total + float(gained.detach()), count + float(present)
            gained, present = torch.zeros(()), torch.zeros(())
            simulator.detach()
            pilot.detach()
            asked = asked.detach()
    return total / count, utility / count


def rewards(options: Options, members: Members, streams: Tensor, truth: Truth) -> Tensor:
    """The reward of each agent: its utility, proportionally fair among agents, less what its streams cost others."""
    ratio = truth.utility.clamp(-0.09, 1.05)
    logarithm = streams.log()
    excess = torch.relu(logarithm - truth.best_streams.log() - 0.05)
    here, paths = truth.here, int(members.path.max()) + 1
    number = torch.zeros(paths).index_add(0, members.path, here).clamp(min=1.0)
    mean = torch.zeros(paths).index_add(0, members.path, logarithm * here) / number
    unequal = (logarithm - mean[members.path]).abs()
    return ((0.1 + ratio) / 1.1).log() - options.excess * excess - options.unequal * unequal


def changes(options: Options, members: Members, interval: int, pilot: Pilot) -> Tensor:
    """The price of the last change, of those that took part for more than six intervals."""
    settled = (interval - members.join > 6).float()
    return options.change * settled * pilot.step.abs()


def update(trained: Trained, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """One step of Adam, unless the gradient is no number."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(trained.policy.parameters(), trained.options.gradient)
    if bool(norm.isfinite()):
        optimizer.step()

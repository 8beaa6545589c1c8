"""A fluid simulator of paths through which gradients flow: all agents of all paths at once, one interval at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from edt.training.generalist.paths import MOST, Dice, Members, Paths

Law = Callable[[Tensor, Paths], Tensor]
"""The used share of the capacity for a load `[..., paths]`, and the paths."""

LOSS_WEIGHT = 10.0
"""B of the utility [Falcon eq. 4]."""
POLITE = 0.8
"""Beside streams of others that fill the path, no more of one's own are right than this share of theirs."""
GRID = 65
"""Numbers of streams that the best is searched among, from 1 to the most, by equal ratios."""
MOST_LOSS = 0.5
WORST = -1.0
"""Shares of the best utility below it count as this in means: where loss is dear there is no end to them."""
LEAST_RAMP = 0.05
"""Intervals; shorter ramps are as good as none."""


def knee(load: Tensor, paths: Paths) -> Tensor:
    """x (1 + x^p)^(-1 / p): proportional below the knee, 1 above it."""
    logarithm = load.log()
    bent: Tensor = logarithm - torch.nn.functional.softplus(paths.knee * logarithm) / paths.knee
    return bent.exp()


@dataclass(frozen=True)
class Observed:
    """What agents observe of an interval, tensors of `[agents]`."""

    rate: Tensor
    """What their streams moved, as measured."""
    streams: Tensor
    """What was applied."""
    loss: Tensor
    """Zero where nobody tells."""
    told: Tensor
    """1 where the loss is told, else 0."""


@dataclass(frozen=True)
class Truth:
    """How the interval really was, tensors of `[agents]`."""

    rate: Tensor
    utility: Tensor
    """As a share of the best that was possible."""
    best_streams: Tensor
    here: Tensor
    """1 for agents that take part, else 0."""


class Simulator:
    """Steps all agents; keeps what reaches from one interval into the next."""

    def __init__(self, paths: Paths, members: Members, dice: Dice, law: Law = knee) -> None:
        self.paths, self.members, self.law = paths, members, law
        intervals, agents = len(paths.block), len(members.path)
        path = members.path
        self.intervals, self.agents = intervals, agents
        self.price = paths.price[path]
        self.told = paths.told[path].float()
        self._capacity, self._stream = paths.by_interval(paths.capacity), paths.by_interval(paths.stream)
        self._tenants, self._files = paths.by_interval(paths.tenants), paths.by_interval(paths.files)
        best, best_streams = self.best()
        self._best = paths.by_interval(best)[:, path]
        self._best_streams = paths.by_interval(best_streams)[:, path]
        self._others = self.drawn_background(dice)
        noise = paths.noise[path]
        wild = torch.where(dice.uniform(0, 1, intervals, agents) < paths.outliers[path], 1.0, 0.0)
        wild = wild * dice.uniform(0.2, 0.7, intervals, agents).log()
        self._error = noise * dice.normal(intervals, agents) - 0.5 * noise**2 + wild
        self._loss_error = (0.3 * dice.normal(intervals, agents)).exp()
        self._ramp, self._lag, self._late = paths.ramp[path].clamp(min=LEAST_RAMP), paths.lag[path], paths.late[path]
        self._grown, self._asked = torch.zeros(agents), members.start
        self._measured = torch.ones(agents)

    def joins(self, interval: int) -> Tensor | None:
        """Who begins in this interval; `None` if nobody does."""
        first = self.members.join == interval
        return first if bool(first.any()) else None

    def step(self, interval: int, asked: Tensor) -> tuple[Observed, Truth]:
        """Lets an interval pass with so many streams `[agents]`; who joins begins with its own number."""
        members, path = self.members, self.members.path
        first = self.joins(interval)
        streams = torch.where(self._late, self._asked, asked)
        if first is not None:
            streams = torch.where(first, members.start, streams)
            asked = torch.where(first, members.start, asked)
            self._grown = torch.where(first, 0.0, self._grown)
        self._asked = asked
        here = ((members.join <= interval) & (members.leave > interval)).float()
        working = self.ramped(streams)
        total = self._tenants[interval].index_add(0, path, working * here)
        capacity = self._capacity[interval] * (1.0 - self._others[interval])
        moved, loss = self.carried(total, capacity, self._stream[interval], self._files[interval])
        rate = moved[path] * working / total[path].clamp(min=0.1)
        loss = loss[path]
        utility = rate * ((-self.price * streams).exp() - LOSS_WEIGHT * loss)
        now = rate * self._error[interval].exp()
        lag = self._lag if first is None else torch.where(first, 0.0, self._lag)
        self._measured = lag * self._measured + (1.0 - lag) * now
        seen_loss = loss * self._loss_error[interval] * self.told
        truth = Truth(rate, utility / self._best[interval], self._best_streams[interval], here)
        return Observed(self._measured, streams, seen_loss, self.told), truth

    def detach(self) -> None:
        """Ends the way of gradients into earlier intervals."""
        self._grown, self._asked, self._measured = (
            each.detach() for each in (self._grown, self._asked, self._measured)
        )

    def ramped(self, streams: Tensor) -> Tensor:
        """Streams at work on average over the interval: new ones approach their rate, others stop at once."""
        rest = (-1.0 / self._ramp).exp()
        start = torch.minimum(self._grown, streams)
        missing = streams - start
        self._grown = streams - missing * rest
        return streams - missing * self._ramp * (1.0 - rest)

    def carried(self, total: Tensor, capacity: Tensor, stream: Tensor, files: Tensor) -> tuple[Tensor, Tensor]:
        """What so many streams `[..., paths]` move together, and the share that is lost."""
        paths = self.paths
        load = (torch.minimum(total, files) * stream / capacity).clamp(min=1e-4)
        crowd = 1.0 + paths.contention * torch.relu(load / paths.onset - 1.0)
        loss = (paths.base_loss + paths.congestion_loss * torch.relu(load - 1.0)).clamp(max=MOST_LOSS)
        return capacity * self.law(load, paths) / crowd * (1.0 - loss), loss

    def best(self) -> tuple[Tensor, Tensor]:
        """The highest utility of an agent, and its streams, `[blocks, paths]`, if all agents do the same.

        Beside others' streams it counts only up to what is left of the path or to `POLITE` of theirs.
        """
        paths = self.paths
        own = torch.linspace(0.0, math.log(MOST), GRID).exp()[:, None, None]
        total = own * paths.agents.clamp(min=1.0) + paths.tenants
        capacity = paths.capacity * (1.0 - math.sqrt(2.0 / math.pi) * paths.background)
        moved, loss = self.carried(total, capacity, paths.stream, paths.files)
        utility = moved * own / total * ((-paths.price * own).exp() - LOSS_WEIGHT * loss)
        left = capacity / paths.stream - paths.tenants
        polite = torch.where(paths.tenants > 0, torch.maximum(left, POLITE * paths.tenants).clamp(min=1.0), float(MOST))
        utility = torch.where(own <= polite, utility, torch.full_like(utility, -math.inf))
        found = utility.max(0)
        return found.values.clamp(min=1e-6), own[:, 0, 0][found.indices]

    def drawn_background(self, dice: Dice) -> Tensor:
        """The share of the capacity that others take, `[intervals, paths]`: an Ornstein-Uhlenbeck process, its size."""
        deviation, found = self.paths.background, []
        state = deviation * dice.normal(len(deviation))
        for _ in range(self.intervals):
            state = 0.9 * state + math.sqrt(1.0 - 0.9**2) * deviation * dice.normal(len(deviation))
            found.append(state.abs().clamp(max=0.6))
        return torch.stack(found)

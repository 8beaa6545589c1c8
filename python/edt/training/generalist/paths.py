"""The family of paths that the generalist policy is trained on: what a path is made of, and how paths are drawn.

All rates are relative to a path's capacity as it begins, since the policy sees nothing but ratios: 10 Mbit/s and
400 Gbit/s are one problem. Time is counted in intervals. Paths may change at the beginnings of blocks, which are 6 to
14 intervals long, so that the best setting is computed once a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

MOST = 100
"""Most streams of an agent."""
BLOCK = (6, 15)
"""Intervals of a block: at least the first, fewer than the second."""
TEAM = 3
"""Agents of a team."""
FAIR_PRICE = math.log(1.02)
"""ln K of the policy `fair` [Falcon eq. 4]."""
FIRST = (1, 4, 4, 4, 8, 8, 12, 16, 24, 40)
"""Streams that agents begin with."""
HELD_OUT = 10**9
"""Seed of paths that are not trained on: training takes those below."""


class Dice:
    """Random tensors by a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Numbers from `low` to `high`."""
        return low + (high - low) * torch.rand(shape, generator=self.generator)

    def log_uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Numbers from `low` to `high` whose logarithms are uniform."""
        return self.uniform(math.log(low), math.log(high), *shape).exp()

    def chance(self, probability: float, *shape: int) -> Tensor:
        """Truths with this probability."""
        return torch.rand(shape, generator=self.generator) < probability

    def whole(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers from `low` on and below `high`."""
        return torch.randint(low, high, shape, generator=self.generator)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, generator=self.generator)

    def mixed(self, probability: float, value: Tensor, otherwise: float = 0.0) -> Tensor:
        """The values with this probability, else a constant."""
        return torch.where(self.chance(probability, *value.shape), value, torch.full_like(value, otherwise))


@dataclass(kw_only=True)
class Paths:
    """Paths and how they are measured: tensors of `[blocks, paths]`, then of `[paths]`."""

    capacity: Tensor
    """What all streams together move at most."""
    stream: Tensor
    """What one stream moves alone; streams that fill the path are capacity / stream."""
    tenants: Tensor
    """Streams of others, who neither come closer nor give way."""
    files: Tensor
    """Streams that find work; further ones are idle."""
    agents: Tensor
    """Agents of ours."""
    knee: Tensor
    """Sharpness of the knee: use is x (1 + x^knee)^(-1 / knee) of the load x."""
    contention: Tensor
    """What each multiple of `onset` beyond the first takes: use / (1 + contention * max(0, x / onset - 1))."""
    onset: Tensor
    """The load from which there is contention."""
    base_loss: Tensor
    """The share of segments that is lost whatever the load."""
    congestion_loss: Tensor
    """Further loss for each multiple of the capacity that streams ask for beyond it."""
    ramp: Tensor
    """Intervals in which new streams approach their rate (time constant)."""
    noise: Tensor
    """Relative standard deviation of what is measured."""
    outliers: Tensor
    """Probability that a measurement is far too low."""
    background: Tensor
    """Standard deviation of the share of the capacity that others take, which comes and goes."""
    lag: Tensor
    """Share of the previous measurement in the next."""
    late: Tensor
    """Whether a decision takes effect an interval late; what is observed is what was applied."""
    told: Tensor
    """Whether the system tells the loss."""
    price: Tensor
    """ln K of the policy."""
    block: Tensor
    """The block of each interval, `[intervals, paths]`."""

    def by_interval(self, values: Tensor) -> Tensor:
        """What of `[blocks, paths]` holds in each interval, `[intervals, paths]`."""
        return values.gather(0, self.block)


@dataclass(kw_only=True)
class Members:
    """The agents on the paths, tensors of `[agents]`."""

    path: Tensor
    """The number of the path."""
    join: Tensor
    """The first interval."""
    leave: Tensor
    """The interval after the last."""
    start: Tensor
    """Streams to begin with."""


def draw(dice: Dice, singles: int, teams: int, intervals: int) -> tuple[Paths, Members]:
    """Draws paths of the family: `singles` with one agent each, then `teams` with up to three that come and go."""
    blocks = intervals // BLOCK[0] + 1
    count = singles + teams
    ends = dice.whole(*BLOCK, blocks, count).cumsum(0)
    times = torch.arange(intervals)[:, None, None]
    block = (ends[None] <= times).sum(1)
    members, agents = drawn_members(dice, singles, teams, ends)
    paths = quiet_paths(fill_drawn(dice, singles, teams), blocks, block)
    paths.agents = agents
    vary_law(dice, paths)
    vary_measurement(dice, paths)
    vary_in_time(dice, paths)
    beside_tenants(dice, paths, singles)
    clean(dice, paths)
    price = dice.mixed(0.5, dice.log_uniform(math.log(1.005), math.log(1.05), count), FAIR_PRICE)
    paths.price = price
    return paths, members


def quiet_paths(fill: Tensor, blocks: int, block: Tensor) -> Paths:
    """Paths that never change, with a sharp knee and exact measurements; `fill` `[paths]` streams fill them."""
    count = len(fill)
    same = torch.ones(blocks, count)
    zero, one = torch.zeros(count), torch.ones(count)
    return Paths(
        capacity=same.clone(),
        stream=(1.0 / fill).expand(blocks, count).clone(),
        tenants=torch.zeros(blocks, count),
        files=torch.full((blocks, count), 1e9),
        agents=same.clone(),
        knee=60.0 * one,
        contention=zero.clone(),
        onset=one.clone(),
        base_loss=zero.clone(),
        congestion_loss=zero.clone(),
        ramp=zero.clone(),
        noise=zero.clone(),
        outliers=zero.clone(),
        background=zero.clone(),
        lag=zero.clone(),
        late=torch.zeros(count, dtype=torch.bool),
        told=torch.ones(count, dtype=torch.bool),
        price=FAIR_PRICE * one,
        block=block,
    )


def fill_drawn(dice: Dice, singles: int, teams: int) -> Tensor:
    """Streams that fill each path: 0.4 to 100, and for teams 3 to 100."""
    alone = dice.log_uniform(0.8, MOST, singles)
    few = dice.chance(0.1, singles)
    alone = torch.where(few, dice.log_uniform(0.4, 1.6, singles), alone)
    return torch.cat([alone, dice.log_uniform(3.0, MOST, teams)])


def drawn_members(dice: Dice, singles: int, teams: int, ends: Tensor) -> tuple[Members, Tensor]:
    """The agents, and how many there are in each block of each path.

    Of a team the second joins after two to six blocks, in half of the teams a third after six to ten, and in half of
    them one leaves after eleven to thirteen.
    """
    blocks = len(ends)
    path = torch.cat([torch.arange(singles), singles + torch.arange(teams).repeat_interleave(TEAM)])
    join = torch.zeros(len(path), dtype=torch.long)
    leave = torch.full_like(join, blocks)
    if teams:
        of_teams = join[singles:].view(teams, TEAM)
        of_teams[:, 1] = dice.whole(2, 7, teams)
        of_teams[:, 2] = torch.where(dice.chance(0.5, teams), dice.whole(6, 11, teams), blocks)
        leaver = dice.whole(0, TEAM, teams)
        leaves = torch.where(dice.chance(0.5, teams), dice.whole(11, 14, teams), blocks)
        leave[singles:].view(teams, TEAM)[torch.arange(teams), leaver] = leaves
    numbers = torch.arange(blocks)[:, None]
    here = ((numbers >= join) & (numbers < leave)).float()
    agents = torch.zeros(blocks, ends.shape[1]).index_add(1, path, here)
    begins = torch.cat([torch.zeros_like(ends[:1]), ends])
    join, leave = join.clamp(max=blocks), leave.clamp(max=blocks)
    first = torch.tensor(FIRST)[dice.whole(0, len(FIRST), len(path))].float()
    return Members(path=path, join=begins[join, path], leave=begins[leave, path], start=first), agents


def vary_law(dice: Dice, paths: Paths) -> None:
    """Knees from soft to sharp, contention, losses with and without load, streams that grow slowly."""
    count = paths.knee.numel()
    paths.knee = torch.where(
        dice.chance(0.4, count), dice.log_uniform(1.2, 4.0, count), dice.log_uniform(8.0, 60.0, count)
    )
    paths.contention = dice.mixed(0.5, dice.uniform(0.0, 2.0, count))
    paths.onset = dice.uniform(1.0, 2.0, count)
    usual = dice.mixed(0.35, dice.log_uniform(1e-5, 1e-3, count))
    paths.base_loss = torch.where(dice.chance(0.1, count), dice.log_uniform(1e-3, 2e-2, count), usual)
    paths.congestion_loss = dice.mixed(0.7, dice.log_uniform(1e-4, 2e-2, count))
    paths.ramp = dice.mixed(0.5, dice.uniform(0.2, 3.0, count))


def vary_measurement(dice: Dice, paths: Paths) -> None:
    """Noise from 1e-4 to 0.3, outliers, others' traffic, lag, decisions that come late, and loss that nobody tells."""
    count = paths.knee.numel()
    paths.noise = dice.log_uniform(1e-4, 0.3, count)
    paths.outliers = dice.mixed(0.3, dice.uniform(0.0, 0.15, count))
    paths.background = dice.mixed(0.4, dice.uniform(0.02, 0.2, count))
    paths.lag = dice.mixed(0.4, dice.uniform(0.1, 0.6, count))
    paths.late = dice.chance(0.15, count)
    paths.told = dice.chance(0.8, count)


def vary_in_time(dice: Dice, paths: Paths) -> None:
    """Capacity and rates of streams that jump both ways, rates that drift, and capacity that comes and goes."""
    blocks, count = paths.capacity.shape
    steps = dice.chance(0.07, blocks, count) & dice.chance(0.55, count)
    paths.capacity = paths.capacity * held(steps, dice.log_uniform(0.3, 3.0, blocks, count))
    steps = dice.chance(0.05, blocks, count) & dice.chance(0.25, count)
    drift = dice.mixed(0.2, dice.uniform(-0.7, 0.7, count)) * torch.linspace(0.0, 1.0, blocks)[:, None]
    paths.stream = paths.stream * held(steps, dice.log_uniform(0.5, 2.0, blocks, count)) * drift.exp()
    bursts = dice.chance(0.05, count) & (torch.arange(blocks)[:, None] % 2 == 1)
    paths.capacity = torch.where(bursts, 0.4 * paths.capacity, paths.capacity)
    # Where a stream alone asks for many times the capacity, losses leave nothing that is worth having.
    several = paths.agents.max(0).values > 1
    paths.capacity = torch.maximum(paths.capacity, torch.where(several, 2.0, 0.4) * paths.stream)


def held(steps: Tensor, levels: Tensor) -> Tensor:
    """A level of 1 that jumps to those of `levels` where there are steps, all `[blocks, paths]`."""
    level, found = torch.ones_like(levels[0]), []
    for step, following in zip(steps, levels, strict=True):
        level = torch.where(step, following, level)
        found.append(level)
    return torch.stack(found)


def beside_tenants(dice: Dice, paths: Paths, singles: int) -> None:
    """Others with 2 to 32 streams, on a seventh of the paths with one agent, who come and may go."""
    blocks, count = paths.capacity.shape
    streams = dice.log_uniform(2.0, 32.0, count).round()
    here = dice.chance(0.15, count) & (torch.arange(count) < singles)
    number, begin = torch.arange(blocks)[:, None], dice.whole(0, 8, count)
    present = (number >= begin) & (number < begin + dice.whole(4, blocks, count))
    paths.tenants = torch.where(here & present, streams, torch.zeros(()))
    paths.congestion_loss = torch.where(here, paths.congestion_loss.clamp(max=0.002), paths.congestion_loss)


def clean(dice: Dice, paths: Paths) -> None:
    """A quarter of the paths without noise and loss: there capacity grows in silence."""
    count = paths.knee.numel()
    here = dice.chance(0.25, count)
    for name in ("base_loss", "congestion_loss", "outliers", "background", "contention"):
        values = getattr(paths, name)
        setattr(paths, name, torch.where(here, torch.zeros_like(values), values))
    paths.noise = torch.where(here, dice.log_uniform(1e-4, 1e-3, count), paths.noise)
    paths.knee = torch.where(here, torch.full_like(paths.knee, 60.0), paths.knee)

"""Paths that training never draws: other laws than its knee, files that run out, a link that breaks down, scenes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from edt.training.generalist.paths import TEAM, Dice, Members, Paths, quiet_paths
from edt.training.generalist.simulator import Law, knee

INTERVALS = 60
CHANGE = 40
"""The interval in which the capacity of a clean path changes."""
JOINS = (0, 40, 80)
"""When the agents of a team begin."""
TOGETHER = 120
"""Intervals of a team."""


@dataclass(frozen=True)
class Scene:
    """Paths with their agents, and the law that holds on them."""

    paths: Paths
    members: Members
    law: Law = knee

    @property
    def intervals(self) -> int:
        """How long it lasts."""
        return len(self.paths.block)


def double_knee(load: Tensor, paths: Paths) -> Tensor:
    """Half of the capacity for a load of one half, the other half at two fifths of the slope."""
    del paths
    return torch.minimum(load, 0.5 + 0.4 * (load - 0.5)).clamp(max=1.0)


def dip(load: Tensor, paths: Paths) -> Tensor:
    """A knee, and three tenths less around a load of one half: a valley before the summit."""
    return knee(load, paths) * (1.0 - 0.3 * (-(((load - 0.5) / 0.12) ** 2)).exp())


def power_law(load: Tensor, paths: Paths) -> Tensor:
    """load ** 0.6 up to the capacity: each further stream brings less, from the first on."""
    del paths
    return (load**0.6).clamp(max=1.0)


def cliff(load: Tensor, paths: Paths) -> Tensor:
    """A knee, beyond half as many streams again as fill the path, four tenths of it."""
    return knee(load, paths) * torch.where(load > 1.5, 0.4, 1.0)


LAWS: dict[str, Law] = {"double knee": double_knee, "dip": dip, "power law": power_law, "cliff": cliff}


def plain(dice: Dice, count: int, noise: float = 0.03, fill: Tensor | None = None) -> Scene:
    """Paths that 2 to 60 streams fill, with this noise and without anything else."""
    fill = dice.log_uniform(2.0, 60.0, count) if fill is None else fill
    block = torch.zeros(INTERVALS, count, dtype=torch.long)
    paths = quiet_paths(fill, 1, block)
    paths.noise = torch.full((count,), noise)
    return Scene(paths, alone(count))


def alone(count: int, start: float = 4.0) -> Members:
    """One agent a path, from the beginning to the end."""
    zero = torch.zeros(count, dtype=torch.long)
    return Members(path=torch.arange(count), join=zero, leave=zero + 10**6, start=torch.full((count,), start))


def under_law(dice: Dice, count: int, law: Law) -> Scene:
    """Plain paths under another law."""
    scene = plain(dice, count)
    return Scene(scene.paths, scene.members, law)


def few_files(dice: Dice, count: int) -> Scene:
    """Plain paths whose files run out: from half as many again as fill the path down to a third of that."""
    scene = plain(dice, count)
    steps, fill = 12, 1.0 / scene.paths.stream[0]
    shares = torch.linspace(1.5, 0.33, steps)[:, None]
    block = (torch.arange(INTERVALS) * steps // INTERVALS)[:, None].expand(INTERVALS, count)
    paths = quiet_paths(fill, steps, block.contiguous())
    paths.noise, paths.files = scene.paths.noise, (shares * fill).clamp(min=1.0)
    return Scene(paths, scene.members)


def one_stream(dice: Dice, count: int) -> Scene:
    """Paths that a single stream fills, or nearly."""
    return plain(dice, count, fill=dice.uniform(0.5, 1.0, count))


def stepping(factor: float) -> Callable[[Dice, int], Scene]:
    """Clean paths whose capacity changes by a factor in the interval `CHANGE`."""

    def scene(dice: Dice, count: int) -> Scene:
        fill = dice.log_uniform(4.0, 24.0, count)
        late = (torch.arange(INTERVALS + CHANGE - 10) >= CHANGE).long()
        paths = quiet_paths(fill, 2, late[:, None].expand(-1, count).contiguous())
        paths.noise = torch.full((count,), 1e-3)
        paths.capacity[1] *= factor
        return Scene(paths, alone(count))

    return scene


def team(dice: Dice, count: int, fill: float = 15.0) -> Scene:
    """Three agents on each path, who join one after another."""
    del dice
    joins = torch.tensor(JOINS)
    block = (torch.arange(TOGETHER)[:, None] >= joins[1:]).sum(1)
    paths = quiet_paths(torch.full((count,), fill), TEAM, block[:, None].expand(-1, count).contiguous())
    paths.agents = torch.arange(1.0, TEAM + 1.0)[:, None].expand(TEAM, count)
    paths.noise = torch.full((count,), 0.03)
    path = torch.arange(count).repeat_interleave(TEAM)
    leave = torch.full((TEAM * count,), 10**6)
    members = Members(path=path, join=joins.repeat(count), leave=leave, start=torch.full((TEAM * count,), 4.0))
    return Scene(paths, members)


def beside(tenants: float, fill: float = 15.0) -> Callable[[Dice, int], Scene]:
    """One agent on each path beside so many streams of others."""

    def scene(dice: Dice, count: int) -> Scene:
        scene = plain(dice, count, fill=torch.full((count,), fill))
        scene.paths.tenants += tenants
        return scene

    return scene

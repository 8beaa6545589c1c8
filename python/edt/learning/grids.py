"""The settings at which surfaces are known: where entries were measured, and all whole numbers between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edt.learning.cells import Cells
from edt.learning.entries import NO_LIMIT, Flags, Floats, Ints, positions
from edt.learning.options import Options

DENSE = 64
"""Up to here a grid has every whole number; beyond, sixteen for each doubling."""


@dataclass(frozen=True)
class Grid:
    """All combinations of some values of the three parameters, each ascending."""

    parallelism: Ints
    concurrency: Ints
    pipelining: Ints

    @property
    def axes(self) -> tuple[Ints, Ints, Ints]:
        """The values in the order of settings."""
        return self.parallelism, self.concurrency, self.pipelining

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many there are of each."""
        return len(self.parallelism), len(self.concurrency), len(self.pipelining)

    @property
    def settings(self) -> Ints:
        """[points, 3], parallelism slowest and pipelining fastest."""
        return np.stack([axis.reshape(-1) for axis in np.meshgrid(*self.axes, indexing="ij")], axis=1)

    def has(self, settings: Ints) -> Flags:
        """[settings]: which of them are of this grid."""
        found: Flags = np.all(
            [np.isin(column, axis) for column, axis in zip(settings.T, self.axes, strict=True)], axis=0
        )
        return found

    def places(self, settings: Ints) -> Ints:
        """Where settings that belong to the grid stand in its order."""
        at = [np.searchsorted(axis, column) for axis, column in zip(self.axes, settings.T, strict=True)]
        found: Ints = np.ravel_multi_index(tuple(at), self.shape).astype(np.int64)
        return found

    def positions(self, axes: str) -> tuple[Floats, Floats, Floats]:
        """Where the values lie on the axes of the splines."""
        p, cc, pp = (positions(axis, axes) for axis in self.axes)
        return p, cc, pp


def nodes(classes: Sequence[Cells]) -> list[Grid]:
    """The grids that hold all settings of some classes.

    Settings without a limit of parallelism, of pipelining, or of both, have grids of their own: no limit is not a large
    number, and nothing lies between.
    """
    settings = np.unique(np.concatenate([cells.settings for cells in classes]), axis=0)
    kinds = (settings[:, [0, 2]] == NO_LIMIT) @ np.array([2, 1])
    return [Grid(*(np.unique(column) for column in settings[kinds == kind].T)) for kind in np.unique(kinds)]


def fine(grid: Grid, options: Options) -> Grid:
    """The grid on which a surface is given: between the nodes for parallelism and concurrency, at them for pipelining.

    Throughput is a surface over the first two for each value of the third [ASM section 4.1.2].
    """
    if options.grid == "measured":
        return grid
    return Grid(between(grid.parallelism), between(grid.concurrency), grid.pipelining)


def between(values: Ints) -> Ints:
    """The whole numbers from the first to the last, fewer where they are large."""
    first, last = int(values[0]), int(values[-1])
    dense = np.arange(first, min(last, DENSE) + 1)
    steps = np.arange(16 * int(np.ceil(np.log2(max(last / DENSE, 1)))) + 1)
    sparse = np.round(DENSE * 2.0 ** (steps / 16)).astype(np.int64)
    return np.unique(np.concatenate([values, dense, sparse[(sparse >= first) & (sparse <= last)]]))

"""The statistics of all loads of a cluster, placed on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edt.learning.cells import Cells
from edt.learning.entries import Floats
from edt.learning.grids import Grid


@dataclass(frozen=True)
class Measured:
    """What was measured on one grid, [loads, p, cc, pp]; counts of 0 where nothing was."""

    grid: Grid
    count: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, grid: Grid, loads: Sequence[Cells]) -> Measured:
        """Places the statistics of loads on a grid."""
        tables = np.zeros((3, len(loads), int(np.prod(grid.shape))))
        for row, cells in enumerate(loads):
            belongs = grid.has(cells.settings)
            places = grid.places(cells.settings[belongs])
            tables[:, row, places] = np.stack([cells.count, cells.mean, cells.squares])[:, belongs]
        count, mean, squares = tables.reshape(3, len(loads), *grid.shape)
        return cls(grid, count, mean, squares)

    @property
    def logarithms(self) -> Floats:
        """Binary logarithms of the means; NaN where nothing was measured."""
        return np.log2(np.where(self.count > 0, self.mean, np.nan))


def joined(parts: Sequence[Floats]) -> Floats:
    """What several grids hold for each load, side by side: [loads, settings of all grids]."""
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

"""Throughput surfaces: splines through what was measured, and confidence regions [ASM section 4.1.2]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edt.learning import deviations, splines
from edt.learning.believed import believed
from edt.learning.cells import Cells
from edt.learning.entries import Floats, Ints
from edt.learning.grids import Grid, fine, nodes
from edt.learning.maxima import Maximum, local_maxima, neighbourhood
from edt.learning.measured import Measured, joined
from edt.learning.options import Options
from edt.learning.sampling import separating

FLOOR = 0.5
"""A spline that swings below this share of the least throughput under its load is cut off there."""


@dataclass(frozen=True)
class Surface:
    """The throughput under one load, and its maximum."""

    load: float
    """External load: the share of the throughput that it costs against the lightest load known, from 0 to 1."""
    entries: int
    """Log entries behind it."""
    throughput: list[Floats]
    """Bytes per second on each grid, [p, cc, pp]."""
    deviation: list[Floats]
    """Standard deviations there, as shares of the throughput: the confidence region [ASM eq. 12]."""
    maxima: list[Maximum]
    """All local maxima, the highest first: that one is the surface maximum [ASM section 4.1.3]."""
    region: Ints
    """[settings, 3]: the neighbourhood of the surface maximum, of R_m [ASM section 4.1.4]."""


@dataclass(frozen=True)
class Surfaces:
    """All surfaces of a cluster, the lightest load first."""

    grids: list[Grid]
    surfaces: list[Surface]
    separating: Ints
    """[settings, 3]: where the surfaces lie furthest apart, R_c [ASM eq. 18]."""


@dataclass(frozen=True)
class Sheet:
    """The part of all surfaces of a cluster that is on one grid."""

    nodes: Grid
    grid: Grid
    values: Floats
    """[loads, p, cc, pp] at the nodes: bytes per second."""
    throughput: Floats
    """[loads, p, cc, pp] on the grid: the same."""
    deviation: Floats
    """[loads, p, cc, pp] on the grid: as shares of the throughput."""


def surfaces(loads: Sequence[Cells], options: Options) -> Surfaces:
    """The surfaces of the loads of one cluster."""
    measured = [Measured.of(grid, loads) for grid in nodes(loads)]
    values = believed(measured, options.axes)
    sheets = [sheet(each, 2**part, options) for each, part in zip(measured, values, strict=True)]
    levels = joined(values).mean(axis=1)
    shares = 1 - 2 ** (levels - levels.max())
    order = np.argsort(shares, kind="stable").tolist()
    found = [surface(sheets, index, float(shares[index]), loads[index].entries, options.axes) for index in order]
    settings = np.concatenate([each.grid.settings for each in sheets])
    apart = separating(settings, joined([each.throughput for each in sheets]), options.seed)
    return Surfaces([each.grid for each in sheets], found, apart)


def sheet(measured: Measured, values: Floats, options: Options) -> Sheet:
    """Draws the splines of all loads through their values at the nodes."""
    grid = fine(measured.grid, options)
    pairs = list(zip(measured.grid.positions(options.axes), grid.positions(options.axes), strict=True))
    p, cc, pp = (splines.basis(at, to) for at, to in pairs)
    least = FLOOR * values.reshape(len(values), -1).min(axis=1)
    throughput = np.maximum(splines.applied((p, cc, pp), values), least[:, None, None, None])
    p, cc, pp = (splines.linear(at, to) for at, to in pairs)
    at_nodes = deviations.of_nodes(measured, deviations.of_loads(measured, values, options.axes))
    return Sheet(measured.grid, grid, values, throughput, splines.applied((p, cc, pp), at_nodes))


def surface(sheets: Sequence[Sheet], index: int, load: float, entries: int, axes: str) -> Surface:
    """The surface of one load."""
    found = [
        (maximum, each)
        for each in sheets
        for maximum in local_maxima(each.throughput[index], each.values[index], each.grid, each.nodes, axes)
    ]
    found.sort(key=lambda pair: (-pair[0].throughput, pair[0].streams))
    highest, where = found[0]
    return Surface(
        load=load,
        entries=entries,
        throughput=[each.throughput[index] for each in sheets],
        deviation=[each.deviation[index] for each in sheets],
        maxima=[maximum for maximum, _ in found],
        region=neighbourhood(where.grid, highest),
    )

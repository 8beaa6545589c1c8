"""Throughput surfaces: splines through what was measured under each load, with confidence regions [ASM section 4.1.2]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import RBFInterpolator

from edt.learning import splines
from edt.learning.cells import Cells
from edt.learning.entries import Floats, Ints
from edt.learning.grids import Grid, fine, nodes
from edt.learning.loads import split
from edt.learning.maxima import Maximum, local_maxima, neighbourhood
from edt.learning.options import Options
from edt.learning.sampling import separating

PRIOR = 4.0
"""Repeated entries that what is believed of a deviation weighs as much as."""

UNKNOWN_DEVIATION = 0.15
"""The standard deviation, as a share, where neither repeated entries nor neighbours tell it."""

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
class Measured:
    """The statistics of all classes at the settings of one grid, [classes, p, cc, pp]; counts of 0 where nothing was measured."""

    grid: Grid
    count: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, grid: Grid, classes: Sequence[Cells]) -> Measured:
        """Places the statistics of classes on a grid."""
        tables = np.zeros((3, len(classes), int(np.prod(grid.shape))))
        for row, cells in enumerate(classes):
            belongs = grid.has(cells.settings)
            places = grid.places(cells.settings[belongs])
            tables[:, row, places] = np.stack([cells.count, cells.mean, cells.squares])[:, belongs]
        count, mean, squares = tables.reshape(3, len(classes), *grid.shape)
        return cls(grid, count, mean, squares)


@dataclass(frozen=True)
class Sheet:
    """The part of all surfaces of a cluster that is on one grid."""

    nodes: Grid
    grid: Grid
    values: Floats
    """[classes, p, cc, pp] at the nodes: bytes per second."""
    throughput: Floats
    """[classes, p, cc, pp] on the grid."""
    deviation: Floats
    """The same."""


def surfaces(classes: Sequence[Cells], options: Options) -> Surfaces:
    """The surfaces of the load classes of one cluster."""
    measured = [Measured.of(grid, classes) for grid in nodes(classes)]
    complete = completed(measured, options.axes)
    sheets = [sheet(each, 2**values, options) for each, values in zip(measured, complete, strict=True)]
    levels = joined(complete).mean(axis=1)
    loads = 1 - 2 ** (levels - levels.max())
    order = np.argsort(loads, kind="stable").tolist()
    found = [surface(sheets, index, float(loads[index]), classes[index].entries, options.axes) for index in order]
    settings = np.concatenate([each.grid.settings for each in sheets])
    apart = separating(settings, joined([each.throughput for each in sheets]), options.seed)
    return Surfaces([each.grid for each in sheets], found, apart)


def joined(parts: Sequence[Floats]) -> Floats:
    """[classes, settings of all grids]."""
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def completed(measured: Sequence[Measured], axes: str) -> list[Floats]:
    """Binary logarithms of the throughput at all nodes, [classes, p, cc, pp] for each grid.

    Where a class has no entry, it is taken to differ from the mean of the others as much as it does elsewhere.
    """
    with np.errstate(divide="ignore"):
        values = joined([np.where(each.count > 0, np.log2(each.mean), np.nan) for each in measured])
    level, effect = split(values)
    sizes = np.cumsum([each.count[0].size for each in measured])[:-1]
    parts = zip(measured, np.split(effect, sizes), np.split(values, sizes, axis=1), strict=True)
    found = []
    for each, effects, part in parts:
        expected = level[:, None] + spread(each.grid, effects, axes)
        found.append(np.where(np.isfinite(part), part, expected).reshape(each.count.shape))
    return found


def spread(grid: Grid, effects: Floats, axes: str) -> Floats:
    """The effects of all settings of a grid, from those of the ones that some class measured."""
    known = np.isfinite(effects)
    if known.all():
        return effects
    p, cc, pp = np.meshgrid(*grid.positions(axes), indexing="ij")
    points = np.stack([p.reshape(-1), cc.reshape(-1), pp.reshape(-1)], axis=1)
    between = RBFInterpolator(points[known], effects[known], kernel="linear", degree=0)
    return np.where(known, effects, between(points))


def sheet(measured: Measured, values: Floats, options: Options) -> Sheet:
    """Draws the splines of all classes through their values at the nodes."""
    grid = fine(measured.grid, options)
    pairs = list(zip(measured.grid.positions(options.axes), grid.positions(options.axes), strict=True))
    p, cc, pp = (splines.basis(at, to) for at, to in pairs)
    least = FLOOR * values.reshape(len(values), -1).min(axis=1)
    throughput = np.maximum(splines.applied((p, cc, pp), values), least[:, None, None, None])
    p, cc, pp = (splines.linear(at, to) for at, to in pairs)
    deviation = splines.applied((p, cc, pp), deviations(measured, values, options.axes))
    return Sheet(measured.grid, grid, values, throughput, deviation)


def deviations(measured: Measured, values: Floats, axes: str) -> Floats:
    """Standard deviations at the nodes, as shares of the throughput, [classes, p, cc, pp].

    Those of repeated entries [ASM eq. 14], the more so the more there are; behind them those of all repeated entries of the class,
    and behind these the difference between what was measured and the spline through its neighbours.
    """
    squares = np.divide(measured.squares, measured.mean**2, out=np.zeros_like(values), where=measured.count > 0)
    freedom = np.maximum(measured.count - 1, 0)
    whole = (slice(None), None, None, None)
    sums = [each.reshape(len(values), -1).sum(axis=1) for each in (squares, freedom)]
    of_class = (sums[0] + PRIOR * unlike_neighbours(measured, values, axes) ** 2) / (sums[1] + PRIOR)
    found: Floats = np.sqrt((squares + PRIOR * of_class[whole]) / (freedom + PRIOR))
    return found


def unlike_neighbours(measured: Measured, values: Floats, axes: str) -> Floats:
    """How much the entries of each class differ from the splines through all others on their lines, as a share, [classes]."""
    errors = []
    for axis, nodes_on_axis in enumerate(measured.grid.positions(axes)):
        # Of two neighbours, one says too little about the other.
        if len(nodes_on_axis) > 2:
            lines = np.moveaxis(values, axis + 1, -1)
            found = np.moveaxis(lines @ splines.without_itself(nodes_on_axis).T, -1, axis + 1)
            errors.append(found / values - 1)
    if not errors:
        return np.full(len(values), UNKNOWN_DEVIATION)
    # The mean over the axes of each, and of these the median, as a standard deviation: a few wild nodes are no noise.
    apart = np.abs(np.mean(errors, axis=0))
    medians = [np.median(row[count > 0]) if (count > 0).any() else np.nan for row, count in zip(apart, measured.count, strict=True)]
    return np.nan_to_num(1.4826 * np.array(medians), nan=UNKNOWN_DEVIATION)


def surface(sheets: Sequence[Sheet], index: int, load: float, entries: int, axes: str) -> Surface:
    """The surface of one class."""
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

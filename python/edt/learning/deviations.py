"""How far entries of the same setting and load lie from each other: the confidence region [ASM eq. 12 to 14]."""

from __future__ import annotations

import numpy as np

from edt.learning import splines
from edt.learning.entries import Floats
from edt.learning.measured import Measured

PRIOR = 4.0
"""Repeated entries that what is believed of a deviation beforehand weighs as much as."""

UNKNOWN = 0.15
"""The standard deviation, as a share, where neither repeated entries nor neighbours tell it."""

MOST = 0.5
"""A standard deviation beyond this is no noise, but a load that was measured at too few settings."""


def of_loads(measured: Measured, values: Floats, axes: str) -> Floats:
    """Standard deviations of single entries of each load, as shares of the throughput, [loads].

    Those of repeated entries, the more so the more there are; behind them, how far what was measured lies from the
    splines through the neighbours. `values` are the throughputs at all nodes, [loads, p, cc, pp].
    """
    squares, freedom = (each.reshape(len(values), -1).sum(axis=1) for each in repeated(measured))
    found: Floats = np.sqrt((squares + PRIOR * from_neighbours(measured, values, axes) ** 2) / (freedom + PRIOR))
    return found


def of_nodes(measured: Measured, loads: Floats) -> Floats:
    """The same for each node, [loads, p, cc, pp]: its own repeated entries, and behind them those of its load."""
    squares, freedom = repeated(measured)
    of_load = loads[:, None, None, None] ** 2
    found: Floats = np.sqrt((squares + PRIOR * of_load) / (freedom + PRIOR))
    return found


def repeated(measured: Measured) -> tuple[Floats, Floats]:
    """Squared deviations, as shares of the mean, and degrees of freedom of each node."""
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.where(measured.count > 0, measured.squares / measured.mean**2, 0.0)
    return squares, np.maximum(measured.count - 1, 0.0)


def from_neighbours(measured: Measured, values: Floats, axes: str) -> Floats:
    """How far the entries of each load lie from the spline surface through all others, as a share, [loads].

    The difference holds the noise of the entry and of those around it, as much as these weigh.
    """
    force, own, others = np.zeros_like(values), np.zeros(measured.grid.shape), np.zeros(measured.grid.shape)
    for axis, nodes in enumerate(measured.grid.positions(axes)):
        matrix = splines.stiffness(nodes)
        force += np.moveaxis(np.moveaxis(values, axis + 1, -1) @ matrix, -1, axis + 1)
        diagonal = np.diag(matrix)
        own += along(axis, diagonal)
        others += along(axis, (matrix**2).sum(axis=1) - diagonal**2)
    if not own.all():
        # Of two neighbours, one says too little about the other.
        return np.full(len(values), UNKNOWN)
    apart = np.abs(force / own / values) / np.sqrt(1 + others / own**2)
    # The median, as a standard deviation: a few wild nodes are no noise.
    pairs = zip(apart, measured.count > 0, strict=True)
    medians = [1.4826 * float(np.median(row[known])) if known.any() else UNKNOWN for row, known in pairs]
    return np.minimum(medians, MOST)


def along(axis: int, values: Floats) -> Floats:
    """Values on one of three axes, in a shape that spreads over the others."""
    return values.reshape([-1 if each == axis else 1 for each in range(3)])

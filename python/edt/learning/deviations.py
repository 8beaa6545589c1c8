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

    Those of repeated entries, the more so the more there are; behind them, how far what was measured lies from the splines
    through the neighbours. `values` are the throughputs at all nodes, [loads, p, cc, pp].
    """
    squares, freedom = (each.reshape(len(values), -1).sum(axis=1) for each in repeated(measured))
    found: Floats = np.sqrt((squares + PRIOR * from_neighbours(measured, values, axes) ** 2) / (freedom + PRIOR))
    return found


def of_nodes(measured: Measured, loads: Floats) -> Floats:
    """The same for each node, [loads, p, cc, pp]: its own repeated entries, and behind them what is true of its load."""
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
    """How far the entries of each load lie from the splines through all others on their lines, as a share, [loads].

    The difference holds the noise of the entry and of its neighbours, as much as these weigh.
    """
    differences, weights = [], np.zeros(measured.grid.shape)
    for axis, nodes in enumerate(measured.grid.positions(axes)):
        # Of two neighbours, one says too little about the other.
        if len(nodes) > 2:
            matrix = splines.without_itself(nodes)
            lines = np.moveaxis(values, axis + 1, -1)
            differences.append(np.moveaxis(lines @ matrix.T, -1, axis + 1) / values - 1)
            weights += np.moveaxis((matrix**2).sum(axis=1)[:, None, None], 0, axis)
    if not differences:
        return np.full(len(values), UNKNOWN)
    apart = np.abs(np.mean(differences, axis=0)) / np.sqrt(1 + weights / len(differences) ** 2)
    known = measured.count > 0
    # The median, as a standard deviation: a few wild nodes are no noise.
    medians = [1.4826 * float(np.median(row[own])) if own.any() else UNKNOWN for row, own in zip(apart, known, strict=True)]
    return np.minimum(medians, MOST)

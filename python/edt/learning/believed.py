"""What each load is believed to give at each node: what was measured, and what the other loads make likely.

The paper's surfaces run through the mean of the entries of each setting [ASM section 4.1.2]. A single entry is noise to
a good part, though, and the highest of many the more so. So each mean is moved towards what is expected of its setting
under its load, as far as its noise and the differences between loads say (an empirical Bayes estimate); means of many
entries are left where they are. This also gives the settings that were never measured under a load.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import RBFInterpolator

from edt.learning import deviations
from edt.learning.entries import Floats
from edt.learning.grids import Grid
from edt.learning.loads import split
from edt.learning.measured import Measured, joined


def believed(measured: Sequence[Measured], axes: str) -> list[Floats]:
    """Binary logarithms of the throughput at all nodes, [loads, p, cc, pp] for each grid."""
    values = joined([each.logarithms for each in measured])
    level, effect = split(values)
    sizes = np.cumsum([each.count[0].size for each in measured])[:-1]
    effects = zip(measured, np.split(effect, sizes), strict=True)
    expected = level[:, None] + np.concatenate([spread(each.grid, part, axes) for each, part in effects])
    complete = np.split(np.where(np.isfinite(values), values, expected), sizes, axis=1)
    noise = joined(
        [variance(each, part.reshape(each.count.shape), axes) for each, part in zip(measured, complete, strict=True)]
    )
    found = np.split(expected + credible(values - expected, noise), sizes, axis=1)
    return [part.reshape(each.count.shape) for each, part in zip(measured, found, strict=True)]


def credible(residual: Floats, noise: Floats) -> Floats:
    """What the noise leaves of differences from what was expected, [loads, nodes]; nothing where there are none.

    `noise` is the variance of each. What they vary by beyond it is due to the loads.
    """
    known = np.isfinite(residual)
    own = max(float((residual[known] ** 2 - noise[known]).mean()), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(noise > 0, own / (own + noise), 1.0)
    return np.where(known, share * np.nan_to_num(residual), 0.0)


def variance(measured: Measured, values: Floats, axes: str) -> Floats:
    """The variance of the logarithm of each mean, [loads, p, cc, pp]; `values` are logarithms at all nodes."""
    shares = deviations.of_loads(measured, 2**values, axes)[:, None, None, None]
    found: Floats = (shares / np.log(2)) ** 2 / np.maximum(measured.count, 1)
    return found


def spread(grid: Grid, effects: Floats, axes: str) -> Floats:
    """The effects of all nodes of a grid, from those of the ones that were measured under some load."""
    known = np.isfinite(effects)
    if known.all():
        return effects
    p, cc, pp = np.meshgrid(*grid.positions(axes), indexing="ij")
    points = np.stack([p.reshape(-1), cc.reshape(-1), pp.reshape(-1)], axis=1)
    between = RBFInterpolator(points[known], effects[known], kernel="linear", degree=0)
    return np.where(known, effects, between(points))

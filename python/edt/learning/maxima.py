"""Local maxima of a surface on the bounded integer grid, by the second partial derivative test [ASM section 4.1.3]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter

from edt.learning import splines
from edt.learning.entries import NO_LIMIT, Floats, Ints
from edt.learning.grids import Grid

RADIUS = 1
"""How far a neighbourhood reaches on the grid: r_d [ASM section 4.1.4]."""

FLAT = 1e-9
"""A curvature below this share of the strongest one is none, but what rounding leaves of it."""


@dataclass(frozen=True)
class Maximum:
    """A setting that gives more than those around it."""

    setting: tuple[int, int, int]
    """Parallelism, concurrency, pipelining."""
    throughput: float
    """Bytes per second."""

    @property
    def streams(self) -> int:
        """Streams that it takes."""
        parallelism, concurrency, _ = self.setting
        return concurrency if parallelism == NO_LIMIT else parallelism * concurrency


def local_maxima(throughput: Floats, values: Floats, grid: Grid, nodes: Grid, axes: str) -> list[Maximum]:
    """The local maxima of one surface; the highest point of all is always among them.

    A setting that none of its neighbours exceeds is a maximum if the Hessian there is negative definite [ASM eq. 15].
    At the bounds of the grid only the directions that lead along the bound count.
    """
    peaks = np.argwhere(throughput == maximum_filter(throughput, size=3, mode="nearest"))
    highest = np.unravel_index(int(np.argmax(throughput)), throughput.shape)
    at = tuple(zip(nodes.positions(axes), grid.positions(axes), strict=True))
    derivatives = [[splines.basis(knots, to, order) for order in range(3)] for knots, to in at]
    found = []
    for peak in peaks.tolist():
        inner = [axis for axis, size in enumerate(throughput.shape) if 0 < peak[axis] < size - 1]
        if tuple(peak) == highest or is_negative_definite(hessian(derivatives, values, peak)[np.ix_(inner, inner)]):
            p, cc, pp = (int(axis[place]) for axis, place in zip(grid.axes, peak, strict=True))
            found.append(Maximum((p, cc, pp), float(throughput[tuple(peak)])))
    return found


def hessian(derivatives: list[list[Floats]], values: Floats, place: list[int]) -> Floats:
    """The second derivatives of a spline at a point of the grid, [3, 3]."""
    found = np.zeros((3, 3))
    for one in range(3):
        for other in range(one, 3):
            orders = [(one == axis) + (other == axis) for axis in range(3)]
            p, cc, pp = (derivatives[axis][orders[axis]][place[axis]] for axis in range(3))
            found[one, other] = found[other, one] = np.einsum("p,c,q,pcq->", p, cc, pp, values)
    return found


def is_negative_definite(matrix: Floats) -> bool:
    """Whether the function falls off in every direction; true for no direction."""
    if matrix.size == 0:
        return True
    curvatures = np.linalg.eigvalsh(matrix)
    return bool(curvatures.max() < -FLAT * np.abs(curvatures).max())


def neighbourhood(grid: Grid, maximum: Maximum) -> Ints:
    """[settings, 3]: the settings around a maximum, itself among them."""
    near = []
    for axis, value in zip(grid.axes, maximum.setting, strict=True):
        place = int(np.searchsorted(axis, value))
        near.append(axis[max(place - RADIUS, 0) : place + RADIUS + 1])
    return Grid(*near).settings

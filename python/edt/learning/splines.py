"""Piecewise cubic splines with natural boundaries [ASM eq. 7 to 11].

As matrices, because a spline is linear in the values that it runs through.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline

from edt.learning.entries import Floats


def basis(nodes: Floats, at: Floats, derivative: int = 0) -> Floats:
    """[at, nodes]: what turns the values at ascending nodes into those of the spline, or of a derivative of it."""
    if len(nodes) == 1:
        return np.full((len(at), 1), float(derivative == 0))
    # The second derivative is 0 at both ends [ASM eq. 11].
    found: Floats = CubicSpline(nodes, np.eye(len(nodes)), bc_type="natural")(at, derivative)
    return found


def linear(nodes: Floats, at: Floats) -> Floats:
    """The same for lines between neighbours."""
    return np.stack([np.interp(at, nodes, row) for row in np.eye(len(nodes))], axis=1)


def stiffness(nodes: Floats) -> Floats:
    """[nodes, nodes]: the bending energy of the spline through some values as a quadratic form of them.

    Row i, divided by its diagonal, is what the value at node i differs by from the natural spline through all other
    nodes: that one bends least.
    """
    if len(nodes) < 3:
        return np.zeros((len(nodes), len(nodes)))
    bend, steps = basis(nodes, nodes, 2), np.diff(nodes)
    # The second derivative is a line between nodes; its square, integrated.
    ends = np.append(steps, 0.0) + np.append(0.0, steps)
    mass = np.diag(ends / 3) + np.diag(steps / 6, 1) + np.diag(steps / 6, -1)
    found: Floats = bend.T @ mass @ bend
    return found


def applied(matrices: tuple[Floats, Floats, Floats], values: Floats) -> Floats:
    """The values [..., p, cc, pp] with a matrix applied to each axis."""
    found: Floats = np.einsum("ip,jc,kq,...pcq->...ijk", *matrices, values, optimize=True)
    return found

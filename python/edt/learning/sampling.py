"""Where a sample tells most: the settings at which the surfaces lie furthest apart [ASM section 4.1.4]."""

from __future__ import annotations

import numpy as np

from edt.learning.entries import Floats, Ints

TRIED = 512
"""Settings that are tried: gamma [ASM eq. 17]."""

CHOSEN = 8
"""Settings that are chosen: lambda."""


def separating(settings: Ints, throughput: Floats, seed: int) -> Ints:
    """[chosen, 3]: of a uniform sample, the settings where the nearest two surfaces lie furthest apart [ASM eq. 18].

    `settings` are [points, 3], `throughput` [surfaces, points]. One surface needs no telling apart.
    """
    if len(throughput) < 2:
        return settings[:0]
    random = np.random.default_rng(seed)
    tried = random.choice(len(settings), size=min(TRIED, len(settings)), replace=False)
    # Between any two lies at least what lies between two neighbours in their order.
    least = np.diff(np.sort(throughput[:, tried], axis=0), axis=0).min(axis=0)
    return settings[tried[np.argsort(-least, kind="stable")[:CHOSEN]]]

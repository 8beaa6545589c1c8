"""Logs of transfers with known maxima, for tests of learning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from edt.learning.entries import Entries

POWERS = (1, 2, 4, 8, 16)
Throughput = Callable[[int, int, int], float]


def hill(p: int, cc: int, pp: int) -> float:
    """A throughput with one maximum, at 4 streams for each of 8 files and pipelining 4."""
    off = (math.log2(p) - 2) ** 2 + (math.log2(cc) - 3) ** 2 + (math.log2(pp) - 2) ** 2
    return 1e8 * math.exp(-off / 8)


def log(
    throughput: Throughput = hill,
    *,
    began_s: float = 0.0,
    factor: float = 1.0,
    size: float = 1e6,
    rtt_s: float = 0.04,
    values: tuple[int, ...] = POWERS,
) -> dict[str, Any]:
    """The columns of one pass through all settings, ten seconds each."""
    settings = [(p, cc, pp) for p in values for cc in values for pp in values]
    rows = len(settings)
    return {
        "began_s": began_s + 10.0 * np.arange(rows),
        "source": ["a"] * rows,
        "destination": ["b"] * rows,
        "bandwidth": [1.25e9] * rows,
        "rtt_s": [rtt_s] * rows,
        "files": [1000] * rows,
        "bytes": [1000 * size] * rows,
        "parallelism": [p for p, _, _ in settings],
        "concurrency": [cc for _, cc, _ in settings],
        "pipelining": [pp for _, _, pp in settings],
        "throughput": [factor * throughput(*setting) for setting in settings],
    }


def entries(*columns: dict[str, Any]) -> Entries:
    """The entries of some logs."""
    return Entries.joined([Entries.of(each) for each in columns])


def features(size: float, rtt_s: float = 0.04) -> dict[str, float]:
    """What is known of a transfer."""
    return {"mean_size": size, "rtt_s": rtt_s, "files": 1000}


DAY_S = 86_400.0
THREE_LOADS = [log(began_s=day * DAY_S, factor=factor) for day, factor in enumerate((0.5, 1.0, 0.25))]

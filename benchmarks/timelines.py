"""What the timeline of a transfer tells: means over a time, when it settled, and how equal transfers were."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from experiments.agents import NEAR

Sample = dict[str, Any]
"""What `edt cp --json` shows of half a second or less; it began where the one before it ended."""
Value = Callable[[Sample], float]

WINDOW_S = 3.0
"""How long a mean has to be good for its beginning to count as settled: three of the usual intervals."""
NEVER_S = 60.0
"""As how long counts what never came, where figures need a number."""
EQUAL = 0.97
"""Jain's index from which shares count as equal."""


def throughput_bps(sample: Sample) -> float:
    """Bits per second that left the network stage."""
    return float(8 * sample["throughput"]["network"])


def streams(sample: Sample) -> float:
    """Time-averaged streams."""
    return float(sample["concurrency"]["network"])


def spans(timeline: Sequence[Sample]) -> Iterator[tuple[float, float, Sample]]:
    """Every sample with the seconds at which it began and ended."""
    begin = 0.0
    for sample in timeline:
        yield begin, sample["elapsed_s"], sample
        begin = sample["elapsed_s"]


def mean(timeline: Sequence[Sample], value: Value, begin: float = 0.0, end: float = math.inf) -> float:
    """The mean over the time from `begin` to `end`, in seconds; 0 where nothing was told of it."""
    total = covered = 0.0
    for first, last, sample in spans(timeline):
        overlap = min(last, end) - max(first, begin)
        if overlap > 0:
            total += overlap * value(sample)
            covered += overlap
    return total / covered if covered else 0.0


def rows(timeline: Sequence[Sample]) -> list[list[float]]:
    """What results keep of a timeline: the end of each sample in seconds, Mbit/s, and streams."""
    return [
        [sample["elapsed_s"], round(throughput_bps(sample) / 1e6, 1), round(streams(sample), 1)] for sample in timeline
    ]


def near(best: float) -> float:
    """What is within 10 % of the best; below it also where that is negative."""
    return best - (1 - NEAR) * abs(best)


def settled(
    timeline: Sequence[Sample], value: Value, goal: float, begin: float = 0.0, end: float = math.inf
) -> int | None:
    """The first sample within a time from which the mean over a window, and that over all the rest, reach a goal.

    That of the rest is what "stays" means where everything has some noise. `None` if there is no such sample.
    """
    if not timeline:
        return None
    end = min(end, timeline[-1]["elapsed_s"])
    for index, (first, _, _) in enumerate(spans(timeline)):
        if first < begin or first + WINDOW_S > end + 1e-6:
            continue
        if mean(timeline, value, first, first + WINDOW_S) >= goal and mean(timeline, value, first, end) >= goal:
            return index
    return None


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness, from 1 / n to 1; that of nothing at all is 1."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0

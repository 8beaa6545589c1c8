"""How an optimizer did in a cell of the grid, beside constants over the same path."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cells import Cell
from experiments.agents import utility
from points import Point
from timelines import Sample, Value, mean, near, settled, streams, throughput_bps

UTILITY_BAR = 0.9
GOODPUT_BAR = 0.95
INTERVALS_BAR = 5
SECONDS_BAR = 10.0
STREAMS_BAR = 1.3
USUAL = (4, 8)
"""The constants that people take: nobody is to be worse off than with the better one."""


@dataclass(frozen=True)
class Constant:
    """What a constant brought: means over the repetitions."""

    streams: int
    utility: float
    """Over the whole time."""
    settled: float
    """Over the last two thirds, when slow start is over."""
    goodput_bps: float


@dataclass(frozen=True)
class Yardstick:
    """What optimizers are held to in a cell."""

    best: Constant
    optimum: int
    """The streams of the best constant, or the closed form's where those are more."""
    usual_bps: float
    """Goodput of the better one of the usual constants."""
    settled: float
    """The highest utility that any constant settled at, which need not be the one that is best over the whole time."""


@dataclass(frozen=True)
class Verdict:
    """How an optimizer did in a cell: means over the repetitions, but the median of when it converged."""

    cell: Cell
    name: str
    utility: float
    share: float
    """Of the utility of the best constant."""
    goodput: float
    """Of that of the better one of the usual constants."""
    intervals: float
    """Until it was within 10 % of the highest that a constant settled at, and stayed there; infinite if never."""
    seconds: float
    streams: float
    """Mean streams from then on, or over the second half if there was no such time."""
    excess: float
    """Of the streams over the optimum."""
    overruled: float
    """Share of the time in which the guard had put its own decision in the place of the optimizer's."""
    failed: str = ""

    @property
    def missed(self) -> list[str]:
        """The bars that it misses."""
        bars = {
            "failed": bool(self.failed),
            "utility": self.share < UTILITY_BAR,
            "goodput": self.goodput < GOODPUT_BAR,
            "convergence": not self.converged,
            "streams": self.excess > STREAMS_BAR,
        }
        return [name for name, missed in bars.items() if missed]

    @property
    def converged(self) -> bool:
        """Whether it was soon where it should be."""
        return self.intervals <= INTERVALS_BAR and self.seconds <= SECONDS_BAR


def utility_over(rate_bps: float) -> Value:
    """The utility of a sample over a path of that rate."""
    return lambda sample: utility(sample, rate_bps)


def constants(cell: Cell, points: Sequence[Point], seconds: float) -> list[Constant]:
    """What each constant brought."""
    found = []
    for count in sorted({int(point["name"].split()[1]) for point in points if is_constant(point)}):
        each = [
            brought(cell, point, seconds) for point in points if point["name"] == f"fixed {count}" and is_made(point)
        ]
        if each:
            found.append(Constant(count, *(statistics.mean(values) for values in zip(*each, strict=True))))
    return found


def brought(cell: Cell, point: Point, seconds: float) -> tuple[float, ...]:
    """What a transfer with a constant brought: utility, that of its last two thirds, and goodput, as in `Constant`."""
    if "brought" in point:
        return tuple(point["brought"])
    timeline: Sequence[Sample] = point["timeline"]
    worth = utility_over(cell.rate_bps)
    late = mean(timeline, worth, seconds / 3, seconds)
    return mean(timeline, worth, 0.0, seconds), late, mean(timeline, throughput_bps, 0.0, seconds)


def is_made(point: Point) -> bool:
    """Whether a transfer was made: its timeline is there, or what it brought, of which results tell."""
    return bool(point["timeline"]) or "brought" in point


def failed_constants(cell: Cell, points: Sequence[Point]) -> list[str]:
    """The constants of which every transfer failed, so that the cell has no yardstick."""
    found = []
    for count in sorted({*USUAL, cell.optimum}):
        own = [point for point in points if point["name"] == f"fixed {count}"]
        if own and not any(map(is_made, own)):
            found.append(f"fixed {count}")
    return found


def is_constant(point: Point) -> bool:
    """Whether it was a transfer with a constant concurrency."""
    return bool(point["name"].startswith("fixed "))


def yardstick(cell: Cell, points: Sequence[Point], seconds: float) -> Yardstick | None:
    """What optimizers are held to; `None` until the usual constants and some more are measured."""
    found = {constant.streams: constant for constant in constants(cell, points, seconds)}
    if any(count not in found for count in (*USUAL, cell.optimum)):
        return None
    best = max(found.values(), key=lambda constant: constant.utility)
    usual = max(found[count].goodput_bps for count in USUAL)
    highest = max(constant.settled for constant in found.values())
    return Yardstick(best, max(best.streams, cell.optimum), usual, highest)


def verdict(cell: Cell, name: str, points: Sequence[Point], by: Yardstick, seconds: float) -> Verdict:
    """How an optimizer did; one that failed in any repetition failed, and has nothing."""
    own = [point for point in points if point["name"] == name]
    if failed := [point["failed"] for point in own if not point["timeline"]]:
        return Verdict(cell, name, 0.0, 0.0, 0.0, math.inf, math.inf, 0.0, math.inf, 0.0, str(failed[0]))
    each = [single(cell, point, by, seconds) for point in own]
    worths, goodputs, intervals, reached, used, guard = zip(*each, strict=True)
    worth, streams_used = statistics.mean(worths), statistics.mean(used)
    return Verdict(
        cell,
        name,
        worth,
        share_of(worth, by.best.utility),
        statistics.mean(goodputs),
        statistics.median(intervals),
        statistics.median(reached),
        streams_used,
        streams_used / by.optimum,
        statistics.mean(guard),
    )


def single(cell: Cell, point: Point, by: Yardstick, seconds: float) -> tuple[float, ...]:
    """One transfer: utility, goodput, intervals, seconds, streams, and the guard's share, as in `Verdict`."""
    timeline: Sequence[Sample] = point["timeline"]
    worth = utility_over(cell.rate_bps)
    index = settled(timeline, worth, near(by.settled), 0.0, seconds)
    reached = math.inf if index is None else float(timeline[index]["elapsed_s"])
    since = seconds / 2 if index is None else began(timeline, index)
    # The interval in which that was, counted from 1; known only where one was told of that ended after it.
    ends = point["intervals"]
    known = index is not None and any(end > since for end in ends)
    intervals = 1.0 + sum(end <= since for end in ends) if known else math.inf
    return (
        mean(timeline, worth, 0.0, seconds),
        mean(timeline, throughput_bps, 0.0, seconds) / by.usual_bps if by.usual_bps else 0.0,
        intervals,
        reached,
        mean(timeline, streams, since, seconds),
        mean(timeline, lambda sample: float(sample["overruled"]), 0.0, seconds),
    )


def began(timeline: Sequence[Sample], index: int) -> float:
    """When a sample began."""
    return float(timeline[index - 1]["elapsed_s"]) if index else 0.0


def share_of(value: float, best: float) -> float:
    """The share of the best; where no constant is worth anything, 1 for what is no worse and 0 for all else."""
    if best <= 0:
        return 1.0 if value >= best else 0.0
    return value / best

"""What copies with a right and with a wrong memory are held to."""

from __future__ import annotations

import pytest

from experiments import memory
from made_points import followed
from points import Point


def copied(kind: str, seconds: float, seed: int = 0, first: str = "") -> Point:
    """A copy of a gigabit over a path of 1 Gbit/s that took so long."""
    timeline = followed(*[(1 / seconds, 0.0)] * round(seconds))
    first = first or (
        "start: 8 streams, as 2 earlier copies on this path settled at 8 streams" if kind != "none" else ""
    )
    point = {"path": "a", "memory": kind, "seed": seed, "rate_bps": 1e9, "bytes": 1e9 / 8, "wall_s": seconds}
    return {**point, "timeline": timeline, "first": first}


def test_each_memory_is_compared_with_none_of_the_same_repetition() -> None:
    points = [copied("none", 4.0), copied("right", 2.0), copied("wrong", 5.0)]
    points += [{**copied("none", 1.0, 1), "timeline": [], "failed": "why"}, copied("right", 1.0, 1)]
    failed, begun, goodput, utility, slower, less = memory.figures(points)
    assert (failed.values, failed.passed) == ([1.0], False)
    assert (begun.values, begun.passed) == ([1.0], True)
    assert (goodput.values, goodput.passed) == ([2.0], True)
    assert utility.values == pytest.approx([2.0]) and utility.passed
    assert (slower.values, slower.passed) == ([0.8], False)
    assert less.values == pytest.approx([0.8]) and not less.passed
    assert [row[1:4] for row in memory.table(points).rows] == [
        ["none", "1", "250"],
        ["right", "2", "750"],
        ["wrong", "1", "200"],
    ]
    assert memory.said(points[3]) == "failed: why"


def test_a_copy_that_did_not_begin_by_its_memory_is_told() -> None:
    points = [copied("right", 2.0), copied("wrong", 2.0, first="start: 4 streams, nothing is known of the path")]
    begun = memory.figures(points)[1]
    assert (begun.values, begun.passed) == ([0.5], False)

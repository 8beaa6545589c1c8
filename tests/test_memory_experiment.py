"""What copies with a right and with a wrong memory are held to."""

from __future__ import annotations

import pytest

from experiments import memory
from made_points import followed
from points import Point


def copied(kind: str, seconds: float) -> Point:
    """A copy of a gigabit over a path of 1 Gbit/s that took so long."""
    timeline = followed(*[(1 / seconds, 0.0)] * round(seconds))
    return {"path": "a", "memory": kind, "rate_bps": 1e9, "bytes": 1e9 / 8, "wall_s": seconds, "timeline": timeline}


def test_each_memory_is_compared_with_none() -> None:
    points = [copied("none", 4.0), copied("right", 2.0), copied("wrong", 5.0)]
    failed, right, gain, wrong, loss = memory.figures(points)
    assert (failed.values, failed.passed) == ([0.0], True)
    assert (right.values, right.passed) == ([2.0], True)
    assert gain.values == pytest.approx([0.25])
    assert (wrong.values, wrong.passed) == ([0.8], False)
    assert loss.values == pytest.approx([-0.05])
    assert [row[1:4] for row in memory.table(points).rows] == [
        ["none", "1", "250"],
        ["right", "1", "500"],
        ["wrong", "1", "200"],
    ]


def test_a_copy_that_failed_is_counted_and_compared_with_nothing() -> None:
    points = [copied("none", 4.0), {**copied("right", 2.0), "timeline": [], "failed": "why"}]
    assert [(figure.values, figure.passed) for figure in memory.figures(points)] == [([1.0], False)]
    assert memory.said(points[1]) == "failed: why"

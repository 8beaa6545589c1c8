"""Optimizers over a path that changes, and several transfers over one path: when they are where they should be."""

from __future__ import annotations

import math

import pytest

from experiments import shares, steps
from made_points import followed, good, point
from points import Point


def changed(*phases: tuple[float, float], offset_s: float = 0.0) -> Point:
    """A transfer over three phases of 10 s, each with a share of the rate and streams."""
    intervals = [each for each in phases for _ in range(10)]
    return {**point("auto", *intervals), "path": "changing", "offset_s": offset_s}


def test_the_time_to_return_counts_from_the_change_of_the_path() -> None:
    best = [(1.0, 10), (0.5, 5), (1.0, 10)]
    late = changed(good(1.0), good(0.5), good(1.0))
    for number in (10, 11, 20):
        late["timeline"][number]["throughput"]["network"] = 0.0
    assert steps.back(late, best, 10.0) == [1.0, 3.0, 2.0]
    never = changed(good(1.0), good(0.3), good(1.0))
    assert steps.back(never, best, 10.0) == [1.0, math.inf, 1.0]
    # The transfer began 0.4 s after the path: its seconds end in the middle of those of the path.
    shifted = {**changed(good(1.0), good(0.5), good(1.0)), "offset_s": 0.4}
    assert steps.back(shifted, best, 10.0)[1] == pytest.approx(11 - 9.6)


def test_the_best_constant_of_a_phase_is_the_one_that_settles_highest_there() -> None:
    points = [
        {**changed(good(0.5), good(0.5), good(0.5)), "name": "fixed 5"},
        {**changed(good(1.0), good(0.4), good(0.9)), "name": "fixed 10"},
        changed(good(1.0), good(1.0), good(1.0)),
    ]
    assert [streams for _, streams in steps.best_constants(points, 10.0)] == [10, 5, 10]
    assert steps.best_constants(points[2:], 10.0) == []


def test_a_path_that_falls_again_at_once_has_fallen_twice() -> None:
    up, down = [1e9], [5e7]
    assert steps.collapses(up * 60) == 0
    assert steps.collapses(up * 5 + down * 30 + up * 5) == 1
    assert steps.collapses(up * 5 + down * 60 + up * 5) == 2
    assert steps.collapses(up * 5 + down * 30 + up * 5 + down * 4) == 2


def scene(scenario: str, *tenants: tuple[str, float, list[tuple[float, float]]]) -> Point:
    """A run of a scenario: names, begins, and intervals of a second."""
    told = [{"name": name, "offset_s": begin, "timeline": followed(*intervals)} for name, begin, intervals in tenants]
    return {"scenario": scenario, "name": "auto", "seed": 0, "tenants": told}


def test_phases_are_between_joins_and_leaves_of_more_than_one() -> None:
    alone, half, third = (1.0, 10.0), (0.5, 5.0), (1 / 3, 4.0)
    made = scene(
        "three",
        ("auto", 0.0, [alone] * 20 + [half] * 20 + [third] * 20),
        ("auto", 20.0, [half] * 20 + [third] * 20 + [half] * 20),
        ("auto", 40.0, [third] * 20 + [half] * 20 + [alone] * 20),
    )
    found = shares.phases(made, 20.0)
    assert [(each.begin, each.end, len(each.tenants)) for each in found] == [(20, 40, 2), (40, 60, 3), (60, 80, 2)]
    assert all(each.fairness() == pytest.approx(1.0) for each in found)
    assert [each.equal_s() for each in found] == [0.0, 0.0, 0.0]
    (row, *_) = shares.equal_table({"a": made}, 20.0).rows
    assert row == ["three: auto #0", "20 to 40 s", "500, 500", "5.0, 5.0", "10.0", "1.000", "0.0"]


def test_shares_are_equal_from_the_first_window_that_stays_so() -> None:
    slow = [(0.1, 1.0)] * 6 + [(0.5, 5.0)] * 34
    made = scene("two", ("auto", 0.0, [(0.9, 9.0)] * 26 + [(0.5, 5.0)] * 34), ("auto", 20.0, slow))
    (phase,) = shares.phases(made, 20.0)
    assert 4.0 <= phase.equal_s() <= 6.0
    assert phase.fairness() == pytest.approx(1.0)
    assert phase.least() == pytest.approx(1.0)
    dip = [(0.5, 5.0)] * 12 + [(0.1, 1.0)] * 4 + [(0.5, 5.0)] * 24
    (relapsed,) = shares.phases(scene("two", ("auto", 0.0, [(0.5, 5.0)] * 60), ("auto", 20.0, dip)), 20.0)
    assert relapsed.least() == pytest.approx(0.36 / 0.52) and relapsed.fairness() > 0.8
    unequal = scene("two", ("auto", 0.0, [(0.8, 8.0)] * 60), ("auto", 20.0, [(0.2, 2.0)] * 60))
    assert math.isinf(shares.phases(unequal, 20.0)[0].equal_s())
    assert shares.phases(unequal, 20.0)[0].fairness() == pytest.approx(1 / 1.36)


def test_a_constant_is_held_against_half_of_the_path() -> None:
    made = scene("fixed 8 joins", ("auto", 0.0, [(0.6, 12.0)] * 60), ("fixed 8", 20.0, [(0.4, 8.0)] * 40))
    assert dict(shares.kept(made, 20.0)) == {"auto": pytest.approx(1.2), "fixed 8": pytest.approx(0.8)}
    figures = {figure.what: figure for figure in shares.figures({"a": made}, 20.0)}
    assert figures["fixed 8 beside auto: least part of its fair share"].passed is False
    first, second = ("fixed 8", 0.0, [(0.6, 8.0)] * 60), ("fixed 8", 20.0, [(0.4, 8.0)] * 40)
    alike = {**scene("fixed 8 joins fixed 8", first, second), "name": shares.CONSTANTS}
    assert [part for _, part in shares.kept(alike, 20.0)] == pytest.approx([1.2, 0.8])
    figures = {figure.what: figure for figure in shares.figures({"a": made, "b": alike}, 20.0)}
    assert figures["fixed 8 that joins fixed 8: least part of its fair share"].values == [pytest.approx(0.8)]

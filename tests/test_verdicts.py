"""What is told of a transfer of the grid: means, when it settled, and how it did beside constants."""

from __future__ import annotations

import math

import pytest

import timelines
import verdicts
from made_points import cell, constants, followed, good, point, worth


def test_a_mean_weighs_by_time_and_takes_parts_of_intervals() -> None:
    timeline = followed(good(1.0), good(0.0), good(0.5))
    assert timelines.mean(timeline, worth) == pytest.approx(0.5)
    assert timelines.mean(timeline, worth, 0.5, 2.0) == pytest.approx(0.5 / 1.5)
    assert timelines.mean(timeline, worth, 2.5) == pytest.approx(0.5)
    assert timelines.mean(timeline, worth, 9.0) == timelines.mean([], worth) == 0.0


def test_it_has_settled_once_a_window_and_all_the_rest_are_good() -> None:
    slow = followed(good(0.2), good(0.6), good(0.95), good(0.8), good(1.0), good(0.9))
    assert timelines.settled(slow, worth, 0.9) == 2
    relapse = followed(*[good(1.0)] * 3, *[good(0.1)] * 6, *[good(1.0)] * 3)
    assert timelines.settled(relapse, worth, 0.9) == 9
    assert timelines.settled(relapse, worth, 0.9, end=9.0) is None
    assert timelines.settled(relapse, worth, 0.9, begin=9.5) is None
    assert timelines.settled(followed(good(0.5), good(1.0), seconds=4.0), worth, 0.9) == 1
    assert timelines.settled([], worth, 0.9) is None


def test_what_is_near_is_below_the_best_also_where_that_is_negative() -> None:
    assert timelines.near(1.0) == pytest.approx(0.9)
    assert timelines.near(-1.0) == pytest.approx(-1.1)


def test_jains_index_is_one_for_equal_shares_and_falls_to_one_of_all() -> None:
    assert timelines.jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert timelines.jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert timelines.jain([2.0, 1.0]) == pytest.approx(0.9)
    assert timelines.jain([0.0, 0.0]) == 1.0


def test_a_cell_is_judged_once_its_constants_are_there() -> None:
    where = cell()
    every = constants(where)
    by = verdicts.yardstick(where, every, 12.0)
    assert by and by.best.streams == by.optimum == 5
    assert by.best.utility == by.best.settled == pytest.approx(1.0)
    assert by.usual_bps == pytest.approx(0.6e9)
    assert verdicts.yardstick(where, [each for each in every if each["name"] != "fixed 8"], 12.0) is None
    assert verdicts.yardstick(where, [], 12.0) is None


def judged(*timelines: list[tuple[float, float]]) -> verdicts.Verdict:
    """What is thought of an optimizer in a cell, with these intervals in its repetitions."""
    where = cell()
    own = [point("auto", *intervals, seed=number) for number, intervals in enumerate(timelines)]
    every = [*constants(where), *own]
    by = verdicts.yardstick(where, every, 12.0)
    assert by
    return verdicts.verdict(where, "auto", every, by, 12.0)


def test_a_verdict_tells_utility_goodput_convergence_and_streams() -> None:
    found = judged([(0.0, 4.0)] * 2 + [(1.1, 5.0)] * 10)
    settled_at = 1.1 / 1.02**5
    assert found.utility == pytest.approx(10 * settled_at / 12)
    assert found.share == pytest.approx(found.utility)
    assert found.goodput == pytest.approx(1.1 * 10 / 12 / 0.6)
    assert (found.intervals, found.seconds) == (3.0, 3.0)
    assert found.streams == pytest.approx(5.0)
    assert found.missed == ["utility"]
    assert found.converged


def test_intervals_are_those_between_decisions_and_not_what_was_shown() -> None:
    where = cell()
    slow = {**point("auto", *[good(0.2)] * 5, *[good(1.0)] * 7), "intervals": [4.0, 8.0, 12.0]}
    by = verdicts.yardstick(where, constants(where), 12.0)
    assert by
    found = verdicts.verdict(where, "auto", [slow], by, 12.0)
    assert (found.intervals, found.seconds) == (2.0, 6.0)


def test_a_verdict_names_every_bar_that_is_missed() -> None:
    found = judged([(0.3, 10.0)] * 12)
    assert found.missed == ["utility", "goodput", "convergence", "streams"]
    assert math.isinf(found.intervals) and found.excess == pytest.approx(2.0)


def test_a_verdict_takes_the_mean_of_the_repetitions_as_of_constants() -> None:
    found = judged([good(0.2)] * 12, [good(0.95)] * 12, [good(1.0)] * 12)
    assert found.utility == found.share == pytest.approx(2.15 / 3)
    assert found.goodput == pytest.approx(2.15 / 3 / 0.6)
    assert (found.intervals, found.missed) == (1.0, ["utility"])


def test_who_settles_below_another_constant_than_the_best_has_not_converged() -> None:
    where = cell()
    late = point("fixed 8", *[good(0.0)] * 4, *[good(1.2)] * 8)
    every = [late if each["name"] == "fixed 8" else each for each in constants(where)]
    by = verdicts.yardstick(where, every, 12.0)
    assert by and by.best.streams == 5
    assert (by.best.settled, by.settled) == pytest.approx((1.0, 1.2))
    assert not verdicts.verdict(where, "auto", [point("auto", *[good(1.0)] * 12)], by, 12.0).converged


@pytest.mark.parametrize("ends", [[], [1.0, 2.0]], ids=["none", "cut off"])
def test_who_does_not_tell_of_its_intervals_has_not_converged(ends: list[float]) -> None:
    where = cell()
    by = verdicts.yardstick(where, constants(where), 12.0)
    assert by
    own = {**point("auto", *[good(0.2)] * 3, *[good(1.0)] * 9), "intervals": ends}
    found = verdicts.verdict(where, "auto", [own], by, 12.0)
    assert math.isinf(found.intervals) and found.missed == ["utility", "convergence"]


def test_one_that_failed_once_has_failed() -> None:
    where = cell()
    every = [*constants(where), point("auto", good()), {**point("auto"), "seed": 1, "failed": "lost"}]
    by = verdicts.yardstick(where, every, 12.0)
    assert by
    found = verdicts.verdict(where, "auto", every, by, 12.0)
    assert (found.failed, found.utility) == ("lost", 0.0)
    assert "failed" in found.missed


def test_where_no_constant_is_worth_anything_no_worse_counts_as_the_best() -> None:
    assert verdicts.share_of(-0.01, -0.01) == 1.0
    assert verdicts.share_of(-0.02, -0.01) == 0.0
    assert verdicts.share_of(0.45, 0.5) == pytest.approx(0.9)

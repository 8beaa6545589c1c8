"""The parts of the grid, the steps and the shares in which a mistake would pass for a figure."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import bench
import cells
import emulated
import grid_page
import page
import plots
import results
import run
import timed
import timelines
import tuned
import verdicts
from bench import Options
from cells import Cell
from experiments import grid, shares, steps
from harness import wait_until
from points import OutOfTime, Point
from processes import Failed, Measured, Workplace
from together import together

RATE_BPS = 1e9


def cell(**changes: Any) -> Cell:
    """A cell of the grid, capped at a fifth."""
    return Cell(**{"congestion": "cubic", "rate_mbps": 1000, "rtt_ms": 20, "loss": 0.0, "cap": 5, **changes})


def followed(*intervals: tuple[float, float], seconds: float = 1.0, rate_bps: float = RATE_BPS) -> list[dict[str, Any]]:
    """A timeline of intervals of this length: the share of the rate, and the streams."""
    return [
        {
            "elapsed_s": number * seconds,
            "throughput": {"network": share * rate_bps / 8},
            "concurrency": {"network": streams},
            "loss": None,
            "overruled": False,
        }
        for number, (share, streams) in enumerate(intervals, start=1)
    ]


def point(name: str, *intervals: tuple[float, float], **more: Any) -> Point:
    """A transfer that was measured."""
    timeline = followed(*intervals)
    ends = [sample["elapsed_s"] for sample in timeline]
    return {"name": name, "seed": 0, "build": "b", "timeline": timeline, "intervals": ends, **more}


def test_the_grid_has_96_cells_a_congestion_control_and_no_two_of_a_name() -> None:
    every = cells.grid(["cubic", "bbr"])
    assert len(every) == len({each.name for each in every}) == 2 * 96
    assert cells.grid(["cubic"]) == cells.grid(["cubic"])


def test_a_quick_run_has_every_value_of_every_parameter() -> None:
    quick = cells.chosen(cells.grid(["cubic"]), None, quick=True)
    assert len(quick) == len(cells.QUICK) == 10
    for name in ("rate_mbps", "rtt_ms", "loss", "cap"):
        values = {getattr(each, name) for each in cells.grid(["cubic"])}
        assert {getattr(each, name) for each in quick} == values


def test_cells_are_chosen_by_a_part_of_their_names() -> None:
    every = cells.grid(["cubic"])
    assert {each.rate_mbps for each in cells.chosen(every, "-2000M-", quick=True)} == {2000}
    (one,) = cells.chosen(every, "200M-20ms-loss0.1-cap20", quick=False)
    assert one == cell(rate_mbps=200, loss=0.001, cap=20)
    assert cells.chosen(every, "no such cell", quick=False) == []


@pytest.mark.parametrize(
    ("changes", "optimum"),
    [
        ({"cap": 5}, 5),
        ({"cap": 20}, 20),
        ({"cap": None}, 1),
        # 4 MiB a round trip of 200 ms are 168 Mbit/s.
        ({"cap": None, "rtt_ms": 200}, 6),
        # CUBIC's mean window is 56 segments there: 20 Mbit/s of 2 Gbit/s, so that no number fills the path.
        ({"cap": None, "rtt_ms": 200, "loss": 0.001, "rate_mbps": 2000}, 50),
        ({"cap": None, "rtt_ms": 200, "loss": 0.001, "rate_mbps": 2000, "congestion": "bbr"}, 12),
        ({"cap": 20, "rtt_ms": 1, "loss": 0.001}, 20),
    ],
)
def test_the_closed_form_is_where_streams_add_up_to_the_rate(changes: dict[str, Any], optimum: int) -> None:
    assert cell(**changes).optimum == optimum
    assert optimum in cell(**changes).constants or optimum <= 2


def test_constants_are_those_of_every_cell_and_some_around_the_optimum() -> None:
    assert cell(cap=None).constants == [1, 2, 4, 8]
    assert cell(cap=5).constants == [1, 2, 4, 5, 6, 7, 8]
    assert cell(cap=20).constants == [1, 2, 4, 8, 20, 24]
    assert cell(cap=None, rtt_ms=200, loss=0.001, rate_mbps=2000).constants == [1, 2, 4, 8, 30, 50, 60]


def test_windows_under_loss_are_those_of_the_standard() -> None:
    # RFC 9438, table 2: CUBIC with C = 0.4 at a round trip of 0.1 s.
    assert cells.window("cubic", 1e-3, 0.1) == pytest.approx(38.7, rel=0.02)
    assert cells.window("cubic", 1e-4, 0.1) == pytest.approx(187, rel=0.02)
    assert cells.window("reno", 1e-4, 0.1) == pytest.approx(120, rel=0.03)


def test_slow_cells_are_measured_side_by_side_and_fast_ones_alone() -> None:
    every = cells.grid(["cubic"])
    groups = cells.batches(every)
    assert sorted(each.name for group in groups for each in group) == sorted(each.name for each in every)
    for group in groups:
        assert len(group) == 1 or sum(each.rate_mbps for each in group) <= cells.MOST_TOGETHER_MBPS
        assert len(group) <= cells.MOST_AT_ONCE
    assert len(groups) < 75
    assert cells.batches([]) == []


def good(share: float = 1.0, streams: float = 0.0) -> tuple[float, float]:
    """An interval whose utility is its share, as long as there are no streams."""
    return share, streams


def worth(sample: dict[str, Any]) -> float:
    """The utility over the path of these tests."""
    return verdicts.utility_over(RATE_BPS)(sample)


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


def constants(each: Cell, best: int = 5) -> list[Point]:
    """Transfers with all constants of a cell, of which one is best; streams in excess of it cost nothing."""
    return [point(f"fixed {count}", *[good(1.0 if count == best else 0.6)] * 12) for count in each.constants]


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


@pytest.fixture
def kept(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results are kept and the page is written, in place of those of the repository."""
    for module in (bench, page, plots, results):
        monkeypatch.setattr(module, "FOLDER", scratch)
    for module in (bench, grid):
        monkeypatch.setattr(module, "KEPT", scratch / "tmp")
    monkeypatch.setattr(page, "PAGE", scratch / "RESULTS.md")
    monkeypatch.setattr(sys, "argv", ["run.py", "grid"])
    return scratch


def test_the_page_of_the_grid_lists_what_misses_a_bar_and_what_is_missing(kept: Path) -> None:
    first, second, third = cell(), cell(cap=20), cell(rtt_ms=80)
    found = {
        first: [*constants(first), point("falcon", *[good(0.5)] * 12), point("auto", *[good(1.0)] * 12)],
        second: [*constants(second, best=20), point("auto", *[good(0.3)] * 12)],
        third: constants(third)[:2],
    }
    made = grid_page.outcome(found, {third: 9}, 12.0, "full")
    assert made.scale == "full (part)"
    figures = {figure.what: figure for figure in made.figures}
    assert figures["auto: cells with at least 0.9 of the best constant's utility"].values == [0.5]
    assert figures["auto: cells converged within 5 intervals and 10 s"].passed is False
    assert figures["mean utility of auto less that of falcon, 1 cells"].passed is True
    summary, misses, every, fixed = made.tables
    assert [row[0] for row in summary.rows] == ["auto", "falcon"]
    assert [row[:2] for row in misses.rows] == [[second.name, "utility, goodput, convergence"]]
    assert [row[0] for row in every.rows] == [first.name, second.name]
    assert "**" in every.rows[1][3] and "**" not in every.rows[0][3]
    assert [row[0] for row in fixed.rows] == [first.name, second.name, third.name]
    results.keep(made, "")
    page.write()
    text = (kept / "RESULTS.md").read_text()
    assert "## grid" in text and f"Missing are 9 transfers of 1 cells: {third.name} (9)." in text
    assert grid_page.outcome({}, {}, 12.0, "full").scale == "full"


def test_a_cell_whose_constants_failed_counts_as_missed_and_is_told() -> None:
    first, second = cell(), cell(cap=20)
    failed = {"timeline": [], "failed": "lost"}
    found = {
        first: [*constants(first), point("auto", *[good(1.0)] * 12)],
        second: [
            *({**each, **failed} if each["name"] == "fixed 8" else each for each in constants(second)),
            point("auto", *[good(1.0)] * 12),
        ],
    }
    made = grid_page.outcome(found, {}, 12.0, "full")
    figures = {figure.what: figure for figure in made.figures}
    assert figures["cells without a yardstick, because constants failed"].passed is False
    assert figures["auto: cells with at least 0.9 of the best constant's utility"].values == [0.5]
    assert any(f"{second.name} (fixed 8)" in note for note in made.notes)
    whole = grid_page.outcome({first: found[first]}, {}, 12.0, "full")
    assert whole.figures[0].passed is True and not any("count as missed" in note for note in whole.notes)


def test_the_scale_tells_of_fewer_repetitions_and_shorter_transfers() -> None:
    assert Options().scale_beside(1, 12.0) == "quick"
    less = Options(quick=False, repetitions=1, seconds=10.0)
    assert less.scale_beside(5, 60.0) == "full, 1 of 5 repetitions, 10 of 60 s"
    assert Options(quick=False, repetitions=9, seconds=60.0).scale_beside(5, 60.0) == "full"


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
    assert shares.kept(made, 20.0) == {"auto": pytest.approx(1.2), "fixed 8": pytest.approx(0.8)}
    figures = {figure.what: figure for figure in shares.figures({"a": made}, 20.0)}
    assert figures["fixed 8 beside auto: least part of its fair share"].passed is False


CLIENT = """
import json, signal, sys, time

def tell(second):
    each = {"read": 1.0, "network": 1.0, "write": 1.0}
    totals = {"bytes_verified": int(second * 1e6)}
    print(json.dumps({"event": "sampled", "elapsed_s": second, "concurrency": each, "loss": None, "totals": totals}))
    sys.stdout.flush()

def tuned(reason):
    print(json.dumps({"event": "tuned", "decision": {"reason": reason}}))

signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
tell(1.0)
tell(1.0)
tuned("guard: back to 4")
tell(2.0)
tuned("falcon: 5")
tell(3.0)
if sys.argv[1] == "stays":
    time.sleep(60)
"""


def client(scratch: Path, word: str) -> Measured:
    """A program that tells of three intervals as `edt cp --json` does."""
    file = scratch / "client.py"
    file.write_text(CLIENT)
    return Measured([sys.executable, file, word], {})


def test_a_transfer_is_ended_after_its_time_and_its_intervals_are_kept(scratch: Path) -> None:
    found = timed.followed(client(scratch, "stays"), 3.0)
    assert [sample["elapsed_s"] for sample in found.timeline] == [1.0, 2.0, 3.0]
    assert [sample["overruled"] for sample in found.timeline] == [False, True, False]
    assert [sample["throughput"]["network"] for sample in found.timeline] == [1_000_000] * 3


def test_a_transfer_that_ends_before_its_time_has_failed(scratch: Path) -> None:
    with pytest.raises(Failed, match="ended with 0"):
        timed.followed(client(scratch, "ends"), 9.0)
    assert not Measured.running


def test_files_are_more_than_the_path_can_move_and_take_no_memory(scratch: Path) -> None:
    source = scratch / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_bytes(name.encode())
    found = list(timed.supply(source, Workplace(scratch), 1e9, 60.0).iterdir())
    assert len(found) * timed.FILE > 60 * 1e9 / 8
    assert {file.stat().st_ino for file in found} == {file.stat().st_ino for file in source.iterdir()}


def test_what_has_arrived_is_removed_and_what_is_on_its_way_is_not(scratch: Path) -> None:
    target, own = scratch / "target", scratch / "target" / ".edt"
    own.mkdir(parents=True)
    (own / "partial").touch()
    with timed.Sweeper(target):
        (target / "000000.bin").touch()
        wait_until(lambda: not (target / "000000.bin").exists(), "the end of what arrived")
    assert (own / "partial").exists()


def test_jobs_run_side_by_side_and_the_first_error_is_told() -> None:
    begin = time.monotonic()
    assert together([lambda over: over.wait(0.3), lambda over: over.wait(0.3)]) == [False, False]
    assert time.monotonic() - begin < 0.55

    def fails(_: object) -> bool:
        raise Failed("no path")

    with pytest.raises(Failed, match="no path"):
        together([lambda over: over.wait(0.0), fails])


def test_optimizers_are_those_of_this_build() -> None:
    assert {"auto", "falcon", "marlin", "model", "harp"} <= set(tuned.registered())
    assert set(tuned.AGENTS) <= set(tuned.registered())
    assert tuned.asked(None)[0] == "auto"
    assert tuned.asked(("harp", "falcon")) == ("harp", "falcon")
    with pytest.raises(Failed, match="no optimizer magic"):
        tuned.asked(("auto", "magic"))


def names(found: dict[str, Any]) -> Sequence[str]:
    """The cells of a result."""
    return list(found["points"])


def test_a_cell_is_measured_kept_and_told(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := emulated.missing():
        pytest.skip(f"no path can be emulated here: {reason}")
    monkeypatch.setattr(Cell, "constants", property(lambda _: [1, 4, 8]))
    options = Options(cells="50M-1ms-loss0-nocap", optimizers=("falcon",), seconds=2.0, repetitions=1)
    run.measure("grid", options)
    name = "cubic-50M-1ms-loss0-nocap"
    document = json.loads((kept / "grid.json").read_text())
    assert names(document) == [name]
    assert document["scale"] == "quick, 2 of 12 s (part)"
    points = json.loads((kept / "tmp" / "grid-quick" / f"{name}.json").read_text())["points"]
    assert sorted(points) == ["falcon #0", "fixed 1 #0", "fixed 4 #0", "fixed 8 #0"]
    goodput = document["points"][name]["usual_bps"]
    assert 0.6 * 50e6 < goodput < 1.05 * 50e6
    page.write()
    assert f"| {name} |" in (kept / "RESULTS.md").read_text()
    # Nothing is measured again, and nothing is begun after the time.
    again = Options(
        cells=options.cells,
        optimizers=("falcon", "marlin"),
        seconds=2.0,
        repetitions=1,
        resume=True,
        deadline=time.monotonic() - 1,
    )
    with pytest.raises(OutOfTime):
        list(grid.run(again))
    assert json.loads((kept / "tmp" / "grid-quick" / f"{name}.json").read_text())["points"] == points

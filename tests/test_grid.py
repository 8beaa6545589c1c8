"""The cells of the grid, what is kept of them, and the page that tells of them."""

from __future__ import annotations

import json
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
import tuned
from bench import Options
from cells import Cell
from experiments import grid
from made_points import cell, constants, good, point
from points import OutOfTime
from processes import Failed


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
    made = grid_page.outcome("cubic", found, {third: 9}, 12.0, "full")
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
    assert "## grid-cubic" in text and f"Missing are 9 transfers of 1 cells: {third.name} (9)." in text
    assert grid_page.outcome("cubic", {}, {}, 12.0, "full").scale == "full"


def test_cells_in_which_the_machine_was_too_busy_are_told() -> None:
    calm, late, slow = cell(), cell(cap=20), cell(rtt_ms=80)
    found = {
        calm: [{"late_ms": 0.5, "idle": 0.6}, {}],
        late: [{"late_ms": 5.5, "idle": 0.3}],
        slow: [{"late_ms": 0.5, "idle": 0.04}],
    }
    idle, first, second = grid_page.busy(found)
    assert "30 % of the time" in idle and "4 % at least" in idle
    assert first.endswith(f"too busy: {late.name}.") and second.endswith(f"limited it: {slow.name}.")
    assert grid_page.busy({calm: [{}]}) == []


def test_each_congestion_control_has_results_of_its_own() -> None:
    cubic, bbr, left = cell(), cell(congestion="bbr"), cell(congestion="reno")
    found = {each: [*constants(each), point("auto", *[good(1.0)] * 12)] for each in (cubic, bbr)}
    made = grid_page.outcomes(found, {left: 2}, 12.0, "full")
    assert [each.name for each in made] == ["grid-cubic", "grid-bbr", "grid-reno"]
    assert [list(each.points) for each in made] == [[cubic.name], [bbr.name], []]
    assert [each.scale for each in made] == ["full", "full", "full (part)"]


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
    made = grid_page.outcome("cubic", found, {}, 12.0, "full")
    figures = {figure.what: figure for figure in made.figures}
    assert figures["cells without a yardstick, because constants failed"].passed is False
    assert figures["auto: cells with at least 0.9 of the best constant's utility"].values == [0.5]
    assert any(f"{second.name} (fixed 8)" in note for note in made.notes)
    whole = grid_page.outcome("cubic", {first: found[first]}, {}, 12.0, "full")
    assert whole.figures[0].passed is True and not any("count as missed" in note for note in whole.notes)


def test_the_scale_tells_of_fewer_repetitions_and_shorter_transfers() -> None:
    assert Options().scale_beside(1, 12.0) == "quick"
    less = Options(quick=False, repetitions=1, seconds=10.0)
    assert less.scale_beside(5, 60.0) == "full, 1 of 5 repetitions, 10 of 60 s"
    assert Options(quick=False, repetitions=9, seconds=60.0).scale_beside(5, 60.0) == "full"


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
    document = json.loads((kept / "grid-cubic.json").read_text())
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

"""Optimizers against one another: who has more utility, and what failed."""

from __future__ import annotations

from experiments import rivals
from made_points import cell, good, point


def test_what_an_optimizer_has_more_than_another_is_told_over_the_cells_that_both_have() -> None:
    first, second, third = cell(), cell(rtt_ms=1), cell(rtt_ms=80)
    auto = [point("auto", *[good(share)] * 12) for share in (0.9, 0.7)]
    found = {
        first: [*auto, point("falcon", *[good(0.5)] * 12), {**point("harp"), "failed": "it fell"}],
        second: [
            point("auto", *[good(0.6)] * 12),
            point("falcon", *[good(0.7)] * 12),
            point("harp", *[good(0.9)] * 12),
        ],
        third: [point("falcon", *[good(1.0)] * 12)],
    }
    made = rivals.outcome(found, {third: 2}, 12.0, "quick")
    told = {figure.what: (round(figure.median, 6), figure.passed) for figure in made.figures}
    assert told == {
        "transfers that failed": (1.0, False),
        "mean utility of auto less that of falcon, 2 cells": (0.1, True),
        "mean utility of auto less that of harp, 1 cells": (-0.3, False),
    }
    assert made.scale == "quick (part)"
    assert any("Missing are 2 transfers of 1 cells" in note for note in made.notes)
    by_all, by_cell = made.tables
    assert [row[:5] for row in by_all.rows] == [
        ["auto", "2", "0", "0.700", "0.600"],
        ["falcon", "3", "0", "0.733", "0.500"],
        ["harp", "1", "1", "0.900", "0.900"],
    ]
    assert [row[-1] for row in by_all.rows] == ["-", "1", "0"]
    assert {row[0]: row[1:] for row in by_cell.rows}[third.name] == ["-", "1.000 (1,000, 0.0)", "-"]

"""Optimizers against one another over cells of the grid, with no constants: the utility that each has on average."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tuned
from bench import Options
from cells import Cell
from experiments.grid import Grid, measured
from grid_page import JUDGED, RIVALS, busy
from peers import versions
from points import Point
from results import Figure, Outcome, Table, number
from timelines import Sample, Value, mean, streams, throughput_bps
from verdicts import utility_over

SECONDS = (60.0, 60.0)
"""How long a transfer takes: also in a quick run as long as the bar says."""


@dataclass(frozen=True)
class Brought:
    """What an optimizer brought in a cell: means over the whole time and over the repetitions."""

    utility: float
    bps: float
    streams: float


Cells = dict[Cell, Brought]


class Rivals(Grid):
    """The cells at work, without constants."""

    name = "rivals"
    lasting = SECONDS
    usual = (JUDGED, *(name for name in RIVALS if name not in tuned.AGENTS))

    def runs(self, cell: Cell, seed: int) -> list[tuned.Run]:
        """What is measured in a cell: the optimizers alone."""
        return self.candidates(cell, seed)


def run(options: Options) -> Iterator[Outcome]:
    """Measures the cells that were asked for, those of a quick grid by default, and tells of all that are there.

    Raises:
        OutOfTime: after the outcome, if something of what was asked for is missing.
    """
    return measured(Rivals, lambda *found: [outcome(*found)], options)


def outcome(found: dict[Cell, list[Point]], missing: dict[Cell, int], seconds: float, scale: str) -> Outcome:
    """What is there: by optimizer, and by cell."""
    by = {name: brought(name, found, seconds) for name in names(found)}
    failed = {name: failures(name, found) for name in by}
    return Outcome(
        "rivals",
        f"One transfer of {seconds:g} s over each path with each optimizer, as in `grid`, but without constants: "
        "utility is EDT's, with the throughput as a share of the path's rate, over the whole transfer with its start.",
        figures(by, sum(failed.values())),
        f"{scale} (part)" if missing else scale,
        notes(found, missing),
        [summary(by, failed), every_cell(by)],
        {cell.name: {name: round(of[cell].utility, 4) for name, of in by.items() if cell in of} for cell in found},
        versions(["edt"]),
    )


def names(found: dict[Cell, list[Point]]) -> list[str]:
    """The optimizers that were measured, the judged one first."""
    every = dict.fromkeys(point["name"] for points in found.values() for point in points)
    return sorted(every, key=lambda name: name != JUDGED)


def brought(name: str, found: dict[Cell, list[Point]], seconds: float) -> Cells:
    """What an optimizer brought in each cell in which no transfer of it failed."""
    cells = {}
    for cell, points in found.items():
        timelines = [point["timeline"] for point in points if point["name"] == name]
        if timelines and all(timelines):
            values = utility_over(cell.rate_bps), throughput_bps, streams
            cells[cell] = Brought(*(over(timelines, value, seconds) for value in values))
    return cells


def over(timelines: Sequence[Sequence[Sample]], value: Value, seconds: float) -> float:
    """The mean of a value over the repetitions."""
    return statistics.mean(mean(timeline, value, 0.0, seconds) for timeline in timelines)


def failures(name: str, found: dict[Cell, list[Point]]) -> int:
    """How many transfers of an optimizer failed."""
    return sum(point["name"] == name and not point["timeline"] for points in found.values() for point in points)


def figures(by: dict[str, Cells], failed: int) -> list[Figure]:
    """The mean utility over the cells that both have, less that of another optimizer."""
    told = [Figure("transfers that failed", "", [float(failed)], at_most=0)]
    own = by.get(JUDGED, {})
    for name, cells in by.items():
        gaps = [own[cell].utility - cells[cell].utility for cell in cells if cell in own]
        if name != JUDGED and gaps:
            bar = 0.0 if name in RIVALS else None
            what = f"mean utility of {JUDGED} less that of {name}, {len(gaps)} cells"
            told.append(Figure(what, "", [statistics.mean(gaps)], at_least=bar))
    return told


def summary(by: dict[str, Cells], failed: dict[str, int]) -> Table:
    """Every optimizer over all of its cells."""
    own = by.get(JUDGED, {})
    rows = []
    for name, cells in by.items():
        both = [cell for cell in cells if cell in own]
        better = "-" if name == JUDGED else str(sum(own[cell].utility > cells[cell].utility for cell in both))
        goodput = [each.bps / cell.rate_bps for cell, each in cells.items()]
        utility = [each.utility for each in cells.values()]
        told = (
            [f"{statistics.mean(utility):.3f}", f"{min(utility):.3f}", f"{statistics.mean(goodput):.2f}"]
            if cells
            else ["-"] * 3
        )
        rows.append([name, str(len(cells)), str(failed[name]), *told, better])
    header = [
        "optimizer",
        "cells",
        "failed",
        "mean utility",
        "least utility",
        "mean throughput / rate",
        f"cells in which {JUDGED} has more",
    ]
    return Table("All cells", header, rows)


def every_cell(by: dict[str, Cells]) -> Table:
    """Every cell with every optimizer."""
    every = sorted({cell for cells in by.values() for cell in cells}, key=lambda cell: cell.name)
    rows = [[cell.name, *(shown(cells.get(cell)) for cells in by.values())] for cell in every]
    return Table("Every cell: utility (Mbit/s, mean streams)", ["cell", *by], rows)


def shown(each: Brought | None) -> str:
    """What an optimizer brought, in a few words."""
    return f"{each.utility:.3f} ({number(each.bps / 1e6)}, {each.streams:.1f})" if each else "-"


def notes(found: dict[Cell, list[Point]], missing: dict[Cell, int]) -> list[str]:
    """What one has to know to read the tables, and what is not there."""
    builds = {point["build"] for points in found.values() for point in points}
    texts = [f"{sum(map(len, found.values()))} transfers of {len(builds)} builds of edt and of what measures it."]
    if missing:
        left = ", ".join(f"{cell.name} ({count})" for cell, count in missing.items())
        texts.append(f"Missing are {sum(missing.values())} transfers of {len(missing)} cells: {left}.")
    return texts + busy(found)

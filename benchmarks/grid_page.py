"""What the grid tells: figures with their bars, a table of every cell, and a list of those that miss a bar."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TypeVar

import tuned
import verdicts
from cells import Cell
from peers import versions
from points import Point
from results import Figure, Outcome, Table, number
from verdicts import Constant, Verdict, Yardstick

JUDGED = "auto"
"""The optimizer that is held to the bars."""
RIVALS = ("falcon", "marlin", "harp", *tuned.AGENTS)
"""Those that it must be better than, on average over all cells."""
CELLS_UTILITY_BAR = 0.95
CELLS_CONVERGED_BAR = 0.9
LATE_MS = 5.0
"""From which lateness of the path its delay is not what it should be."""
IDLE = 0.1
"""Below which idle share of the processors they may be what limited a transfer."""

Value = TypeVar("Value")
Yardsticks = dict[Cell, Yardstick]


def outcomes(found: dict[Cell, list[Point]], missing: dict[Cell, int], seconds: float, scale: str) -> list[Outcome]:
    """What is there of the grid, by congestion control: each has results of its own."""
    controls = dict.fromkeys(cell.congestion for cell in (*found, *missing))
    return [outcome(control, of(control, found), of(control, missing), seconds, scale) for control in controls]


def of(control: str, every: dict[Cell, Value]) -> dict[Cell, Value]:
    """What there is of the cells of one congestion control."""
    return {cell: value for cell, value in every.items() if cell.congestion == control}


def outcome(
    control: str, found: dict[Cell, list[Point]], missing: dict[Cell, int], seconds: float, scale: str
) -> Outcome:
    """What is there of the cells; what is not whole has another scale, so that nobody takes it for the whole."""
    by = {cell: made for cell, points in found.items() if (made := verdicts.yardstick(cell, points, seconds))}
    judged = {name: judged_by(name, found, by, seconds) for name in names(found)}
    lost = {
        cell: failed
        for cell, points in found.items()
        if cell not in by and (failed := verdicts.failed_constants(cell, points))
    }
    return Outcome(
        f"grid-{control}",
        f"One transfer of {seconds:g} s over each path of the grid with each optimizer, guarded as always, and with "
        "constants; files of 16 MiB that do not run out, on tmpfs, with no history and no broker. Utility is EDT's, "
        "with the throughput as a share of the path's rate.",
        figures(judged, len(lost)),
        f"{scale} (part)" if missing else scale,
        notes(found, missing, lost),
        [summary(judged), misses(judged), every_cell(by, judged), all_constants(found, seconds)],
        {
            cell.name: brief(by[cell], [of[cell] for of in judged.values() if cell in of])
            | {"seconds": seconds, "constants": kept(cell, found[cell], seconds)}
            for cell in by
        },
        versions(["edt"]),
    )


def names(found: dict[Cell, list[Point]]) -> list[str]:
    """The optimizers that were measured, the judged one first."""
    every = dict.fromkeys(
        point["name"] for points in found.values() for point in points if not verdicts.is_constant(point)
    )
    return sorted(every, key=lambda name: name != JUDGED)


def judged_by(name: str, found: dict[Cell, list[Point]], by: Yardsticks, seconds: float) -> dict[Cell, Verdict]:
    """How an optimizer did in every cell in which it was measured."""
    return {
        cell: verdicts.verdict(cell, name, found[cell], yardstick, seconds)
        for cell, yardstick in by.items()
        if any(point["name"] == name for point in found[cell])
    }


def figures(judged: dict[str, dict[Cell, Verdict]], lost: int) -> list[Figure]:
    """What has a bar, of the optimizer that is judged, and how it does beside the others.

    Cells that are lost, for they have no yardstick, count as missed.
    """
    yardsticks = Figure("cells without a yardstick, because constants failed", "", [float(lost)], at_most=0)
    own = judged.get(JUDGED)
    if not own:
        return [yardsticks]
    every = list(own.values())
    part = len(every) / (len(every) + lost)
    good = part * share(every, lambda each: each.share >= verdicts.UTILITY_BAR)
    soon = part * share(every, lambda each: each.converged)
    bar = f"{verdicts.UTILITY_BAR} of the best constant's utility"
    limits = f"{verdicts.INTERVALS_BAR} intervals and {verdicts.SECONDS_BAR:g} s"
    found = [
        yardsticks,
        Figure(f"{JUDGED}: cells with at least {bar}", "", [good], at_least=CELLS_UTILITY_BAR),
        Figure(f"{JUDGED}: utility / best constant's, by cell", "", [each.share for each in every]),
        Figure(
            f"{JUDGED}: least goodput of any cell / better of fixed {verdicts.USUAL[0]} and {verdicts.USUAL[1]}",
            "",
            [min(each.goodput for each in every)],
            at_least=verdicts.GOODPUT_BAR,
        ),
        Figure(f"{JUDGED}: cells converged within {limits}", "", [soon], at_least=CELLS_CONVERGED_BAR),
    ]
    if used := [each.excess for each in every if not each.failed]:
        what = f"{JUDGED}: most streams of any cell / optimum"
        found.append(Figure(what, "", [max(used)], at_most=verdicts.STREAMS_BAR))
    return [*found, *(against(name, own, judged[name]) for name in judged if name != JUDGED)]


def against(name: str, own: dict[Cell, Verdict], other: dict[Cell, Verdict]) -> Figure:
    """The mean utility over the cells that both got through, less that of another optimizer."""
    both = [cell for cell, each in other.items() if cell in own and not (each.failed or own[cell].failed)]
    gap = statistics.mean(own[cell].utility - other[cell].utility for cell in both) if both else 0.0
    bar = 0.0 if name in RIVALS and both else None
    return Figure(f"mean utility of {JUDGED} less that of {name}, {len(both)} cells", "", [gap], at_least=bar)


def share(every: Sequence[Verdict], holds: Callable[[Verdict], bool]) -> float:
    """The share of cells of which something holds."""
    return statistics.mean(float(holds(each)) for each in every)


def summary(judged: dict[str, dict[Cell, Verdict]]) -> Table:
    """Every optimizer over all cells."""
    rows = []
    for name, of in judged.items():
        every = list(of.values())
        if not every:
            continue
        excess = [each.excess for each in every]
        rows.append(
            [
                name,
                str(len(every)),
                str(sum(bool(each.failed) for each in every)),
                f"{statistics.mean(each.utility for each in every):.3f}",
                f"{statistics.mean(each.share for each in every):.3f}",
                f"{min(each.share for each in every):.3f}",
                percent(share(every, lambda each: each.share >= verdicts.UTILITY_BAR)),
                f"{min(each.goodput for each in every):.3f}",
                percent(share(every, lambda each: each.converged)),
                time_s(statistics.median(each.seconds for each in every)),
                f"{statistics.median(excess):.2f}",
                percent(share(every, lambda each: each.excess <= verdicts.STREAMS_BAR)),
                percent(statistics.mean(each.overruled for each in every)),
            ]
        )
    header = [
        *("optimizer", "cells", "failed", "mean utility", "mean share of best", "least share"),
        *(f"cells with {verdicts.UTILITY_BAR}", "least goodput", "converged", "median seconds"),
        *("median streams / optimum", f"cells within {verdicts.STREAMS_BAR}", "overruled"),
    ]
    return Table("All cells", header, rows)


def misses(judged: dict[str, dict[Cell, Verdict]]) -> Table:
    """The cells in which the optimizer that is judged misses a bar."""
    rows = [
        [cell.name, ", ".join(each.missed), *shown(each)]
        for cell, each in judged.get(JUDGED, {}).items()
        if each.missed
    ]
    header = ["cell", "missed", "utility / best", "goodput / usual", "converged", "streams / optimum"]
    return Table(f"{JUDGED}: cells that miss a bar", header, rows)


def shown(each: Verdict) -> list[str]:
    """What a verdict says, in the order of the bars."""
    if each.failed:
        return [f"failed: {each.failed}", "-", "-", "-"]
    soon = "never" if math.isinf(each.intervals) else f"{each.intervals:.0f} ({time_s(each.seconds)})"
    return [f"{each.share:.2f}", f"{each.goodput:.2f}", soon, f"{each.streams:.1f} ({each.excess:.2f})"]


def every_cell(by: Yardsticks, judged: dict[str, dict[Cell, Verdict]]) -> Table:
    """Every cell with every optimizer; what misses a bar is bold."""
    rows = []
    for cell, yardstick in by.items():
        best = f"{yardstick.best.streams} ({yardstick.best.utility:.3f})"
        columns = [told(of[cell]) if cell in of else "-" for of in judged.values()]
        rows.append([cell.name, str(cell.optimum), best, *columns])
    return Table("Every cell", ["cell", "closed form", "best constant", *judged], rows)


def told(each: Verdict) -> str:
    """A verdict in one cell of a table: utility, goodput, convergence, streams."""
    if each.failed:
        return "**failed**"
    bars = ("utility", "goodput", "convergence", "streams")
    texts = zip(bars, shown(each), strict=True)
    return "; ".join(f"**{text}**" if bar in each.missed else text for bar, text in texts)


def all_constants(found: dict[Cell, list[Point]], seconds: float) -> Table:
    """What each constant brought in every cell."""
    by_cell = {cell: verdicts.constants(cell, points, seconds) for cell, points in found.items()}
    rows = [[cell.name, "; ".join(map(constant, made))] for cell, made in by_cell.items() if made]
    return Table("Every constant: streams, utility, Mbit/s", ["cell", "constants"], rows)


def constant(each: Constant) -> str:
    """A constant in a few words."""
    return f"{each.streams}: {each.utility:.3f}, {number(each.goodput_bps / 1e6)}"


def brief(by: Yardstick, judged: Sequence[Verdict]) -> dict[str, object]:
    """What is kept of a cell in the results, beside the tables."""
    return {
        "best": by.best.streams,
        "utility": round(by.best.utility, 4),
        "usual_bps": round(by.usual_bps),
        "optimizers": {
            each.name: {
                "utility": round(each.utility, 4),
                "goodput": round(each.goodput, 4),
                "intervals": finite(each.intervals),
                "seconds": finite(each.seconds),
                "streams": round(each.streams, 2),
                "failed": each.failed,
            }
            for each in judged
        },
    }


def kept(cell: Cell, points: Sequence[Point], seconds: float) -> dict[str, object]:
    """What each transfer with a constant brought: optimizers that change are held to it again (`--keep-fixed`)."""
    return {
        f"{point['name']} #{point['seed']}": {
            "build": point["build"],
            "brought": [float(f"{value:.5g}") for value in verdicts.brought(cell, point, seconds)],
        }
        for point in points
        if verdicts.is_constant(point) and verdicts.is_made(point)
    }


def finite(value: float) -> float | None:
    """As JSON, which knows no infinity."""
    return None if math.isinf(value) else round(value, 3)


def percent(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.0f} %"


def time_s(seconds: float) -> str:
    """Seconds, or that there were none."""
    return "never" if math.isinf(seconds) else f"{seconds:.1f} s"


def busy(found: dict[Cell, list[Point]]) -> list[str]:
    """The cells in which the machine was too busy for the path, or for its ends, and how busy it was."""
    late = cells_with(found, lambda point: point.get("late_ms", 0.0) > LATE_MS)
    slow = cells_with(found, lambda point: point.get("idle", 1.0) < IDLE)
    idle = [point["idle"] for points in found.values() for point in points if "idle" in point]
    texts = []
    if idle:
        texts.append(
            f"The machine's processors were idle for {percent(statistics.median(idle))} of the time of a transfer in "
            f"the median, and for {percent(min(idle))} at least."
        )
    if late:
        texts.append(
            f"In these cells the path was late by more than {LATE_MS} ms in half of the seconds of some transfer, "
            f"because the machine was too busy: {', '.join(late)}."
        )
    if slow:
        texts.append(
            f"In these cells the processors were idle for less than {percent(IDLE)} of the time of some transfer, so "
            f"that they may be what limited it: {', '.join(slow)}."
        )
    return texts


def cells_with(found: dict[Cell, list[Point]], holds: Callable[[Point], bool]) -> list[str]:
    """The names of the cells with such a transfer."""
    return sorted(cell.name for cell, points in found.items() if any(map(holds, points)))


def notes(found: dict[Cell, list[Point]], missing: dict[Cell, int], lost: dict[Cell, list[str]]) -> list[str]:
    """What one has to know to read the tables, and what is not there."""
    made = [point for points in found.values() for point in points]
    failed = sum(not verdicts.is_made(point) for point in made)
    texts = [
        "A column of an optimizer: utility as a share of the best constant's; goodput as a share of the better of "
        f"fixed {verdicts.USUAL[0]} and {verdicts.USUAL[1]}; intervals (and seconds) until the utility was within "
        "10 % of the highest that any constant settles at, and stayed there; mean streams from then on (and over the "
        "optimum). Bold misses a bar. The optimum is the best constant, or the closed form where that is more. "
        "Means over the repetitions, of optimizers and of constants, but the median of intervals and seconds; where "
        "one fails, all fail.",
        f"{len(made)} transfers of {len({point['build'] for point in made})} builds of edt and of what measures it, of "
        f"which edt failed at {failed}: those are kept, and not tried again.",
    ]
    texts += busy(found)
    if lost:
        each = ", ".join(f"{cell.name} ({', '.join(failed)})" for cell, failed in lost.items())
        texts.append(f"These cells have no yardstick and count as missed, for these constants failed: {each}.")
    if missing:
        left = ", ".join(f"{cell.name} ({count})" for cell, count in missing.items())
        texts.append(f"Missing are {sum(missing.values())} transfers of {len(missing)} cells: {left}.")
    return texts

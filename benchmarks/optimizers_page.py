"""What the experiment with all optimizers tells: how soon each is near the best constant, and what it misses."""

from __future__ import annotations

import statistics

import changes
import experience
import tuned
from experiments.agents import NEAR, utility, whole
from points import Point
from processes import Failed
from results import Figure, Table

LOADS = {"light": 0, "medium": 8, "heavy": 32}
"""Streams of others from memory to memory [HARP §2.2.1]."""
REGRET_S = 15.0
TOGETHER = 3
"""Intervals whose mean utility has to be near that of the best constant for the first of them to count as good."""


def mean_utility(point: Point) -> float:
    """The mean utility of all whole intervals but the first."""
    return statistics.mean(utility(sample, point["rate_bps"]) for sample in whole(point)[1:] or point["timeline"])


def best_fixed(points: dict[str, Point], path: str, load: str) -> tuple[float, Point]:
    """The constant of the best mean utility under a load, and that utility."""
    measured = [point for point in group(points, path, load) if point["timeline"]]
    constants = [point for point in measured if point["name"].startswith("fixed")]
    if not constants:
        raise Failed(f"no copy with a constant concurrency came through over {path} with {load} traffic")
    found = [(mean_utility(point), index) for index, point in enumerate(constants)]
    best, index = max(found)
    return best, constants[index]


def group(points: dict[str, Point], path: str, load: str) -> list[Point]:
    """The points of one path and load."""
    return [point for point in points.values() if (point["path"], point["load"]) == (path, load)]


def sections(points: dict[str, Point]) -> list[tuple[str, str]]:
    """The paths and loads that were measured, in their order; where the load changes, there is another table."""
    found = dict.fromkeys((point["path"], point["load"]) for point in points.values())
    return [key for key in found if key[1] != "changing"]


def until_near(point: Point, best: float) -> float | None:
    """Seconds until the utility was near the best and stayed so for some intervals; `None` if it never was."""
    samples = whole(point)
    values = [utility(sample, point["rate_bps"]) for sample in samples]
    for index in range(len(values) - TOGETHER + 1):
        if statistics.mean(values[index : index + TOGETHER]) >= NEAR * best:
            return float(samples[index]["elapsed_s"])
    return None


def regret(point: Point, best: float) -> float:
    """The share of the best utility that was missed in the first seconds, weighted by time."""
    missed, before = 0.0, 0.0
    for sample in whole(point) or point["timeline"]:
        if before >= REGRET_S:
            break
        after = min(sample["elapsed_s"], REGRET_S)
        missed += (after - before) * (best - utility(sample, point["rate_bps"])) / best
        before = after
    return missed / before if before else 0.0


def tables(points: dict[str, Point]) -> list[Table]:
    """Those of each path and load, and of the load that changes."""
    return [*(table(points, *key) for key in sections(points)), *changes.tables(points)]


def table(points: dict[str, Point], path: str, load: str) -> Table:
    """All optimizers on one path under one load."""
    best, constant = best_fixed(points, path, load)
    rows = []
    for point in group(points, path, load):
        if not point["timeline"]:
            rows.append([point["name"], f"failed: {point['failed']}", *"-----"])
            continue
        samples = whole(point) or point["timeline"]
        streams = statistics.mean(sample["concurrency"]["network"] for sample in samples)
        guard = statistics.mean(sample["overruled"] for sample in samples)
        near = until_near(point, best)
        seconds = "never" if near is None else f"{near:.1f}"
        goodput = f"{point['mean_mbps']:,.0f}"
        shares = [f"{100 * share:.0f} %" for share in (regret(point, best), guard)]
        rows.append([point["name"], goodput, f"{streams:.1f}", seconds, *shares, f"{point['wall_s']:.0f}"])
    header = ["optimizer", "Mbit/s", "mean streams", "seconds until within 10 %", "regret", "overruled", "seconds"]
    about = f"{path}, {load} traffic ({LOADS[load]} streams of others); the best constant is {constant['name']}"
    return Table(about, header, rows)


def figures(points: dict[str, Point]) -> list[Figure]:
    """What has a bar, how `auto` did, and what a change of the load brought."""
    failed = [point for point in points.values() if not point["timeline"]]
    found = [Figure("copies that failed", "", [float(len(failed))], at_most=0)]
    for path, load in sections(points):
        best, constant = best_fixed(points, path, load)
        chosen = [point for point in group(points, path, load) if point["name"] == "auto" and point["timeline"]]
        if chosen:
            ratio = [point["mean_mbps"] / constant["mean_mbps"] for point in chosen]
            found.append(Figure(f"{path}, {load}: goodput of auto / {constant['name']}", "", ratio))
            found.append(Figure(f"{path}, {load}: regret of auto", "", [regret(point, best) for point in chosen]))
    return [*found, *changes.figures(points)]


def notes() -> list[str]:
    """What one has to know to read the tables."""
    return [
        f"`seconds until within 10 %`: when the first of {TOGETHER} intervals ended whose mean utility was at least "
        f"{NEAR} of the best constant's. `regret`: how much of that utility was missed in the first {REGRET_S:.0f} s; "
        "a constant misses what its first seconds cost; below zero is better than the best constant's mean. "
        "`overruled`: the share of the intervals in which the guard had put another setting in the place of the "
        "optimizer's, as it does where three intervals in a row bring less than 80 % of the best utility seen, or "
        "where the throughput collapses: what the optimizer does by itself is not seen there. `seconds`: how long the "
        "copy took.",
        f"`ann`, `ann-once`, `asm`, `harp` and `harp-once` know {experience.count()} transfers with "
        f"constants, made before under {' and '.join(experience.LOADS)} traffic, whose records were set a day apart: "
        "HARP and ASM tell loads by time. ProMC takes all streams that it is allowed: 10, as in its papers; the others "
        f"are allowed 64. For `edt`, `drl` and `automdt` the path is explored without others for {tuned.EXPLORE_S} s, "
        f"and an agent is trained for at most {tuned.TRAIN_S} s, before the copies.",
        "`harp` and `harp-once` ask their models only where 15 s of work are left after the first interval: below that "
        "they keep the heuristic's parameters.",
        "Data are sized by the streams that an optimizer comes to, and goodput counts from the start of the copy: rows "
        "with less data (see `seconds`) pay more for the start.",
        "Where the load changes, `retuned` is how often HARP's own parameters changed after its first estimate, which "
        "is what online tuning does; `overruled` is the guard's doing, with `harp-once` as with `harp`.",
    ]

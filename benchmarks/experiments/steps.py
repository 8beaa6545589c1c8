"""How soon optimizers are right again after the path's rate halves and doubles, and how often they fall off a cliff."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import emulated
import paths
import tuned
from bench import Bench, Options
from peers import versions
from points import OutOfTime, Point
from processes import Failed, TooSlow, Workplace, workplace
from results import Figure, Outcome, Table
from timed import supply, timed
from timelines import NEVER_S, WINDOW_S, mean, near, rows, settled, streams, throughput_bps
from verdicts import share_of, utility_over

RATE_BPS = 1e9
"""Of both paths, at first."""
RATES = ("1G", "500M", "1G")
"""The rate of the path `changing` in its three phases."""
PHASE_S = (12.0, 20.0)
"""How long each of them lasts, in a quick run and in a full one."""
SHORTEST_S = 2 * WINDOW_S
CONSTANTS = (4, 5, 6, 8, 10, 12)
"""The best are 10, 5 and 10: a stream is given 100 Mbit/s."""
BACK_S = 10.0
"""Within which time an optimizer is to be near the best constant of the phase again."""
REPETITIONS = (1, 5)
CLIFF_S = (60.0, 600.0)
CLIFF_BEST = 10
COLLAPSE_S = 30.0
"""How long the path `cliff` stays collapsed, after a second with more flows than it bears."""
JUDGED = "auto"


def run(options: Options) -> Iterator[Outcome]:
    """Every optimizer over the path that changes and over the one that collapses.

    Raises:
        OutOfTime: after what is there was told, if something is missing.
    """
    late = False
    with workplace() as place:
        steps = Steps(options, place)
        try:
            for seed in range(options.repetitions or REPETITIONS[not options.quick]):
                steps.changing(seed)
                steps.cliff(seed)
        except OutOfTime:
            late = True
    full = not options.quick
    scale = options.scale_beside(REPETITIONS[full], PHASE_S[full])
    yield outcome(steps, scale + " (part)" * late)
    if late:
        raise OutOfTime


class Steps:
    """Both paths at work."""

    def __init__(self, options: Options, place: Workplace) -> None:
        full = not options.quick
        self.options, self.place = options, place
        self.bench = Bench("steps", options, place)
        self.phase_s, self.cliff_s = options.seconds or PHASE_S[full], CLIFF_S[full]
        if self.phase_s < SHORTEST_S:
            raise Failed(f"a phase has to last at least {SHORTEST_S:g} s")
        self.names = tuned.asked(options.optimizers)
        self.source = self.bench.data("uniform", 0.5).path
        self.points: dict[str, Point] = {}

    def wanted(self, path: str) -> bool:
        """Whether a path was asked for."""
        return not self.options.paths or path in self.options.paths

    def changing(self, seed: int) -> None:
        """Constants and optimizers over the path that changes."""
        if not self.wanted("changing"):
            return
        times = [(number + 1) * self.phase_s for number in range(len(RATES) - 1)]
        schedule = [{"at": at, "rate": rate} for at, rate in zip(times, RATES[1:], strict=True)]
        runs = [*map(tuned.constant, CONSTANTS), *map(tuned.optimizer, self.names)]
        self.measure("changing", runs, seed, len(RATES) * self.phase_s, schedule)

    def cliff(self, seed: int) -> None:
        """The optimizers over the path that collapses, and what is best there for some time."""
        if not self.wanted("cliff"):
            return
        self.measure("cliff", [tuned.constant(CLIFF_BEST)], seed, min(CLIFF_S[0], self.cliff_s))
        self.measure("cliff", [*map(tuned.optimizer, self.names)], seed, self.cliff_s)

    def measure(
        self, path: str, runs: list[tuned.Run], seed: int, seconds: float, schedule: list[dict[str, Any]] | None = None
    ) -> None:
        """These runs over one path, which begins anew for each."""
        for each in runs:
            key = f"{path} {each.name} #{seed}"
            point = partial(self.point, path, each, seed, seconds, schedule)
            self.points[key] = self.bench.points.measured(f"{key} {seconds:g} s", point)
            print(f"  {key}: {said(self.points[key])}", flush=True)

    def point(
        self, path: str, each: tuned.Run, seed: int, seconds: float, schedule: list[dict[str, Any]] | None
    ) -> Point:
        """One transfer, and what the path did meanwhile."""
        point: Point = {"path": path, "name": each.name, "seed": seed}
        source = supply(self.source, self.place, RATE_BPS, seconds)
        try:
            with emulated.Path.start(path, schedule=schedule, seed=seed + 1) as running:
                ready = time.monotonic()
                ended = timed(self.place, paths.ends_of(path, running), each.words, source, seconds)
                rates = [sample["near_to_far"]["rate_bps"] for sample in running.samples()]
        except (Failed, TooSlow, emulated.Unavailable) as error:
            return {**point, "failed": " ".join(str(error).split())[-300:], "timeline": []}
        return {**point, "offset_s": round(ended.begin - ready, 3), "timeline": ended.timeline, "rates_bps": rates}


def outcome(steps: Steps, scale: str) -> Outcome:
    """What was found."""
    changing = {key: point for key, point in steps.points.items() if point["path"] == "changing"}
    cliff = {key: point for key, point in steps.points.items() if point["path"] == "cliff"}
    return Outcome(
        "steps",
        f"Path `changing`: 1 Gbit/s, 50 ms, 100 Mbit/s a stream; half the rate after {steps.phase_s:g} s, and all of "
        f"it again after {2 * steps.phase_s:g} s. Path `cliff`: 1 Gbit/s, 30 ms, 100 Mbit/s a stream; more than 24 "
        f"streams make it collapse to 5 % for {COLLAPSE_S:g} s; {steps.cliff_s:g} s each. Files do not run out, there "
        "is no history, and the guard is on as always.",
        figures(changing, cliff, steps.phase_s),
        scale,
        notes(),
        [steps_table(changing, steps.phase_s), cliff_table(cliff)],
        {key: shown(point) for key, point in steps.points.items()},
        versions(["edt"]),
    )


def said(point: Point) -> str:
    """A transfer in a few words."""
    if not point["timeline"]:
        return f"failed: {point['failed']}"
    goodput = mean(point["timeline"], throughput_bps) / 1e6
    return f"{goodput:,.0f} Mbit/s, {mean(point['timeline'], streams):.1f} streams"


def phases(point: Point, phase_s: float) -> list[tuple[float, float]]:
    """When the phases of the path began and ended, in seconds of the transfer."""
    edges = [number * phase_s - point["offset_s"] for number in range(len(RATES) + 1)]
    return [(max(0.0, begin), end) for begin, end in itertools.pairwise(edges)]


def best_constants(points: Sequence[Point], phase_s: float) -> list[tuple[float, int]]:
    """In each phase the best utility that a constant settles at, in its later two thirds, and that constant.

    Empty if no constant was measured.
    """
    worth = utility_over(RATE_BPS)
    found: list[dict[int, list[float]]] = [{} for _ in RATES]
    for point in points:
        if point["timeline"] and point["name"].startswith("fixed "):
            for values, (begin, end) in zip(found, phases(point, phase_s), strict=True):
                late = mean(point["timeline"], worth, begin + (end - begin) / 3, end)
                values.setdefault(int(point["name"].split()[1]), []).append(late)
    return [max((statistics.mean(each), count) for count, each in values.items()) for values in found if values]


def back(point: Point, best: Sequence[tuple[float, int]], phase_s: float) -> list[float]:
    """In each phase the seconds until the utility was near the best constant's, and stayed there; infinite if never."""
    found = []
    for (begin, end), (goal, _) in zip(phases(point, phase_s), best, strict=True):
        index = settled(point["timeline"], utility_over(RATE_BPS), near(goal), begin, end)
        found.append(math.inf if index is None else point["timeline"][index]["elapsed_s"] - begin)
    return found


def collapses(rates_bps: Sequence[float]) -> int:
    """How often a path fell, from its rate at the end of each second; one that falls again at once has no gap."""
    count = 0
    for fallen, seconds in itertools.groupby(rates_bps, key=lambda rate: rate < RATE_BPS / 2):
        if fallen:
            count += max(1, round(len(list(seconds)) / COLLAPSE_S))
    return count


def figures(changing: dict[str, Point], cliff: dict[str, Point], phase_s: float) -> list[Figure]:
    """What has a bar."""
    own = [point for point in changing.values() if point["name"] == JUDGED and point["timeline"]]
    best = best_constants(list(changing.values()), phase_s)
    found = [failures([*changing.values(), *cliff.values()])]
    for number, change in ((1, "half the rate"), (2, "twice the rate")):
        if own and best:
            values = [min(back(point, best, phase_s)[number], NEVER_S) for point in own]
            what = f"{JUDGED}: seconds until within 10 % of the best after {change}"
            found.append(Figure(what, "s", values, at_most=BACK_S))
    if counts := [collapses(point["rates_bps"]) for point in cliff.values() if fell(point)]:
        found.append(Figure(f"{JUDGED}: most collapses on the cliff path", "", [float(max(counts))], at_most=1))
    return found


def failures(points: Sequence[Point]) -> Figure:
    """How many transfers failed."""
    return Figure("transfers that failed", "", [float(sum(not point["timeline"] for point in points))], at_most=0)


def fell(point: Point) -> bool:
    """Whether the collapses of a transfer count for the bar."""
    return bool(point["name"] == JUDGED and point["timeline"])


def steps_table(points: dict[str, Point], phase_s: float) -> Table:
    """Every transfer over the path that changes."""
    best = best_constants(list(points.values()), phase_s)
    lines = []
    for key, point in points.items():
        if not point["timeline"]:
            lines.append([key, f"failed: {point['failed']}", *"----"])
            continue
        spans = phases(point, phase_s)
        used = [f"{mean(point['timeline'], streams, (begin + end) / 2, end):.1f}" for begin, end in spans]
        times = back(point, best, phase_s) if best else []
        soon = [f"{seconds:.1f}" if math.isfinite(seconds) else "never" for seconds in times] or ["-"] * len(RATES)
        goodput = mean(point["timeline"], throughput_bps) / 1e6
        lines.append([key, f"{goodput:,.0f}", ", ".join(used), *soon])
    told = ", ".join(f"fixed {count} ({worth:.3f})" for worth, count in best)
    header = ["transfer", "Mbit/s", "streams late in each phase", "seconds at first", "after half", "after twice"]
    return Table(f"changing; the best constants: {told}", header, lines)


def cliff_table(points: dict[str, Point]) -> Table:
    """Every transfer over the path that collapses."""
    worth = utility_over(RATE_BPS)
    made = [point for point in points.values() if point["timeline"]]
    held = [mean(point["timeline"], worth) for point in made if point["name"].startswith("fixed ")]
    lines = []
    for key, point in points.items():
        if not point["timeline"]:
            lines.append([key, f"failed: {point['failed']}", *"-----"])
            continue
        timeline, rates = point["timeline"], point["rates_bps"]
        value = mean(timeline, worth)
        part = f"{share_of(value, statistics.mean(held)):.2f}" if held else "-"
        most = max(streams(sample) for sample in timeline)
        late = mean(timeline, streams, timeline[-1]["elapsed_s"] / 2)
        down = sum(rate < RATE_BPS / 2 for rate in rates)
        lines.append([key, str(collapses(rates)), str(down), f"{value:.3f}", part, f"{most:.0f}", f"{late:.1f}"])
    header = ["transfer", "collapses", "seconds collapsed", "utility", f"of fixed {CLIFF_BEST}'s", "most streams"]
    return Table("cliff", [*header, "streams in the second half"], lines)


def shown(point: Point) -> Point:
    """What is kept with the results; the timelines on the cliff are long, and only their counts are told."""
    kept = {name: value for name, value in point.items() if name not in ("timeline", "rates_bps")}
    return kept if point["path"] == "cliff" else {**kept, "rows": rows(point["timeline"])}


def notes() -> list[str]:
    """What one has to know to read the tables."""
    return [
        "`seconds`: from the change of the path (at first: from the beginning) to the end of the first interval from "
        "which the utility was within 10 % of what the best constant of that phase settles at, for three seconds and "
        "on average over the rest of the phase. Streams are means over the second half of each phase.",
        f"In figures, never counts as {NEVER_S:g} s. A path that is still overloaded when its {COLLAPSE_S:g} s are "
        "over collapses again at once, which counts.",
    ]

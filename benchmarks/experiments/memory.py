"""What the memory of earlier transfers over a path brings `auto`, and what a wrong one costs."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import datasets
import emulated
import paths
import tuned
from bench import Bench, Options
from cells import Cell, grid
from copies import Data
from experiments.agents import Serving
from peers import versions
from points import OutOfTime, Point
from processes import EDT, Failed, Measured, TooSlow, Workplace, workplace
from results import Figure, Outcome, Table
from timed import told
from timelines import Sample, mean, streams
from verdicts import share_of, utility_over

PAIRS = (
    ("cubic-200M-80ms-loss0-cap20", "cubic-200M-80ms-loss0-nocap"),
    ("cubic-1000M-20ms-loss0-cap20", "cubic-1000M-20ms-loss0-nocap"),
)
"""Paths that differ only in what a stream is given: what is right over one is wrong over the other.

A quick run has the first pair.
"""
KINDS = ("none", "right", "wrong")
"""Memories: of no transfer, of transfers over the same path, and of transfers over the other one of its pair."""
LEARNED = 2
LEARN_S = 25.0
"""How many transfers are remembered, and how long each takes at the path's rate: long after it has settled."""
COPY_S = 10.0
"""Of a copy, at the path's rate: with so few files, or so many bytes, it does not begin with more streams by itself."""
REPETITIONS = (2, 5)
LIMIT = 8.0
"""After how many times as long as at the path's rate a copy is given up."""
BARS = {"right": 0.97, "wrong": 0.9}
"""Least part of what a copy without memory has: a right one is to cost nothing but noise, and a wrong one little."""
REMEMBERS = " on this path settled at "
"""What the first reason of a transfer has that begins by earlier ones."""
PORT = 7632
"""Of the server, the same each time: paths are remembered by it."""


@dataclass(frozen=True)
class Figures:
    """What a copy came to."""

    goodput: float
    """Share of the path's rate, over the whole time of the client."""
    utility: float


def run(options: Options) -> Iterator[Outcome]:
    """Copies over every path with each memory.

    Raises:
        OutOfTime: after what is there was told, if something is missing.
    """
    late = False
    with workplace() as place:
        work = Memories(options, place)
        try:
            for pair in PAIRS[: 1 if options.quick else None]:
                work.measure(pair)
        except OutOfTime:
            late = True
    scale = options.scale_beside(REPETITIONS[not options.quick], COPY_S)
    yield outcome(work, scale + " (part)" * late)
    if late:
        raise OutOfTime


class Memories:
    """The copies at work."""

    def __init__(self, options: Options, place: Workplace) -> None:
        self.options, self.place = options, place
        self.bench = Bench("memory", options, place)
        self.copy_s = options.seconds or COPY_S
        self.repetitions = options.repetitions or REPETITIONS[not options.quick]
        self.points: dict[str, Point] = {}

    def measure(self, pair: tuple[str, str]) -> None:
        """All copies over both paths of a pair, with all memories in turn; all or none are of an earlier run."""
        cells = [cell for cell in grid(("cubic",)) if cell.name in pair]
        copies = [
            (f"{cell.name} {kind} #{seed} {self.copy_s:g} s", cell, kind, seed)
            for seed in range(self.repetitions)
            for cell in cells
            for kind in KINDS
        ]
        found = self.bench.points.found
        remembered: dict[str, Path] = {}
        if any(key not in found for key, *_ in copies):
            for key, *_ in copies:
                found.pop(key, None)
            remembered = {cell.name: self.remembered(cell) for cell in cells}
        for key, cell, kind, seed in copies:
            other = next(each.name for each in cells if each != cell)
            memory = {"none": None, "right": remembered.get(cell.name), "wrong": remembered.get(other)}[kind]
            point = partial(self.point, cell, kind, seed, memory)
            self.points[key] = self.bench.points.measured(key, point)
            print(f"  {key}: {said(self.points[key])}", flush=True)

    def remembered(self, cell: Cell) -> Path:
        """A history of transfers over a path, the first of which knew nothing."""
        history = self.place.empty(f"history-{cell.name}")
        for _ in range(LEARNED):
            if self.options.deadline is not None and time.monotonic() >= self.options.deadline:
                raise OutOfTime
            self.copied(cell, self.data(cell, LEARN_S), history)
        return history

    def data(self, cell: Cell, seconds: float) -> Data:
        """Files that take about that long at the path's rate."""
        return self.bench.data("uniform", seconds * cell.rate_bps / 8 / datasets.size_of("uniform").bytes)

    def point(self, cell: Cell, kind: str, seed: int, memory: Path | None) -> Point:
        """One copy, which leaves the memory as it was."""
        history = self.place.empty("history")
        if memory is not None:
            shutil.copytree(memory, history, dirs_exist_ok=True)
        point: Point = {"path": cell.name, "memory": kind, "seed": seed, "rate_bps": cell.rate_bps}
        data = self.data(cell, self.copy_s)
        try:
            return {**point, "bytes": data.size.bytes, **self.copied(cell, data, history)}
        except (Failed, TooSlow, emulated.Unavailable) as error:
            return {**point, "failed": " ".join(str(error).split())[-300:], "timeline": []}

    def copied(self, cell: Cell, data: Data, history: Path) -> Point:
        """Copies over a path of its own, and adds that to a history."""
        environment = {**self.place.environment, "EDT_HISTORY": "machines", "EDT_DATA_DIR": str(history)}
        report = self.place.path / "report.json"
        with emulated.Path.start(schedule=None, **cell.overrides) as running:
            ends = paths.ends_of(cell.name, running)
            with Serving(self.place, ends, [], PORT) as url:
                words = ["cp", "--plain", "--json", "--quiet", *tuned.optimizer("auto").words]
                command: list[str | Path] = [*ends.near.prefix, EDT, *words, "--report", report, data.path, url]
                client = Measured(command, environment)
                timeline, wall_s = ended(client, LIMIT * 8 * data.size.bytes / cell.rate_bps)
        first = json.loads(report.read_text())["decisions"][0]["decision"]["reason"]
        return {"wall_s": wall_s, "timeline": timeline, "first": first}


def ended(client: Measured, limit_s: float) -> tuple[list[Sample], float]:
    """What a copy told until it ended, and how long it took."""
    late = threading.Timer(limit_s, client.kill)
    late.daemon = True
    late.start()
    try:
        timeline = told(client, math.inf)
    except BaseException:
        client.kill()
        with suppress(Failed):
            client.end()
        raise
    finally:
        late.cancel()
    return timeline, client.end().wall_s


def said(point: Point) -> str:
    """A copy in a few words."""
    if not point["timeline"]:
        return f"failed: {point['failed']}"
    found = worth(point)
    return f"{found.goodput * point['rate_bps'] / 1e6:,.0f} Mbit/s, utility {found.utility:.3f}"


def worth(point: Point) -> Figures:
    """What a copy came to."""
    goodput = 8 * point["bytes"] / point["wall_s"] / point["rate_bps"]
    return Figures(goodput, mean(point["timeline"], utility_over(point["rate_bps"])))


def outcome(work: Memories, scale: str) -> Outcome:
    """What was found."""
    points = list(work.points.values())
    return Outcome(
        "memory",
        f"Copies by `auto` that take {work.copy_s:g} s at the path's rate: without history, with that of {LEARNED} "
        f"copies of {LEARN_S:g} s over the same path (right), and with that of as many over a path that differs in "
        "what a stream is given (wrong). The history is the same before each copy.",
        figures(points),
        scale,
        [
            "Utility is EDT's, with the throughput as a share of the path's rate, over the whole copy; goodput counts "
            "from the start of the client to its end. Figures are of one repetition each, in which all memories ran in "
            "turn."
        ],
        [table(points)],
        {
            key: {name: value for name, value in point.items() if name != "timeline"}
            for key, point in work.points.items()
        },
        versions(["edt"]),
    )


def figures(points: Sequence[Point]) -> list[Figure]:
    """What each memory brings beside none."""
    made = [point for point in points if point["timeline"]]
    found = [Figure("copies that failed", "", [float(len(points) - len(made))], at_most=0)]
    if begun := [float(REMEMBERS in point["first"]) for point in made if point["memory"] != "none"]:
        found.append(Figure("copies with a memory that began by it", "", [statistics.mean(begun)], at_least=1))
    for path in dict.fromkeys(point["path"] for point in made):
        by_kind = {kind: {point["seed"]: worth(point) for point in of(made, path, kind)} for kind in KINDS}
        for kind, bar in BARS.items():
            pairs = [(own, by_kind["none"][seed]) for seed, own in by_kind[kind].items() if seed in by_kind["none"]]
            if pairs:
                goodput = [own.goodput / none.goodput for own, none in pairs]
                utility = [share_of(own.utility, none.utility) for own, none in pairs]
                found.append(Figure(f"{path}: goodput with a {kind} memory / without", "", goodput, at_least=bar))
                found.append(Figure(f"{path}: utility with a {kind} memory / without", "", utility, at_least=bar))
    return found


def of(points: Sequence[Point], path: str, kind: str) -> list[Point]:
    """The copies over a path with one memory that came through."""
    return [point for point in points if (point["path"], point["memory"]) == (path, kind) and point["timeline"]]


def table(points: Sequence[Point]) -> Table:
    """All paths and memories, by their means."""
    lines = []
    for path in dict.fromkeys(point["path"] for point in points):
        for kind in KINDS:
            if own := of(points, path, kind):
                goodput = statistics.mean(8 * point["bytes"] / point["wall_s"] / 1e6 for point in own)
                seconds = statistics.mean(point["wall_s"] for point in own)
                utility = statistics.mean(worth(point).utility for point in own)
                first = statistics.mean(streams(point["timeline"][0]) for point in own)
                late = statistics.mean(mean(point["timeline"], streams, point["wall_s"] / 2) for point in own)
                cells = [f"{goodput:,.0f}", f"{seconds:.1f}", f"{utility:.3f}", f"{first:.1f}", f"{late:.1f}"]
                lines.append([path, kind, str(len(own)), *cells])
    header = ["path", "memory", "copies", "Mbit/s", "seconds", "utility", "first streams", "streams in the second half"]
    return Table("Means over the repetitions", header, lines)

"""Optimizers against constants over a grid of rates, round trip times, losses and caps per stream, with real TCP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import emulated
import paths
import tuned
from bench import KEPT, Bench, Options
from cells import MOST_AT_ONCE, MOST_TOGETHER_MBPS, Cell, chosen, grid
from grid_page import outcomes
from points import OutOfTime, Point, Points
from processes import ROOT, Failed, Processors, TooSlow, Workplace, workplace
from results import Outcome, digest, earlier, program
from timed import Timed, supply, timed
from timelines import mean, streams, throughput_bps
from together import Room, together
from verdicts import is_constant

SECONDS = (12.0, 60.0)
"""How long a transfer takes, in a quick run and in a full one."""
REPETITIONS = (1, 5)
SOURCE_SCALE = 0.5
"""Of the data set `uniform`: 32 files of 16 MiB, each of which is sent many times under other names."""
Tell = Callable[[dict[Cell, list[Point]], dict[Cell, int], float, str], Iterable[Outcome]]
"""Tells of the points of all cells, and of how many are missing, of transfers of so many seconds, at a scale."""
SOURCES = tuple(ROOT / "benchmarks" / name for name in ("cells.py", "timed.py", "verdicts.py", "experiments/grid.py"))
"""What measures a point and judges it, beside the emulator of paths."""


def run(options: Options) -> Iterator[Outcome]:
    """Measures the cells that were asked for, and tells of all that are there, also where the time was over before.

    Raises:
        OutOfTime: after the outcome, if something of what was asked for is missing.
    """
    return measured(Grid, outcomes, options)


def measured(kind: type[Grid], tell: Tell, options: Options) -> Iterator[Outcome]:
    """The same with other transfers, of which something else is told."""
    late = False
    with workplace() as place:
        work = kind(options, place)
        try:
            work.measure()
        except OutOfTime:
            late = True
    full = not options.quick
    scale = options.scale_beside(REPETITIONS[full], kind.lasting[full])
    yield from tell(work.found(), work.missing(), work.seconds, scale)
    if late:
        raise OutOfTime


class Grid:
    """The cells at work."""

    name = "grid"
    lasting = SECONDS
    usual: tuple[str, ...] = tuned.USUAL
    """The optimizers that are measured unless others are asked for."""

    def __init__(self, options: Options, place: Workplace) -> None:
        self.options, self.place = options, place
        full = not options.quick
        self.seconds = options.seconds or self.lasting[full]
        self.repetitions = options.repetitions or REPETITIONS[full]
        self.optimizers = tuned.asked(options.optimizers, self.usual)
        every = grid(tuned.congestions(options.congestion))
        self.cells = chosen(every, options.cells, quick=options.quick)
        if not self.cells:
            raise Failed(f"no cell of the grid has a name that holds `{options.cells}`")
        self.all = [cell for cell in every if cell in {*self.cells, *chosen(every, None, quick=options.quick)}]
        self.folder = KEPT / f"{self.name}-{options.scale}"
        self.ground = ground()
        self.build = f"{digest(program())}-{self.ground}"
        self.points = {cell: self.kept(cell) for cell in self.all}
        self.source = Bench(self.name, options, place).data("uniform", SOURCE_SCALE).path
        self.trainer = tuned.Trainer(place, self.folder / "agents", self.source, self.build)
        self.untrained: dict[tuple[str, str], Exception] = {}

    def kept(self, cell: Cell) -> Points:
        """The points of a cell: what earlier runs finished of this build, unless it is to be measured anew."""
        resume = self.options.resume or cell not in self.cells
        file = self.folder / f"{cell.name}.json"
        points = Points(file, f"{self.seconds:g} s", resume=resume, deadline=self.options.deadline)
        kept = self.from_results(cell) if self.options.keep_fixed else {}
        points.found = {key: point for key, point in {**kept, **points.found}.items() if self.holds(point)}
        return points

    def from_results(self, cell: Cell) -> dict[str, Point]:
        """The transfers with constants that results tell of: their points may be gone."""
        of = earlier(f"{self.name}-{cell.congestion}").get(cell.name, {})
        same = of.get("seconds") == self.seconds
        return {
            key: {
                "name": key.rpartition(" #")[0],
                "seed": int(key.rpartition("#")[2]),
                "timeline": [],
                "again": False,
                **point,
            }
            for key, point in (of.get("constants", {}).items() if same else ())
        }

    def holds(self, point: Point) -> bool:
        """Whether what was measured still counts: also a failure, unless it was one of the ground and not of edt."""
        kept = self.options.keep_fixed and is_constant(point) and point["build"].endswith(f"-{self.ground}")
        return bool((kept or point["build"] == self.build) and counts(point))

    def measure(self) -> None:
        """All cells once, then all of them again with another seed, and so on."""
        print(f"  {len(self.cells)} cells, {self.minutes():,.0f} minutes if nothing is known", flush=True)
        for seed in range(self.repetitions):
            room = Room(MOST_TOGETHER_MBPS, MOST_AT_ONCE)
            together([partial(self.cell, cell, seed, room) for cell in self.cells])

    def minutes(self) -> float:
        """How long all transfers take at least."""
        runs = {cell: len(self.runs(cell, 0)) for cell in self.cells}
        carried = sum(count * min(cell.rate_mbps, MOST_TOGETHER_MBPS) for cell, count in runs.items())
        longest = max(carried / MOST_TOGETHER_MBPS, sum(runs.values()) / MOST_AT_ONCE, *runs.values())
        return self.repetitions * longest * self.seconds / 60

    def runs(self, cell: Cell, seed: int) -> list[tuned.Run]:
        """What is measured in a cell."""
        return [tuned.constant(streams) for streams in cell.constants] + self.candidates(cell, seed)

    def candidates(self, cell: Cell, seed: int) -> list[tuned.Run]:
        """The optimizers that are measured in a cell, with their agents."""
        agents = {kind: self.trainer.file(cell.name, kind) for kind in tuned.AGENTS}
        return [tuned.optimizer(name, seed=seed, agent=agents.get(name)) for name in self.optimizers]

    def train(self, cell: Cell, kinds: Iterable[str]) -> None:
        """Trains agents that are missing."""
        for kind in kinds:
            if self.options.deadline is not None and time.monotonic() >= self.options.deadline:
                raise OutOfTime
            print(f"  {cell.name}: training {kind}", flush=True)
            try:
                self.trainer.train(cell.name, kind, cell.overrides)
            except (Failed, emulated.Unavailable) as error:
                # Its transfers say so.
                self.untrained[cell.name, kind] = error
                print(f"  {cell.name}: {kind} is not trained, {error}", flush=True)

    def needs(self, cell: Cell, kind: str) -> bool:
        """Whether an agent that is missing has transfers to come, and none that failed for want of it."""
        keys = (f"{kind} #{seed}" for seed in range(self.repetitions))
        if kind not in tuned.AGENTS or self.trainer.file(cell.name, kind).exists():
            return False
        return (cell.name, kind) not in self.untrained and any(key not in self.points[cell].found for key in keys)

    def corner(self, index: int) -> Workplace:
        """A part of the workplace for one of those that work side by side."""
        return Workplace(self.place.path / f"corner-{index}", self.place.secret)

    def cell(self, cell: Cell, seed: int, room: Room, over: threading.Event) -> None:
        """All transfers of a cell with one seed, one after the other, once there is room for them."""
        left = {f"{each.name} #{seed}": each for each in self.runs(cell, seed)}
        left = {key: each for key, each in left.items() if key not in self.points[cell].found}
        if not left:
            return
        kinds = [name for name in self.optimizers if self.needs(cell, name)]
        alone = partial(self.train, cell, kinds) if kinds else None
        with room.taken(cell.rate_mbps, alone_first=alone) as index:
            place = self.corner(index)
            source = supply(self.source, place, cell.rate_bps, self.seconds)
            for key, each in left.items():
                if over.is_set():
                    return
                point = self.points[cell].measured(key, partial(self.point, cell, each, seed, place, source, over))
                print(f"  {cell.name} {key}: {told(point, self.seconds)}", flush=True)

    def point(
        self, cell: Cell, each: tuned.Run, seed: int, place: Workplace, source: Path, over: threading.Event
    ) -> Point:
        """One transfer over a path of its own."""
        point: Point = {"name": each.name, "seed": seed, "build": self.build}
        processors = Processors()
        try:
            if (cell.name, each.name) in self.untrained:
                raise self.untrained[cell.name, each.name]
            with emulated.Path.start(schedule=None, seed=seed + 1, **cell.overrides) as running:
                ended = self.transfer(cell, each, place, source, running)
                late = late_ms(running)
        except (Failed, TooSlow, emulated.Unavailable) as error:
            if over.is_set():
                raise
            again = not isinstance(error, Failed)
            return {**point, "failed": " ".join(str(error).split())[-300:], "again": again, "timeline": []}
        busy = {"late_ms": late, "idle": round(processors.idle(), 3)}
        return {**point, "timeline": ended.timeline, "intervals": ended.intervals, **busy}

    def transfer(self, cell: Cell, each: tuned.Run, place: Workplace, source: Path, running: emulated.Path) -> Timed:
        """One transfer over a path; it is no failure of edt's if the path has ended by itself."""
        try:
            return timed(place, paths.ends_of(cell.name, running), each.words, source, self.seconds)
        except Failed as error:
            if running.process.poll() is None:
                raise
            raise emulated.Unavailable(f"the path ended by itself: {error}") from error

    def found(self) -> dict[Cell, list[Point]]:
        """All points that count, by cell."""
        return {cell: list(self.counted(cell).values()) for cell in sorted(self.all, key=in_order)}

    def counted(self, cell: Cell) -> dict[str, Point]:
        """The points of a cell but for those that are to be tried again."""
        return {key: point for key, point in self.points[cell].found.items() if counts(point)}

    def missing(self) -> dict[Cell, int]:
        """How many transfers are missing in each cell, if any are."""
        found = {}
        for cell in sorted(self.all, key=in_order):
            keys = {f"{each.name} #{seed}" for seed in range(self.repetitions) for each in self.runs(cell, seed)}
            if left := len(keys - self.counted(cell).keys()):
                found[cell] = left
        return found


def ground() -> str:
    """A short name for what measures and judges: points of another emulator or of other code are not those of this."""
    return digest("".join(digest(file.read_bytes()) for file in (emulated.build(), *SOURCES)).encode())


def counts(point: Point) -> bool:
    """Whether a transfer was made, or edt failed at it; if there was no path or no time for it, nothing is known."""
    return bool(point["timeline"] or not point["again"])


def in_order(cell: Cell) -> tuple[str, int, int, float, int]:
    """The place of a cell in tables."""
    return cell.congestion, cell.rate_mbps, cell.rtt_ms, cell.loss, cell.cap or 0


def late_ms(running: emulated.Path) -> float:
    """How late the path was in its usual second: where that is far above 1, the machine was too busy for it."""
    late = sorted(sample["near_to_far"]["late_ms"] for sample in running.samples())
    return round(late[len(late) // 2], 3) if late else 0.0


def told(point: Point, seconds: float) -> str:
    """A transfer in a few words."""
    if not point["timeline"]:
        return f"failed: {point['failed']}"
    timeline = point["timeline"]
    goodput = mean(timeline, throughput_bps, 0.0, seconds) / 1e6
    return f"{goodput:,.0f} Mbit/s, {mean(timeline, streams, 0.0, seconds):.1f} streams"

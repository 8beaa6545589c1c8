"""Transfers that join and leave on one path: how equal they are, and what is left to one with constant streams."""

from __future__ import annotations

import itertools
import math
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import emulated
import paths
import tuned
from bench import Bench, Options
from paths import Ends
from peers import versions
from points import OutOfTime, Point
from processes import Failed, TooSlow, Workplace, workplace
from results import Figure, Outcome, Table
from timed import supply, timed
from timelines import EQUAL, NEVER_S, WINDOW_S, Sample, jain, mean, rows, streams, throughput_bps
from together import together

RATE_BPS = 1e9
STREAM_BPS = 1e8
"""Of the path `shared`: what a stream is given."""
UNIT_S = (15.0, 20.0)
"""Between two that join, in a quick run and in a full one."""
SHORTEST_S = 2 * WINDOW_S
REPETITIONS = (1, 3)
WITHIN_S = 10.0
"""After which time from a change shares are to be equal."""
KEPT_BAR = 0.9
STEP_S = 0.5
JUDGED = "auto"
QUICK = ("auto", "model")
PREPARE_S = 0.5
"""What the files of all tenants take to be ready."""


@dataclass(frozen=True)
class Tenant:
    """A transfer of a scenario: an optimizer or a constant, and when it begins and ends, in units."""

    streams: int | None
    begin: int
    end: int

    @property
    def units(self) -> int:
        """How long it stays."""
        return self.end - self.begin

    def run(self, name: str) -> tuned.Run:
        """What it runs where the optimizer of that name is measured."""
        return tuned.constant(self.streams) if self.streams else tuned.optimizer(name)


SCENARIOS = {
    "two": (Tenant(None, 0, 3), Tenant(None, 1, 4)),
    "three": (Tenant(None, 0, 3), Tenant(None, 1, 4), Tenant(None, 2, 5)),
    "joins fixed 8": (Tenant(8, 0, 3), Tenant(None, 1, 3)),
    "fixed 8 joins": (Tenant(None, 0, 3), Tenant(8, 1, 3)),
    "fixed 32 joins": (Tenant(None, 0, 3), Tenant(32, 1, 3)),
    "fixed 8 joins fixed 8": (Tenant(8, 0, 3), Tenant(8, 1, 3)),
}
"""Who comes and goes; one without streams of its own is the optimizer that is measured."""
QUICK_SCENARIOS = ("three", "joins fixed 8", "fixed 8 joins", "fixed 8 joins fixed 8")
CONSTANTS = "constants"
"""What scenarios without an optimizer are measured for: what TCP itself leaves to whom."""


@dataclass(frozen=True)
class Stage:
    """Where and when a scenario is played."""

    ends: Ends
    start: float
    """On the clock of `time.monotonic`."""
    unit_s: float


@dataclass(frozen=True)
class Told:
    """What a tenant did, on the clock of its scenario."""

    name: str
    offset_s: float
    timeline: list[Sample]

    def rate_bps(self, begin: float, end: float) -> float:
        """Its mean throughput."""
        return mean(self.timeline, throughput_bps, begin - self.offset_s, end - self.offset_s)

    def streams(self, begin: float, end: float) -> float:
        """Its mean streams."""
        return mean(self.timeline, streams, begin - self.offset_s, end - self.offset_s)


@dataclass(frozen=True)
class Phase:
    """The time between two changes, and who is there."""

    begin: float
    end: float
    tenants: list[Told]

    @property
    def settled(self) -> tuple[float, float]:
        """The part in which shares are to be equal."""
        return min(self.begin + WITHIN_S, self.end - WINDOW_S), self.end

    def indices(self) -> list[tuple[float, float]]:
        """Jain's index over every window: seconds since the change at which it begins, and the index."""
        count = int((self.end - self.begin - WINDOW_S) / STEP_S) + 1
        begins = [self.begin + number * STEP_S for number in range(count)]
        rates = ([each.rate_bps(at, at + WINDOW_S) for each in self.tenants] for at in begins)
        return [(at - self.begin, jain(values)) for at, values in zip(begins, rates, strict=True)]

    def fairness(self) -> float:
        """The mean of Jain's index over the windows of the settled part."""
        begin = self.settled[0] - self.begin
        return statistics.mean(index for at, index in self.indices() if at >= begin - 1e-6)

    def least(self) -> float:
        """The least of Jain's index over the windows of the settled part."""
        begin = self.settled[0] - self.begin
        return min(index for at, index in self.indices() if at >= begin - 1e-6)

    def equal_s(self) -> float:
        """Seconds from the change until the index is high, and on average in all windows after; infinite if never."""
        indices = self.indices()
        for number, (at, index) in enumerate(indices):
            if index >= EQUAL and statistics.mean(each for _, each in indices[number:]) >= EQUAL:
                return at
        return math.inf


def run(options: Options) -> Iterator[Outcome]:
    """Every scenario with every optimizer.

    Raises:
        OutOfTime: after what is there was told, if something is missing.
    """
    late = False
    with workplace() as place:
        shares = Shares(options, place)
        try:
            for seed in range(options.repetitions or REPETITIONS[not options.quick]):
                shares.measure(seed)
        except OutOfTime:
            late = True
    full = not options.quick
    scale = options.scale_beside(REPETITIONS[full], UNIT_S[full])
    yield outcome(shares.points, shares.unit_s, scale + " (part)" * late)
    if late:
        raise OutOfTime


class Shares:
    """The path at work."""

    def __init__(self, options: Options, place: Workplace) -> None:
        self.options, self.place = options, place
        self.bench = Bench("shares", options, place)
        self.unit_s = options.seconds or UNIT_S[not options.quick]
        if self.unit_s < SHORTEST_S:
            raise Failed(f"there have to be at least {SHORTEST_S:g} s between two that join")
        self.names = tuned.asked(options.optimizers, QUICK if options.quick else tuned.USUAL)
        self.source = self.bench.data("uniform", 0.5).path
        self.points: dict[str, Point] = {}

    def measure(self, seed: int) -> None:
        """One repetition."""
        for scenario in QUICK_SCENARIOS if self.options.quick else SCENARIOS:
            for name in self.names if any(not each.streams for each in SCENARIOS[scenario]) else (CONSTANTS,):
                key = f"{scenario}: {name} #{seed}"
                point = partial(self.point, scenario, name, seed)
                self.points[key] = self.bench.points.measured(f"{key} {self.unit_s:g} s", point)
                print(f"  {key}: {said(self.points[key], self.unit_s)}", flush=True)

    def point(self, scenario: str, name: str, seed: int) -> Point:
        """One run of a scenario: what each of its tenants told."""
        point: Point = {"scenario": scenario, "name": name, "seed": seed}
        try:
            with emulated.Path.start("shared", schedule=None, seed=seed + 1) as running:
                stage = Stage(paths.ends_of("shared", running), time.monotonic() + PREPARE_S, self.unit_s)
                jobs = []
                for index, tenant in enumerate(SCENARIOS[scenario]):
                    place = Workplace(self.place.path / f"tenant-{index}", self.place.secret)
                    source = supply(self.source, place, RATE_BPS, tenant.units * self.unit_s)
                    jobs.append(partial(stay, tenant, tenant.run(name), place, source, stage))
                told = together(jobs)
        except (Failed, TooSlow, emulated.Unavailable) as error:
            return {**point, "failed": " ".join(str(error).split())[-300:], "tenants": []}
        return {**point, "tenants": [asdict(each) for each in told]}


def outcome(points: dict[str, Point], unit: float, scale: str) -> Outcome:
    """What was found."""
    return Outcome(
        "shares",
        "Transfers that know nothing of one another over path `shared`: 1 Gbit/s, 30 ms, 100 Mbit/s a stream. `two` "
        f"and `three`: of one optimizer, they begin {unit:g} s apart and last {3 * unit:g} s each. Beside a transfer "
        f"with constant streams the second one begins after {unit:g} s, and both end after {3 * unit:g} s. Files do "
        "not run out, there is no history and no broker.",
        figures(points, unit),
        scale,
        notes(),
        [equal_table(points, unit), beside_table(points, unit)],
        {key: shown(point) for key, point in points.items()},
        versions(["edt"]),
    )


def stay(tenant: Tenant, run: tuned.Run, place: Workplace, source: Path, stage: Stage, over: threading.Event) -> Told:
    """Waits for the time of a tenant, and transfers until it has to leave."""
    if over.wait(max(0.0, stage.start + tenant.begin * stage.unit_s - time.monotonic())):
        raise Failed("asked to end")
    ended = timed(place, stage.ends, run.words, source, tenant.units * stage.unit_s)
    return Told(run.name, round(ended.begin - stage.start, 3), ended.timeline)


def said(point: Point, unit_s: float) -> str:
    """A run of a scenario in a few words."""
    if not point["tenants"]:
        return f"failed: {point['failed']}"
    return "Jain " + ", ".join(f"{phase.fairness():.3f}" for phase in phases(point, unit_s))


def phases(point: Point, unit_s: float) -> list[Phase]:
    """The times in which more than one tenant is there, and none comes or goes."""
    tenants = SCENARIOS[point["scenario"]]
    told = [Told(**each) for each in point["tenants"]]
    edges = sorted({edge for tenant in tenants for edge in (tenant.begin, tenant.end)})
    found = []
    for begin, end in itertools.pairwise(edges):
        there = [
            each for tenant, each in zip(tenants, told, strict=True) if tenant.begin <= begin and tenant.end >= end
        ]
        if len(there) > 1:
            found.append(Phase(begin * unit_s, end * unit_s, there))
    return found


def equals(points: dict[str, Point]) -> list[Point]:
    """The runs in which all tenants are of one optimizer."""
    return [point for point in points.values() if point["tenants"] and point["scenario"] in ("two", "three")]


def beside(points: dict[str, Point]) -> list[Point]:
    """The runs in which one tenant is a constant."""
    return [point for point in points.values() if point["tenants"] and point["scenario"] not in ("two", "three")]


def kept(point: Point, unit_s: float) -> list[tuple[str, float]]:
    """What each tenant beside a constant has of its fair share, once shares should be equal."""
    (phase,) = phases(point, unit_s)
    found = []
    for each in phase.tenants:
        constant = each.name.startswith("fixed ")
        most = STREAM_BPS * int(each.name.split()[1]) if constant else RATE_BPS
        fair = min(RATE_BPS / len(phase.tenants), most)
        found.append((each.name, each.rate_bps(*phase.settled) / fair))
    return found


def figures(points: dict[str, Point], unit_s: float) -> list[Figure]:
    """What has a bar: the worst of all changes for equal shares, the least share of a fixed 8."""
    found = [Figure("runs that failed", "", [float(sum(not point["tenants"] for point in points.values()))], at_most=0)]
    own = [point for point in equals(points) if point["name"] == JUDGED]
    if own:
        every = [phase for point in own for phase in phases(point, unit_s)]
        least = min(phase.least() for phase in every)
        mean_of_worst = min(phase.fairness() for phase in every)
        longest = max(min(phase.equal_s(), NEVER_S) for phase in every)
        what = f"{JUDGED}: least Jain's index from {WITHIN_S:g} s after a change on"
        found.append(Figure(what, "", [least], at_least=EQUAL))
        found.append(Figure(f"{JUDGED}: its mean after the change for which that is lowest", "", [mean_of_worst]))
        found.append(Figure(f"{JUDGED}: most seconds until it is {EQUAL}", "s", [longest], at_most=WITHIN_S))
    for streams_of_it in (8, 32):
        name = f"fixed {streams_of_it}"
        shares = [dict(kept(point, unit_s)) for point in beside(points) if point["name"] == JUDGED]
        if values := [share[name] for share in shares if name in share]:
            bar = KEPT_BAR if streams_of_it == 8 else None
            what = "least part of its fair share"
            found.append(Figure(f"{name} beside {JUDGED}: {what}", "", [min(values)], at_least=bar))
            own_part = min(share[JUDGED] for share in shares if name in share)
            found.append(Figure(f"{JUDGED} beside {name}: {what}", "", [own_part]))
    if joined := [kept(point, unit_s)[1] for point in beside(points) if point["name"] == CONSTANTS]:
        what = "fixed 8 that joins fixed 8: least part of its fair share"
        found.append(Figure(what, "", [min(part for _, part in joined)]))
    return found


def equal_table(points: dict[str, Point], unit_s: float) -> Table:
    """Every phase of every run with tenants of one optimizer."""
    lines = [
        [
            f"{point['scenario']}: {point['name']} #{point['seed']}",
            f"{phase.begin:g} to {phase.end:g} s",
            ", ".join(f"{each.rate_bps(*phase.settled) / 1e6:,.0f}" for each in phase.tenants),
            ", ".join(f"{each.streams(*phase.settled):.1f}" for each in phase.tenants),
            f"{sum(each.streams(*phase.settled) for each in phase.tenants):.1f}",
            f"{phase.fairness():.3f}",
            f"{phase.equal_s():.1f}" if math.isfinite(phase.equal_s()) else "never",
        ]
        for point in equals(points)
        for phase in phases(point, unit_s)
    ]
    header = ["run", "time", "Mbit/s", "streams", "sum", f"Jain's index after {WITHIN_S:g} s", "seconds until equal"]
    return Table("Transfers of one optimizer", header, lines)


def beside_table(points: dict[str, Point], unit_s: float) -> Table:
    """Every run beside a constant."""
    lines = []
    for point in beside(points):
        (phase,) = phases(point, unit_s)
        columns = (
            [(each.name, f"{each.rate_bps(*phase.settled) / 1e6:,.0f}") for each in phase.tenants],
            [(name, f"{part:.2f}") for name, part in kept(point, unit_s)],
            [(each.name, f"{each.streams(*phase.settled):.1f}") for each in phase.tenants],
        )
        told = [", ".join(f"{name}: {text}" for name, text in column) for column in columns]
        lines.append([f"{point['scenario']}: {point['name']} #{point['seed']}", *told])
    return Table("Beside constant streams", ["run", "Mbit/s", "part of the fair share", "streams"], lines)


def shown(point: Point) -> Point:
    """What is kept with the results."""
    tenants = [
        {"name": each["name"], "offset_s": each["offset_s"], "rows": rows(each["timeline"])}
        for each in point["tenants"]
    ]
    return {**point, "tenants": tenants}


def notes() -> list[str]:
    """What one has to know to read the tables."""
    return [
        f"Figures of a phase are of the time from {WITHIN_S:g} s after the change on. Jain's index is that of means "
        f"over {WINDOW_S:g} s, of which the table has the mean over all such windows, and the bar holds for the "
        "least; `seconds until equal`: from the change to the first "
        f"window from which it is {EQUAL} and stays there on average (never counts "
        f"as {NEVER_S:g} s). The fair share is half of the path, or what the caps leave to so many streams, if that is "
        "less. Of two transfers with as many constant streams the one that joins has less over this path, which is "
        "TCP's doing: the other rows are to be compared with that of these two.",
    ]

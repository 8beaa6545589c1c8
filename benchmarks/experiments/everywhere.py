"""Every optimizer over every path: whether each copy comes through with all that it should bring."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import datasets
import emulated
import paths
import tuned
from bench import Options
from copies import Data, compare
from experiments.agents import BOTTLENECKS, Serving, environ
from experiments.optimizers import LEARNING, MOST_CHANNELS, SEARCHING
from peers import versions
from points import Point
from processes import EDT, ROOT, Failed, Measured, TooSlow, Workplace, workplace
from results import Figure, Outcome, Table
from together import together

PATHS = (
    *("cloudlab", "emulab", "read-bound", "network-bound", "write-bound", "newy-cern/15", "mich-mass/15"),
    *("open", "lossy", "changing", "shared", "cliff", "loopback"),
)
STORAGE_MBPS: dict[str, tuple[float, float | None]] = {
    "emulab": (20.0, None),
    **{name: (each.read_mbps, each.write_mbps) for name, each in BOTTLENECKS.items()},
}
"""What a worker of the source's and of the destination's store may move [Falcon §5.1, AutoMDT §V-B1]."""
CONSTANTS = (1, 8, 32)
LOGGED = 60
"""Transfers of the log that some learn from: `ann` wants 30."""
AGENTS = ROOT / "core" / "tests" / "agents"
"""Agents that were trained for one path."""
SECONDS = (0.5, 1.5)
"""How long a copy takes at the path's rate, in a quick run and in a full one."""
LOOPBACK_BPS = 2e9
LIMIT_S = 120.0
INTERVAL_S = 0.25
"""Between two decisions: shorter than usual, so that there are many in a copy."""
SIDE_BY_SIDE = 3
"""Paths that are worked on at the same time: nothing here depends on how long a copy takes."""
CHANGES_S = 2.0
"""How often the rate of the path `changing` changes, so that it does within the copies."""
HOUR_S = 3600.0


@dataclass(frozen=True)
class Run:
    """One copy that is to be made: its name, and the options of `edt cp`."""

    name: str
    words: tuple[str, ...]


def run(options: Options) -> Outcome:
    """Copies with every optimizer over each path that was asked for, or over all."""
    seconds = options.seconds or SECONDS[not options.quick]
    chosen = list(options.paths or PATHS)
    points: dict[str, Point] = {}
    with workplace() as place:
        log = place.path / "log.csv"
        log.write_text(made_up())
        for first in range(0, len(chosen), SIDE_BY_SIDE):
            batch = chosen[first : first + SIDE_BY_SIDE]
            for found in together([partial(over, name, seconds, place, log) for name in batch]):
                points |= found
    return Outcome(
        "everywhere",
        "One copy of the data set `mixed` with every optimizer over every path, as much as takes the path "
        f"{seconds:g} s, a decision each {INTERVAL_S} s, {SIDE_BY_SIDE} paths at a time: what is told is whether it "
        "comes through, and whether all files are there with their sizes, and 16 of them with their content. How fast "
        "it was says little here.",
        figures(points),
        options.scale,
        notes(),
        [table(points)],
        points,
        versions(["edt"]),
    )


def made_up() -> str:
    """A log of transfers over a path that gives up to 8 streams 10 MB/s each."""
    rows = ["start_s,files,bytes,rtt_s,concurrency,parallelism,pipelining,throughput_bytes_per_s"]
    for number in range(LOGGED):
        streams, parallelism, pipelining = number % 12 + 1, 1 + number % 2, 4 * (1 + number % 3)
        throughput = 10e6 * min(streams * parallelism, 8) * (1 + 0.01 * (number % 5))
        start = f"{1_700_000_000 + number},100,104857600,0.05"
        rows.append(f"{start},{streams},{parallelism},{pipelining},{throughput}")
    return "\n".join(rows) + "\n"


def over(name: str, seconds: float, place: Workplace, log: Path, ended: threading.Event) -> dict[str, Point]:
    """All copies over one path."""
    with opened(name) as ends:
        # Not `workplace`, which ends all that is still running, of the other paths too.
        track = Track(Workplace(place.empty(name.replace("/", "-"))), ends, seconds)
        track.learn(log)
        return track.points(ended)


@contextmanager
def opened(name: str) -> Iterator[paths.Ends]:
    """Brings up a path; the rate of the one that changes does so again and again."""
    if name != "changing":
        with paths.opened(name) as ends:
            yield ends
        return
    times = [number * CHANGES_S for number in range(1, int(HOUR_S / CHANGES_S))]
    schedule = [{"at": at, "rate": ("1G", "500M")[number % 2]} for number, at in enumerate(times, start=1)]
    with emulated.Path.start(name, schedule=schedule) as running:
        yield paths.ends_of(name, running)


class Track:
    """One path, and all that is copied over it."""

    def __init__(self, place: Workplace, ends: paths.Ends, seconds: float) -> None:
        self.place, self.ends = place, ends
        wanted = seconds * (ends.rate_bps or LOOPBACK_BPS) / 8
        scale = datasets.scale_for("mixed", wanted)
        source = place.empty("source")
        self.data = Data("mixed", source, datasets.make("mixed", source, scale))
        self.reading, self.writing = map(storage, STORAGE_MBPS.get(ends.path, (None, None)))
        self.environment = environ({**place.environment, "EDT_HISTORY": "machines"})

    def learn(self, log: Path) -> None:
        """Lets all that learn from past transfers have those of a log."""
        for words in ("history import", "learn --quiet"):
            Measured([EDT, *words.split(), log], self.environment, talks=False).end(limit_s=LIMIT_S)

    def points(self, ended: threading.Event) -> dict[str, Point]:
        """Whether each copy came through, by path and name."""
        found: dict[str, Point] = {}
        for each in runs():
            if ended.is_set():
                break
            key = f"{self.ends.path} {each.name}"
            found[key] = self.point(each)
            told = found[key]["failed"] or f"{found[key]['mbps']:,.0f} Mbit/s"
            print(f"  {key}: {told}", flush=True)
        return found

    def point(self, each: Run) -> Point:
        """One copy into an empty directory, and what was wrong with it."""
        point: Point = {"path": self.ends.path, "name": each.name, "mbps": 0.0, "failed": ""}
        words = ["--plain", "--quiet", "--interval", str(INTERVAL_S), *self.reading, *each.words]
        command: list[str | Path] = [*self.ends.near.prefix, EDT, "cp", *words, self.data.path]
        try:
            with Serving(self.place, self.ends, self.writing) as url:
                cost = Measured([*command, url], self.environment, talks=False).end(limit_s=LIMIT_S)
                compare(self.data, self.place.path / "target")
        except (Failed, TooSlow) as error:
            return {**point, "failed": " ".join(str(error).split())[-300:]}
        return {**point, "mbps": round(8e-6 * self.data.size.bytes / cost.wall_s, 1)}


def storage(mbps: float | None) -> list[str]:
    """The option that limits each worker of a store to this rate."""
    return [] if mbps is None else ["--worker-rate", f"{mbps}Mbit"]


def runs() -> list[Run]:
    """What is run over each path."""
    limits = {"promc": MOST_CHANNELS}
    agents = {name: ("--agent", str(AGENTS / f"{name}.safetensors")) for name in tuned.AGENTS}
    others = [
        Run(name, ("--optimizer", name, *limits.get(name, ()), *agents.get(name, ())))
        for name in (*SEARCHING, *tuned.AGENTS, *LEARNING)
    ]
    return [*(Run(each.name, each.words) for each in map(tuned.constant, CONSTANTS)), *others]


def figures(points: dict[str, Point]) -> list[Figure]:
    """What has a bar."""
    failed = sum(bool(point["failed"]) for point in points.values())
    return [
        Figure("copies", "", [float(len(points))]),
        Figure("copies that failed, or did not bring what they should", "", [float(failed)], at_most=0),
    ]


def table(points: dict[str, Point]) -> Table:
    """A row for each optimizer, a column for each path."""
    columns = list(dict.fromkeys(point["path"] for point in points.values()))
    names = list(dict.fromkeys(point["name"] for point in points.values()))
    rows = [[name, *(cell(points.get(f"{path} {name}")) for path in columns)] for name in names]
    return Table("Mbit/s of each copy", ["optimizer", *columns], rows)


def cell(point: Point | None) -> str:
    """How one copy went."""
    if point is None:
        return "-"
    return f"failed: {point['failed']}" if point["failed"] else f"{point['mbps']:,.0f}"


def notes() -> list[str]:
    """What one has to know to read the table."""
    return [
        "`edt`, `drl` and `automdt` run with agents that were trained for one path, on all of them; `asm`, `ann` and "
        "`harp` know a log of transfers that nobody made, and the copies before theirs. HARP asks its models only "
        f"where 15 s of work are left. The rate of `changing` halves and doubles every {CHANGES_S:g} s.",
    ]

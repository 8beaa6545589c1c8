"""Every optimizer side by side over emulated paths, with light, medium and heavy traffic of others."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import changes
import experience
import optimizers_page
import paths
import tuned
from bench import Bench, Options
from copies import Data
from experiments.agents import Serving, environ
from optimizers_page import LOADS
from peers import versions
from points import Point
from processes import EDT, Failed, Measured, TooSlow, Workplace, workplace
from reasons import overruled, retuned
from results import Outcome
from servers import free_port
from traffic import Traffic

PATHS = ("cloudlab", "shared")
FIXED = {"light": (4, 6, 8, 10, 12, 16), "medium": (8, 12, 16, 20, 24, 32), "heavy": (16, 24, 28, 32, 40, 48)}
"""Constants around the best by Falcon's utility: as many as fill the path, 17 beside 8 others, 27 beside 32."""
FIXED_QUICK = {"light": (4, 8, 16), "medium": (8, 16, 24)}
SEARCHING = (
    *("auto", "model", "falcon", "falcon-printed", "falcon-mp", "hill-climb", "binary", "bayes", "marlin"),
    *("nelder-mead", "pcp", "single-chunk", "promc", "globus", "generalist"),
)
LEARNING = ("harp", "harp-once", "asm", "ann", "ann-once")
"""Those that learn from the transfers that were made before on the same path."""
TRAINED = tuple(tuned.AGENTS)
"""Those for which the path is explored and an agent trained; a quick run leaves them out unless they are asked for."""
SECONDS = (4.0, 15.0)
"""How long a copy takes, in a quick run and in a full one."""
TYPICAL = 12
"""Streams that most optimizers come to here; the data are what so many move in that time beside the others."""
FEW = {"falcon-printed": 4, "hill-climb": 6, "pcp": 6, "single-chunk": 4}
"""Those that stay with fewer for most of the time."""
STEPS = 8
"""Data are sized in so many steps up to what the whole path moves, so that many copies are of the same."""
MOST_CHANNELS = ("--max-streams", "10")
"""What the papers allow ProMC, which always takes all that it is allowed."""


@dataclass(frozen=True)
class Run:
    """One copy that is to be made: its name, the options of `edt cp`, and the streams that its data are sized for."""

    name: str
    words: tuple[str, ...]
    streams: int = TYPICAL


CHANGING = tuple(Run(name, ("--optimizer", name)) for name in ("harp", "harp-once", "auto"))
"""What is run while the load changes from light to more."""
CHANGING_S = (34.0, 44.0)
"""How long such a copy would take without others, at least, in a quick run and in a full one.

HARP samples only where 15 s are left. Then others take half a minute to get their share, and four estimates 12 s.
"""


def run(options: Options) -> Iterator[Outcome]:
    """Runs every optimizer over each path under each load, and some while the load changes; yields path by path."""
    for name in paths_of(options):
        points: dict[str, Point] = {}
        with workplace() as place, paths.opened(name) as ends:
            track = Track(Bench(kept_as(name), options, place), place, ends)
            for load in ("light", "medium") if options.quick else tuple(LOADS):
                points |= track.measure(load)
            points |= track.changing()
        yield outcome(name, points, options)


def paths_of(options: Options) -> tuple[str, ...]:
    """The paths that are measured."""
    return options.paths or (PATHS[:1] if options.quick else PATHS)


def kept_as(path: str) -> str:
    """The name under which the outcome of a path is kept."""
    return f"optimizers-{path}"


def outcome(path: str, points: dict[str, Point], options: Options) -> Outcome:
    """What was found on one path."""
    return Outcome(
        kept_as(path),
        "One copy of files of 16 MiB with each optimizer, guarded as always, on tmpfs at both ends: as many files as "
        f"take some {options.seconds or SECONDS[not options.quick]:g} s under this load. Medium and heavy traffic of "
        "others are 8 and 32 streams of iperf3 that begin anew before each copy; light is none. Utility is Falcon's; "
        "the best constant is that of the highest mean utility among those that were tried.",
        optimizers_page.figures(points),
        options.scale,
        optimizers_page.notes(),
        optimizers_page.tables(points),
        points,
        versions(["edt", "iperf3"]),
    )


class Track:
    """One path, and all that is run over it."""

    def __init__(self, bench: Bench, place: Workplace, ends: paths.Ends) -> None:
        self.bench, self.place, self.ends = bench, place, ends
        self.folder = place.empty("optimizers")
        # The history tells servers apart by host and port.
        self.port = free_port()
        full = not bench.options.quick
        self.seconds = bench.options.seconds or SECONDS[full]
        self.changing_s = max(self.seconds, CHANGING_S[full])
        self.experienced = False
        self.trainer = tuned.Trainer(place, self.folder / "agents", self.data(experience.SECONDS).path, "now")
        self.untrained: dict[str, str] = {}

    def measure(self, load: str) -> dict[str, Point]:
        """All points of this path under a load, by name."""
        every = runs(self.bench.options, load)
        self.prepare(load, every)
        return self.measured(load, every)

    def changing(self) -> dict[str, Point]:
        """Copies during which the others begin."""
        chosen = asked_for(self.bench.options, CHANGING)
        self.prepare("changing", chosen)
        return self.measured("changing", chosen)

    def prepare(self, load: str, runs: Sequence[Run]) -> None:
        """Makes the history and trains the agents, once a path, if what is to be measured needs them."""
        missing = [each.name for each in runs if self.key(load, each) not in self.bench.points.found]
        if not self.experienced and set(missing) & set(LEARNING):
            self.experience()
            self.experienced = True
        for name in missing:
            if name in TRAINED and name not in self.untrained and not self.agent(name).exists():
                self.train(name)

    def measured(self, load: str, runs: Sequence[Run]) -> dict[str, Point]:
        """The points of these runs."""
        found: dict[str, Point] = {}
        for each in runs:
            key = self.key(load, each)
            found[key] = self.bench.points.measured(key, partial(self.point, each, load))
            told = found[key].get("failed") or f"{found[key]['mean_mbps']:,.0f} Mbit/s"
            print(f"  {key}: {told}", flush=True)
        return found

    def key(self, load: str, each: Run) -> str:
        """The name of a point."""
        return f"{self.ends.path} {load} {each.name}"

    def point(self, each: Run, load: str) -> Point:
        """One copy and its timeline; one that failed says why."""
        data = self.data(self.busy_s(each, load))
        point: Point = {"path": self.ends.path, "load": load, "name": each.name, "rate_bps": self.ends.rate_bps}
        words = tuned.optimizer(each.name, agent=self.agent(each.name)).words if each.name in TRAINED else each.words
        others, after_s = (LOADS[load], None) if load in LOADS else (changes.OTHERS, changes.OTHERS_S)
        try:
            if each.name in self.untrained:
                raise Failed(self.untrained[each.name])
            report = self.copied(data, words, self.environment("off"), others, after_s)
        except (Failed, TooSlow) as error:
            return {**point, "failed": " ".join(str(error).split())[-300:], "timeline": []}
        kept = ("elapsed_s", "throughput", "concurrency", "loss")
        samples = zip(report["timeline"], overruled(report), strict=True)
        timeline = [{**{name: sample[name] for name in kept}, "overruled": guard} for sample, guard in samples]
        wall = timeline[-1]["elapsed_s"]
        goodput = 8e-6 * data.size.bytes / wall
        return {**point, "timeline": timeline, "wall_s": wall, "mean_mbps": goodput, **self.changed(report, load)}

    def changed(self, report: dict[str, Any], load: str) -> Point:
        """What a point has besides where the load changed: when, and how often HARP retuned."""
        return {"others_s": changes.OTHERS_S, "retuned": retuned(report)} if load == "changing" else {}

    def copied(
        self,
        data: Data,
        words: Sequence[str],
        environment: dict[str, str],
        others: int,
        after_s: float | None = None,
    ) -> dict[str, Any]:
        """Copies once into an empty directory, beside so many streams of others; the report.

        They begin anew for each copy, before it, or so many seconds after its start: nobody finds what an earlier copy
        left of them.
        """
        file = self.folder / "report.json"
        # One that keeps to a single stream takes many times as long.
        limit_s = 10 * self.changing_s + 60
        with Serving(self.place, self.ends, [], self.port) as url:
            command: list[str | Path] = [
                *self.ends.near.prefix,
                EDT,
                "cp",
                "--plain",
                "--report",
                file,
                *words,
                data.path,
                url,
            ]
            if after_s is None:
                with Traffic(self.place, self.ends, others):
                    Measured(command, environment, talks=False).end(limit_s=limit_s)
            else:
                copy = Measured(command, environment, talks=False)
                time.sleep(after_s)
                with Traffic(self.place, self.ends, others):
                    copy.end(limit_s=limit_s)
        report: dict[str, Any] = json.loads(file.read_text())
        return report

    def experience(self) -> None:
        """Makes the transfers that some learn from."""
        print(f"  {self.ends.path}: {experience.count()} transfers to learn from", flush=True)
        data = self.data(experience.SECONDS)
        for load, constants in experience.LOADS.items():
            for streams in constants:
                words = ["--optimizer", "fixed", "--concurrency", str(streams), "--interval", "0.2"]
                self.copied(data, words, self.environment("machines"), LOADS[load])
            experience.age(self.folder / "data" / "history.db")
        learn = Measured([EDT, "learn", "--history", "--quiet"], environ(self.environment("off")), talks=False)
        try:
            learn.end(limit_s=120)
        except (Failed, TooSlow) as error:
            print(f"  asm: nothing learnt, {str(error).strip().splitlines()[-1]}", flush=True)

    def train(self, name: str) -> None:
        """Explores the path without others, and trains an agent for it."""
        print(f"  {self.ends.path}: training for {name}", flush=True)
        try:
            self.trainer.train(self.ends.path, name, {"profile": self.ends.path})
        except Failed as error:
            self.untrained[name] = f"not trained: {error}"

    def agent(self, name: str) -> Path:
        """Where the agent of an optimizer is kept."""
        return self.trainer.file(self.ends.path, name)

    def environment(self, history: str) -> dict[str, str]:
        """What edt is given: a place of its own for history and knowledge, and what the history keeps of a copy.

        With `off`, `auto` and `model` begin without it, too.
        """
        return {**self.place.environment, "EDT_DATA_DIR": str(self.folder / "data"), "EDT_HISTORY": history}

    def data(self, seconds: float) -> Data:
        """Files that take about that long at the path's rate."""
        return self.bench.data("uniform", self.bench.uncapped("uniform", seconds, self.ends))

    def busy_s(self, each: Run, load: str) -> float:
        """How long the whole path would be busy with the data of a copy."""
        if load == "changing":
            # So much takes longer once there are others, who need some seconds to get their share.
            return self.changing_s
        return self.seconds * in_steps(left(each.streams, LOADS[load], self.ends))


def runs(options: Options, load: str) -> list[Run]:
    """What is run under a load: the constants first, whose best is the yardstick."""
    constants = (FIXED_QUICK if options.quick else FIXED)[load]
    fixed = [Run(f"fixed {n}", ("--optimizer", "fixed", "--concurrency", str(n)), n) for n in constants]
    limits = {"promc": MOST_CHANNELS}
    trained = () if options.quick and options.optimizers is None else TRAINED
    names = (*SEARCHING, *LEARNING, *trained)
    every = [Run(name, ("--optimizer", name, *limits.get(name, ())), FEW.get(name, TYPICAL)) for name in names]
    return fixed + asked_for(options, every)


def asked_for(options: Options, every: Sequence[Run]) -> list[Run]:
    """Those of the optimizers that were asked for, or all."""
    return [each for each in every if options.optimizers is None or each.name in options.optimizers]


def left(streams: int, others: int, ends: paths.Ends) -> float:
    """The share of a path's rate that so many streams get beside streams of others, if each gets as much as another."""
    fair = streams / (streams + others)
    if ends.rate_bps is None or ends.stream_rate_bps is None:
        return fair
    each = ends.stream_rate_bps / ends.rate_bps
    return min(streams * each, max(fair, 1 - others * each))


def in_steps(share: float) -> float:
    """The nearest step to a share, the first at least."""
    return min(max(1, round(STEPS * share)), STEPS) / STEPS

"""Trained agents over emulated paths: explored, trained, and run against constants, Falcon, Marlin and DRL."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paths
from bench import Bench, Options
from copies import Data
from points import Point
from processes import EDT, Failed, Workplace, workplace
from results import Figure, Outcome, Table
from servers import Server, free_port

ONE_STAGE = {"cloudlab": 6.67, "newy-cern/15": 15.0, "mich-mass/15": 23.3}
"""EDT's paths, scaled, and the streams that fill them [EDT table I, §V-F]."""


@dataclass(frozen=True)
class Bottleneck:
    """One of AutoMDT's paths: the rate of a worker of the source's and the destination's store, and the optimum."""

    read_mbps: float
    write_mbps: float
    optimum: tuple[int, int, int]


BOTTLENECKS = {
    "read-bound": Bottleneck(80, 200, (13, 7, 5)),
    "network-bound": Bottleneck(205, 195, (5, 14, 5)),
    "write-bound": Bottleneck(200, 70, (5, 7, 15)),
}
"""[AutoMDT §V-B1]"""
STAGES = ("read", "network", "write")
K = 1.02
LOSS_WEIGHT = 10.0
NEAR = 0.9
"""A share of the best fixed utility from which a setting counts as good."""
EDT_BAR = 6
AUTOMDT_BAR = 7
TOLERANCE = 1.05
"""Workers by which a stage may be off its optimum: one, and what averaging over an interval adds."""
EXPLORE_S = (20, 60)
"""How long a path is explored, in a quick run and in a full one."""
RUN_S = 9.0
"""How long the run of an agent takes at the path's rate."""
LONG_S = 30.0
"""And that of an optimizer that searches while it runs."""


def run(options: Options) -> Outcome:
    """Explores each path, trains for it, and runs everything over it."""
    points: dict[str, Point] = {}
    repetitions = options.repetitions or (2 if options.quick else 10)
    with workplace() as place:
        bench = Bench("agents", options, place)
        chosen = options.paths or (("cloudlab", "read-bound") if options.quick else (*ONE_STAGE, *BOTTLENECKS))
        for name in chosen:
            with paths.opened(name) as ends:
                track = Track(bench, place, ends, BOTTLENECKS.get(name))
                points |= track.measure(repetitions)
    return Outcome(
        "agents",
        f"Each path is explored for {EXPLORE_S[not options.quick]} s (`edt explore`), an agent is trained for it (`edt "
        "train`), and files are copied over it with that agent, sampling its actions with another seed in each run. An "
        "interval is what lies between two decisions. Optimizers that search while they run get one long copy each.",
        figures(points),
        options.scale,
        notes(),
        [table(points, "edt"), table(points, "automdt")],
        points,
    )


class Track:
    """One path with a server behind it, and all that is run over it."""

    def __init__(self, bench: Bench, place: Workplace, ends: paths.Ends, bottleneck: Bottleneck | None) -> None:
        self.bench, self.place, self.ends, self.bottleneck = bench, place, ends, bottleneck
        self.kind = "automdt" if bottleneck else "edt"
        self.folder = place.empty("agents")

    def measure(self, repetitions: int) -> dict[str, Point]:
        """All points of this path, by name."""
        found: dict[str, Point] = {}

        def measured(key: str, seconds: float, *words: str) -> Point:
            name = f"{self.ends.path} {key}"
            found[name] = self.bench.points.measured(name, lambda: self.copied(key, seconds, *words))
            print(f"  {name}: {found[name]['mean_mbps']:,.0f} Mbit/s", flush=True)
            return found[name]

        explored = self.bench.points.measured(f"{self.ends.path} explored", self.prepared)
        agent = self.folder / f"{self.kind}.safetensors"
        if not agent.exists():
            self.train(explored["path_file"])
        for streams in self.fixed_candidates():
            measured(f"fixed {streams}", 7.0, "--optimizer", "fixed", "--concurrency", str(streams))
        for index in range(repetitions if self.bottleneck else (repetitions + 1) // 2):
            chosen = ("--optimizer", self.kind, "--agent", str(agent), "--seed", str(index))
            measured(f"{self.kind} {index}", RUN_S, *chosen)
        if self.kind == "edt":
            discrete = self.folder / "drl.safetensors"
            measured("drl", LONG_S, "--optimizer", "drl", "--agent", str(discrete))
        else:
            measured("marlin", LONG_S, "--optimizer", "marlin")
            measured(f"{self.kind} long", LONG_S, "--optimizer", self.kind, "--agent", str(agent))
        measured("falcon", LONG_S, "--optimizer", "falcon")
        found[f"{self.ends.path} explored"] = explored
        return found

    def fixed_candidates(self) -> list[int]:
        """Constants around the optimum, of which the best is the yardstick; none with three stages."""
        optimum = ONE_STAGE.get(self.ends.path)
        if optimum is None:
            return []
        return sorted({round(optimum * share) for share in (0.75, 0.9, 1.0, 1.1, 1.25, 1.5)})

    def prepared(self) -> Point:
        """Explores the path and trains the agents."""
        stages = 3 if self.bottleneck else 1
        seconds = EXPLORE_S[not self.bench.options.quick]
        file = self.folder / "path.json"
        source = self.data(30.0).path if stages == 3 else Path("zero:")
        words = ["--stages", str(stages), "--seconds", str(seconds), "--max-streams", "30", "--output", str(file)]
        with self.server() as url:
            self.edt("explore", *words, *self.reading(), str(source), url, limit_s=4 * seconds)
        return {"path_file": json.loads(file.read_text()), "training": self.train(json.loads(file.read_text()))}

    def train(self, path_file: dict[str, Any]) -> dict[str, Any]:
        """Trains what is run on this path; the reports."""
        file = self.folder / "path.json"
        file.write_text(json.dumps(path_file))
        found = {}
        for kind in (self.kind, "drl") if self.kind == "edt" else (self.kind,):
            output = self.folder / f"{kind}.safetensors"
            words = ["--path", str(file), "--agent", kind, "--output", str(output), "--seconds", "120", "--json"]
            ended = self.edt("train", *words, "--quiet", limit_s=200, near=False, allowed=(0, 1))
            found[kind] = json.loads(ended.stdout)
        return found

    def copied(self, key: str, seconds: float, *words: str) -> Point:
        """One copy; its timeline."""
        data = self.data(seconds)
        report = self.folder / "report.json"
        with self.server() as url:
            command = ["--report", str(report), *words, *self.reading(), str(data.path), url]
            self.edt("cp", *command, limit_s=6 * seconds + 20)
        document = json.loads(report.read_text())
        timeline = [
            {name: sample[name] for name in ("elapsed_s", "throughput", "concurrency", "loss")}
            for sample in document["timeline"]
        ]
        return {
            "key": key,
            "path": self.ends.path,
            "rate_bps": self.ends.rate_bps,
            "timeline": timeline,
            "wall_s": timeline[-1]["elapsed_s"],
            "mean_mbps": 8e-6 * data.size.bytes / timeline[-1]["elapsed_s"],
        }

    def data(self, seconds: float) -> Data:
        """Files that take about that long at the path's rate."""
        return self.bench.data("uniform", self.bench.uncapped("uniform", seconds, self.ends))

    def reading(self) -> list[str]:
        """The rate of a worker that reads, where the path has one."""
        return ["--worker-rate", f"{self.bottleneck.read_mbps}Mbit"] if self.bottleneck else []

    def server(self) -> Serving:
        """A fresh server into an empty directory."""
        words = ["--worker-rate", f"{self.bottleneck.write_mbps}Mbit"] if self.bottleneck else []
        return Serving(self.place, self.ends, words)

    def edt(
        self, *words: str, limit_s: float, near: bool = True, allowed: tuple[int, ...] = (0,)
    ) -> subprocess.CompletedProcess[str]:
        """Runs edt at the near end."""
        verb, *rest = words
        plain = ["--plain"] if near else []
        command = [*(self.ends.near.prefix if near else ()), str(EDT), verb, *plain, *rest]
        environment = {**self.place.environment, "EDT_DATA_DIR": str(self.folder / "data")}
        ended = subprocess.run(
            command, env=environ(environment), capture_output=True, text=True, timeout=limit_s, check=False
        )
        if ended.returncode not in allowed:
            raise Failed(f"`{' '.join(command[-6:])}` ended with {ended.returncode}\n{ended.stderr[-2000:]}")
        return ended


class Serving:
    """`edt serve` at the far end, into an empty directory, for the time of a `with` block."""

    def __init__(self, place: Workplace, ends: paths.Ends, words: list[str], port: int | None = None) -> None:
        self.place, self.ends, self.words, self.port = place, ends, words, port or free_port()

    def __enter__(self) -> str:
        end, port = self.ends.far, self.port
        target = self.place.empty("target")
        command: list[str | Path] = [EDT, "serve", "--plain", *self.words, "--listen", f"{end.address}:{port}", target]
        self.running = Server(end, command, port, self.place.empty("peer"), self.place.environment)
        return f"edt://{end.address}:{port}/"

    def __exit__(self, *_: object) -> None:
        self.running.stop()
        self.place.empty("target")


def environ(own: dict[str, str]) -> dict[str, str]:
    """The environment of a child, with this Python as the one that trains."""
    return {**os.environ, **own, "EDT_PYTHON": sys.executable}


def utility(sample: dict[str, Any], rate_bps: float) -> float:
    """U = thrpt / K^cc - B plr of one interval, the throughput as a share of the path's rate [EDT §IV-B]."""
    share = 8 * sample["throughput"]["network"] / rate_bps
    return float(share / K ** sample["concurrency"]["network"] - LOSS_WEIGHT * (sample["loss"] or 0.0))


def whole(point: Point) -> list[dict[str, Any]]:
    """The intervals of a copy without the last, which ends where the files do."""
    return list(point["timeline"][:-1])


def best_fixed(points: dict[str, Point], path: str) -> tuple[float, int]:
    """The best mean utility among the constants of a path, and their streams."""
    found = []
    for key, point in points.items():
        if key.startswith(f"{path} fixed "):
            values = [utility(sample, point["rate_bps"]) for sample in whole(point)[1:]]
            found.append((statistics.mean(values), int(key.rsplit(" ", 1)[1])))
    return max(found)


def until_good(point: Point, best: float) -> int:
    """Intervals until the utility was within 10 % of the best fixed one; one more than there were if it never was."""
    for index, sample in enumerate(whole(point), start=1):
        if utility(sample, point["rate_bps"]) >= NEAR * best:
            return index
    return len(whole(point)) + 1


def until_optimal(point: Point, optimum: tuple[int, int, int]) -> int:
    """Intervals until all stages were within 1 of their optimum; one more than there were if they never were."""
    for index, sample in enumerate(whole(point), start=1):
        if all(
            abs(sample["concurrency"][stage] - best) <= TOLERANCE for stage, best in zip(STAGES, optimum, strict=True)
        ):
            return index
    return len(whole(point)) + 1


def reached(point: Point, intervals: int) -> str:
    """The intervals, and when the last of them ended, in seconds from the start of the copy."""
    if intervals > len(whole(point)):
        return "never"
    return f"{intervals} ({point['timeline'][intervals - 1]['elapsed_s']:.1f} s)"


def figures(points: dict[str, Point]) -> list[Figure]:
    """How soon the agents are where they should be."""
    found = []
    for path in ONE_STAGE:
        runs = [point for key, point in points.items() if key.startswith(f"{path} edt ")]
        if runs:
            best, streams = best_fixed(points, path)
            values = [float(until_good(point, best)) for point in runs]
            what = f"{path}: intervals of edt until within 10 % of fixed {streams}"
            found.append(Figure(what, "", values, at_most=EDT_BAR))
    for path, bottleneck in BOTTLENECKS.items():
        runs = [point for key, point in points.items() if key.startswith(f"{path} automdt ") and "long" not in key]
        if runs:
            values = [float(until_optimal(point, bottleneck.optimum)) for point in runs]
            good = sum(value <= AUTOMDT_BAR for value in values) / len(values)
            found.append(Figure(f"{path}: intervals of automdt until each stage is within 1", "", values))
            found.append(Figure(f"{path}: share of runs in at most {AUTOMDT_BAR}", "", [good], at_least=0.9))
    return found


def table(points: dict[str, Point], kind: str) -> Table:
    """Every run: seconds until it was good, concurrency, and the time of the whole copy."""
    rows = []
    for key, point in points.items():
        path = point.get("path")
        if path is None or (path in BOTTLENECKS) != (kind == "automdt"):
            continue
        if kind == "automdt":
            good = until_optimal(point, BOTTLENECKS[path].optimum)
        else:
            good = until_good(point, best_fixed(points, path)[0])
        samples = whole(point)[3:] or whole(point)
        streams = [statistics.mean(sample["concurrency"][stage] for sample in samples) for stage in STAGES]
        shown = streams if kind == "automdt" else streams[1:2]
        rows.append(
            [
                key,
                reached(point, good),
                ", ".join(f"{value:.1f}" for value in shown),
                f"{point['mean_mbps']:,.0f}",
                f"{point['wall_s']:.1f}",
            ]
        )
    goal = "each stage within 1 of its optimum" if kind == "automdt" else "within 10 % of the best fixed utility"
    header = ["run", f"intervals until {goal}", "mean concurrency", "Mbit/s", "seconds"]
    return Table(f"{kind}: every run", header, rows)


def notes() -> list[str]:
    """What the papers say."""
    return [
        "A run that never got there counts with one interval more than it had. Concurrency is averaged over an "
        f"interval, so within 1 means within {TOLERANCE}.",
        "Papers: EDT is at its mean concurrency after 6 s, the discrete agent after 3 s, Falcon after 46 s; AutoMDT "
        "is at its optimum after 6, 3 and about 4 s, Marlin after 29, 42 and more; 44 against 74 s on 100 x 1 GB.",
    ]

"""The Nextflow plugin against Nextflow's own staging over HTTP: real pipelines over emulated paths, and here."""

from __future__ import annotations

import importlib
import random
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import datasets
import paths
from bench import Bench, Options
from paths import LOOPBACK, End
from points import Point
from processes import ROOT, Failed, Measured, Workplace, workplace
from results import Figure, Outcome
from servers import Server, free_port

sys.path[1:1] = [str(ROOT / "plugins" / "nextflow" / "tests"), str(ROOT / "tests")]
programs: Any = importlib.import_module("programs")
"""How the tests of the plugin run Nextflow."""

SMALL_BYTES = 256 * 1024
LIMIT_S = 1200.0
SHAPES = {"quick": (400, 2048 * datasets.MIB, 13_000), "full": (2000, 4096 * datasets.MIB, 130_000)}
"""Small inputs, bytes of the large one, files published."""
AHEAD = 60

STAGED = """
process take {{
    input: path x
    script: "true"
}}
workflow {{ take(Channel.fromList((0..<{count}).collect {{ file("{url}/$it") }}).collect()) }}
"""
PUBLISHED = """
process make {{
    publishDir '{url}/out', mode: 'copy'
    output: path 'f*'
    script: "for i in \\$(seq {count}); do echo \\$i > f\\$i; done"
}}
workflow {{ make() }}
"""
AHEAD_OF_TASKS = """
include {{ edtPrefetch }} from 'plugin/nf-edt'
process take {{
    input: path x
    script: "true"
}}
workflow {{ take(Channel.fromList((0..<{count}).collect {{ file("{url}/$it") }}).map {{ edtPrefetch(it) }}) }}
"""


@dataclass(frozen=True)
class Staging:
    """How Nextflow reaches a directory: the address, and the configuration."""

    name: str
    url: str
    config: str


def run(options: Options) -> Outcome:
    """Measures what is promised."""
    if why := programs.absence():
        raise Failed(f"Nextflow cannot be run: {why}; `make target/nextflow/.built` brings it")
    small, large, published = SHAPES[options.scale]
    with workplace() as place:
        bench = Bench("nextflow", options, place)
        figures = [*staged(bench, small), *whole(bench, large), *published_files(bench, published), *ahead(bench)]
        points = bench.points.found
    return Outcome(
        "nextflow",
        f"Real pipelines in Nextflow {programs.OLDEST.name}, with the plugin nf-edt and `edt serve`, and as they come "
        "with a web server. Paths are emulated. Inputs are staged from the begin of the run to the submitted task, "
        "with all questions about them, and copied from the first one that Nextflow copies. Files are published from "
        "the first to the last that is there.",
        figures,
        options.scale,
        [
            "Without the plugin Nextflow asks the file server of Python, which keeps connections and does not encrypt: "
            "that is in its favour against HTTPS. Its plugin for S3 is in no registry that these machines reach."
        ],
        points=points,
        versions={"nextflow": programs.OLDEST.name},
    )


def staged(bench: Bench, count: int) -> list[Figure]:
    """Small inputs of one task over a long path."""
    folder = bench.place.empty("small")
    make(folder, count, SMALL_BYTES)
    found: dict[str, list[Point]] = {"edt": [], "http": []}
    with paths.opened("open") as ends:
        for repetition in range(repetitions(bench)):
            for name, serving in (("edt", edt_server), ("http", web_server)):
                with serving(bench.place, ends.near, folder) as staging:
                    key = f"small {count} {name} {repetition}"
                    found[name].append(pipeline(bench, key, ends.far, staging, STAGED, count))
    shutil.rmtree(folder)
    what = f"{count} inputs of 256 KiB at 67 ms"
    both = list(zip(found["http"], found["edt"], strict=True))
    return [
        Figure(f"{what}: edt", "s", [point["staging_s"] for point in found["edt"]]),
        Figure(f"{what}: Nextflow itself", "s", [point["staging_s"] for point in found["http"]]),
        Figure(
            f"{what}: Nextflow itself / edt",
            "",
            [one["staging_s"] / own["staging_s"] for one, own in both],
            at_least=5.0,
        ),
        Figure(
            f"{what}: copying alone, Nextflow itself / edt",
            "",
            [one["copying_s"] / own["copying_s"] for one, own in both],
        ),
    ]


def whole(bench: Bench, size: int) -> list[Figure]:
    """One large input over the path of the papers."""
    folder = bench.place.empty("large")
    make(folder, 1, size)
    shares: list[float] = []
    with paths.opened("cloudlab") as ends:
        assert ends.rate_bps is not None
        for repetition in range(repetitions(bench)):
            with edt_server(bench.place, ends.near, folder) as staging:
                point = pipeline(bench, f"large {size} {repetition}", ends.far, staging, STAGED, 1)
                shares.append(8 * size / point["copying_s"] / ends.rate_bps)
    shutil.rmtree(folder)
    what = f"an input of {size / (1 << 30):g} GiB on cloudlab, share of the path's rate"
    return [Figure(what, "", shares, at_least=0.9)]


def published_files(bench: Bench, count: int) -> list[Figure]:
    """Small outputs, each published for itself, on this machine."""
    rates: list[float] = []
    for repetition in range(repetitions(bench)):
        folder = bench.place.empty("published")
        with edt_server(bench.place, LOOPBACK.near, folder) as staging:
            point = pipeline(bench, f"published {count} {repetition}", LOOPBACK.far, staging, PUBLISHED, count, folder)
        rates.append(count / point["publishing_s"])
    return [Figure(f"{count} files published on loopback", "files/s", rates, at_least=2000.0)]


def ahead(bench: Bench) -> list[Figure]:
    """Tasks with an input each, which are fetched ahead of them."""
    folder = bench.place.empty("ahead")
    make(folder, AHEAD, datasets.MIB)
    most: list[float] = []
    for repetition in range(repetitions(bench)):
        with edt_server(bench.place, LOOPBACK.near, folder) as staging:
            point = pipeline(bench, f"ahead {repetition}", LOOPBACK.far, slowed(staging), AHEAD_OF_TASKS, AHEAD)
            most.append(point["in_flight"])
    shutil.rmtree(folder)
    return [Figure(f"{AHEAD} tasks with an input each: files in flight with edtPrefetch", "", most, at_least=30.0)]


def slowed(staging: Staging) -> Staging:
    """So slow that lines of progress tell of it."""
    return Staging(staging.name, staging.url, "edt { plain = true; limitRate = '8MB'; progress = 1 }")


def pipeline(
    bench: Bench, key: str, end: End, staging: Staging, script: str, count: int, published: Path | None = None
) -> Point:
    """One run of Nextflow, kept under a key."""

    def measure() -> Point:
        log = nextflow(bench.place, end, staging, script.format(url=staging.url, count=count))
        point = {
            "staging_s": between(log, "Session await$", "Submitted process"),
            "copying_s": between(log, "Copying foreign file", "Submitted process"),
            "publishing_s": publishing(published / "out", count) if published else 0.0,
            "in_flight": in_flight(log),
        }
        print(f"  {key}: {point}", flush=True)
        return point

    return bench.points.measured(key, measure)


def nextflow(place: Workplace, end: End, staging: Staging, script: str) -> str:
    """Runs a script in an empty folder; returns its log."""
    folder = place.empty("launch")
    (folder / "main.nf").write_text(script)
    (folder / "nextflow.config").write_text(f"plugins {{ id 'nf-edt@0.1.0' }}\n{staging.config}\n")
    environment = {**place.environment, **programs.environment(programs.home(place.path / "nextflow-home"))}
    words = [*programs.command(programs.OLDEST), "-log", str(folder / "log"), "run", "main.nf"]
    inside = ["env", "-C", str(folder), *words]
    process = Measured([*end.prefix, *inside], environment, talks=False)
    try:
        process.end(limit_s=LIMIT_S)
    except Failed as error:
        raise Failed(f"{error}\n{(folder / 'log').read_text()[-3000:]}") from error
    return (folder / "log").read_text()


def times(log: str, said: str) -> list[datetime]:
    """When lines of the log say something."""
    found = re.findall(rf"^(\w+-\d+ [\d:.]+) .*{said}", log, re.MULTILINE)
    return [datetime.strptime(f"2000-{text}", "%Y-%b-%d %H:%M:%S.%f") for text in found]


def between(log: str, first: str, last: str) -> float:
    """Seconds from the first line that says one thing to the first that says another."""
    begun, done = times(log, first), times(log, last)
    return (done[0] - begun[0]).total_seconds() if begun and done else 0.0


def publishing(folder: Path, count: int) -> float:
    """Seconds from the first published file to the last."""
    told = sorted(path.stat().st_ctime for path in folder.iterdir())
    if len(told) != count:
        raise Failed(f"{len(told)} of {count} files were published")
    return told[-1] - told[0]


def in_flight(log: str) -> float:
    """The most files that a line of progress tells of and that were not there yet."""
    told = re.findall(r"edt: (\d+)/(\d+) files", log)
    return float(max((int(all_of_them) - int(done) for done, all_of_them in told), default=0))


@contextmanager
def edt_server(place: Workplace, end: End, folder: Path) -> Iterator[Staging]:
    """`edt serve`."""
    server, port = place.serve(folder, "--plain", host=end.address, within=end.prefix)
    try:
        yield Staging("edt", f"edt://{end.address}:{port}", "edt.plain = true")
    finally:
        server.dismiss()


WEB = """
import http.server, sys
class Keeping(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
class Threads(http.server.ThreadingHTTPServer):
    request_queue_size = 128
Threads((sys.argv[1], int(sys.argv[2])), lambda *a: Keeping(*a, directory=sys.argv[3])).serve_forever()
"""


@contextmanager
def web_server(place: Workplace, end: End, folder: Path) -> Iterator[Staging]:
    """A web server, and Nextflow without the plugin's help."""
    port = free_port()
    command: list[str | Path] = [sys.executable, "-c", WEB, end.address, str(port), folder]
    server = Server(end, command, port, place.path, place.environment)
    try:
        yield Staging("http", f"http://{end.address}:{port}", "")
    finally:
        server.stop()


def repetitions(bench: Bench) -> int:
    """How often something is measured."""
    return bench.options.repetitions or (1 if bench.options.quick else 3)


def make(folder: Path, count: int, size: int) -> None:
    """Makes files named by numbers, of bytes that do not compress."""
    made = random.Random(7)
    for number in range(count):
        with (folder / str(number)).open("wb") as file:
            for _ in range(max(1, size // datasets.MIB)):
                file.write(made.randbytes(min(size, datasets.MIB)))

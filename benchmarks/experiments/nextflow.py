"""The Nextflow plugin against Nextflow's own staging over HTTP: real pipelines over emulated paths, and here."""

from __future__ import annotations

import random
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import datasets
import paths
from bench import Bench, Options
from nf_amazon import AMAZON, programs
from paths import LOOPBACK, End
from peers.s3 import KEY, SECRET, tool
from points import Point
from processes import Failed, Measured, TooSlow, Workplace, workplace
from results import Figure, Outcome
from servers import Server, free_port

SMALL_BYTES = 256 * 1024
YEAR = 2000
"""That of all times in logs, which tell none."""
LIMIT_S = 1200.0
OWN_LIMIT_S = 120.0
"""Nextflow's own staging of all small inputs is ended after so long: then it took longer, nobody knows how much."""
AHEAD = 60


@dataclass(frozen=True)
class Shape:
    """How much is moved."""

    small: int
    """Small inputs."""
    compared: int
    """Small inputs that Nextflow stages to the end by itself, too."""
    large_bytes: int
    published: int
    """Files that are published."""


SHAPES = {
    "quick": Shape(400, 400, 2048 * datasets.MIB, 13_000),
    "full": Shape(2000, 400, 4096 * datasets.MIB, 130_000),
}

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
    output: path 'd*/f*'
    script: "for i in \\$(seq {count}); do d=d\\$((i / 1000)); [ -d \\$d ] || mkdir \\$d; echo \\$i > \\$d/f\\$i; done"
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

    url: str
    config: str
    limit_s: float | None = None
    """When the run is ended, if it is one that may be; `None`: it must come to its end."""
    plugin: Path | None = None
    """A plugin besides that of edt."""


def run(options: Options) -> Outcome:
    """Measures what is promised."""
    if why := programs.absence():
        raise Failed(f"Nextflow cannot be run: {why}; `make target/nextflow/.built` brings it")
    shape = SHAPES[options.scale]
    with workplace() as place:
        bench = Bench("nextflow", options, place)
        figures = [
            *staged(bench, shape),
            *whole(bench, shape.large_bytes),
            *published_files(bench, shape.published),
            *ahead(bench),
        ]
        points = bench.points.found
    return Outcome(
        "nextflow",
        f"Real pipelines in Nextflow {programs.OLDEST.name}, with the plugin nf-edt and `edt serve`, and as they come, "
        "with a web server and with S3. Paths are emulated. Inputs are staged from the begin of the run to the "
        "submitted task, with all questions about them, and copied from the first one that Nextflow copies. Files are "
        "published from the first to the last that is there.",
        figures,
        options.scale,
        [
            "Without the plugin Nextflow asks the file server of Python, which keeps connections and does not encrypt: "
            "that is in its favour against HTTPS.",
            f"Nextflow's own staging is run once. At full scale that of all inputs is ended after {OWN_LIMIT_S:.0f} s: "
            "what is told of it, and of how many times faster edt is, is the least that it can be.",
            f"Over S3 it is not measured: {why}."
            if (why := without_s3())
            else "Over S3 Nextflow uses nf-amazon 2.9.0 with one condition of a later version, without which it would "
            "ask Amazon about the bucket of another server (`benchmarks/nf_amazon.py`): that is in its favour.",
            "Published files lie in folders of a thousand: Nextflow compares each name of a folder with all others "
            "before it publishes anything, which takes it more than five minutes for 130,000 in one.",
            "Files asked for and not there yet are those that transfers have planned less those that are done, at the "
            "most in any line of progress; how many have bytes on the way at one moment is not counted.",
        ],
        points=points,
        versions={"nextflow": programs.OLDEST.name},
    )


def staged(bench: Bench, shape: Shape) -> list[Figure]:
    """Small inputs of one task over a long path."""
    folder = bench.place.empty("small")
    make(folder, shape.small, SMALL_BYTES)
    ways = {"HTTP": web_server} if without_s3() else {"HTTP": web_server, "S3": s3_server}
    figures = []
    with paths.opened("open") as ends:
        for count in sorted({shape.small, shape.compared}, reverse=True):
            what = f"{count} inputs of 256 KiB at 67 ms"
            limit_s = LIMIT_S if count == shape.compared else OWN_LIMIT_S
            with edt_server(bench.place, ends.near, folder) as staging:
                own = [
                    pipeline(bench, f"small {count} edt {repetition}", ends.far, staging, STAGED, count)
                    for repetition in range(repetitions(bench))
                ]
            figures.append(Figure(f"{what}: edt", "s", [point["staging_s"] for point in own]))
            for way, serving in ways.items():
                with serving(bench.place, ends.near, folder, limit_s) as staging:
                    other = pipeline(bench, f"small {count} {way}", ends.far, staging, STAGED, count)
                figures += compared(f"{what}: Nextflow itself over {way}", own, other)
    shutil.rmtree(folder)
    return figures


def compared(what: str, own: list[Point], other: Point) -> list[Figure]:
    """Nextflow by itself, and how many times faster the plugin is; of staging that was ended a lower bound alone."""
    shown = f"{what}, ended unfinished" if other["unfinished"] else what
    ratios = [other["staging_s"] / point["staging_s"] for point in own]
    figures = [Figure(shown, "s", [other["staging_s"]]), Figure(f"{shown} / edt", "", ratios, at_least=5.0)]
    if not other["unfinished"]:
        copying = [other["copying_s"] / point["copying_s"] for point in own]
        figures.append(Figure(f"{what} / edt, copying alone", "", copying))
    return figures


def without_s3() -> str | None:
    """Why Nextflow cannot stage from S3 by itself here; `None` if it can."""
    if not AMAZON.is_dir():
        return f"its plugin is not in target/nextflow/{AMAZON.name}: `python benchmarks/nf_amazon.py` builds it"
    return None if tool("versitygw") else "`versitygw` is not installed (tests/endpoints/install.py)"


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
    """Small outputs, each published for itself, a thousand in a folder, on this machine."""
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
            most.append(point["asked_for"])
    shutil.rmtree(folder)
    return [
        Figure(
            f"{AHEAD} tasks with an input each: files asked for and not there yet, with edtPrefetch",
            "",
            most,
            at_least=30.0,
        )
    ]


def slowed(staging: Staging) -> Staging:
    """So slow that lines of progress tell of it."""
    return Staging(staging.url, "edt { plain = true; limitRate = '8MB'; progress = 1 }")


def pipeline(
    bench: Bench, key: str, end: End, staging: Staging, script: str, count: int, published: Path | None = None
) -> Point:
    """One run of Nextflow, kept under a key."""

    def measure() -> Point:
        log, ended = nextflow(bench.place, end, staging, script.format(url=staging.url, count=count))
        point = {
            "staging_s": between(log, "Session await$", "Submitted process", ended),
            "copying_s": between(log, "Copying foreign file", "Submitted process", ended),
            "publishing_s": publishing(published / "out", count) if published else 0.0,
            "asked_for": asked_for(log),
            "unfinished": ended is not None,
        }
        print(f"  {key}: {point}", flush=True)
        return point

    return bench.points.measured(key, measure)


def nextflow(place: Workplace, end: End, staging: Staging, script: str) -> tuple[str, datetime | None]:
    """Runs a script in an empty folder; returns its log, and if it was ended before its end, when."""
    folder = place.empty("launch")
    (folder / "main.nf").write_text(script)
    home = programs.home(place.path / "nextflow-home")
    names = ["nf-edt@0.1.0"]
    if staging.plugin:
        names.append("@".join(staging.plugin.name.rsplit("-", 1)))
        with suppress(FileExistsError):
            (home / "plugins" / staging.plugin.name).symlink_to(staging.plugin)
    plugins = "; ".join(f"id '{name}'" for name in names)
    (folder / "nextflow.config").write_text(f"plugins {{ {plugins} }}\n{staging.config}\n")
    environment = {**place.environment, **programs.environment(home)}
    words = [*programs.command(programs.OLDEST), "-log", str(folder / "log"), "run", "main.nf"]
    inside = ["env", "-C", str(folder), *words]
    process = Measured([*end.prefix, *inside], environment, talks=False)
    ended = None
    try:
        process.end(limit_s=staging.limit_s or LIMIT_S)
    except TooSlow:
        if staging.limit_s is None:
            raise
        ended = datetime.now().replace(year=YEAR)
    except Failed as error:
        raise Failed(f"{error}\n{(folder / 'log').read_text()[-3000:]}") from error
    return (folder / "log").read_text(), ended


def times(log: str, said: str) -> list[datetime]:
    """When lines of the log say something."""
    found = re.findall(rf"^(\w+-\d+ [\d:.]+) .*{said}", log, re.MULTILINE)
    return [datetime.strptime(f"{YEAR}-{text}", "%Y-%b-%d %H:%M:%S.%f") for text in found]


def between(log: str, first: str, last: str, ended: datetime | None = None) -> float:
    """Seconds from the first line that says one thing to the first that says another, or to the end of the run."""
    begun, done = times(log, first), times(log, last) or ([ended] if ended else [])
    return (done[0] - begun[0]).total_seconds() if begun and done else 0.0


def publishing(folder: Path, count: int) -> float:
    """Seconds from the first published file to the last."""
    told = sorted(path.stat().st_ctime for path in folder.rglob("f*"))
    if len(told) != count:
        raise Failed(f"{len(told)} of {count} files were published")
    return told[-1] - told[0]


def asked_for(log: str) -> float:
    """The most files that a line of progress tells of and that were not there yet."""
    told = re.findall(r"edt: (\d+)/(\d+) files", log)
    return float(max((int(all_of_them) - int(done) for done, all_of_them in told), default=0))


@contextmanager
def edt_server(place: Workplace, end: End, folder: Path) -> Iterator[Staging]:
    """`edt serve`."""
    server, port = place.serve(folder, "--plain", host=end.address, within=end.prefix)
    try:
        yield Staging(f"edt://{end.address}:{port}", "edt.plain = true")
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
def web_server(place: Workplace, end: End, folder: Path, limit_s: float) -> Iterator[Staging]:
    """A web server, and Nextflow without the plugin's help, for so long."""
    port = free_port()
    command: list[str | Path] = [sys.executable, "-c", WEB, end.address, str(port), folder]
    server = Server(end, command, port, place.path, place.environment)
    try:
        yield Staging(f"http://{end.address}:{port}", "", limit_s)
    finally:
        server.stop()


S3_CONFIG = """
aws {{
    accessKey = '{key}'
    secretKey = '{secret}'
    region = 'us-east-1'
    client {{
        endpoint = '{endpoint}'
        s3PathStyleAccess = true
    }}
}}
"""


@contextmanager
def s3_server(place: Workplace, end: End, folder: Path, limit_s: float) -> Iterator[Staging]:
    """S3 in front of files, and Nextflow with its own plugin, for so long."""
    port = free_port()
    metadata, buckets = place.empty("metadata"), place.empty("buckets")
    (buckets / folder.name).symlink_to(folder)
    options = ["--port", f"{end.address}:{port}", "--access", KEY, "--secret", SECRET, "--quiet", "--keep-alive"]
    command: list[str | Path] = [tool("versitygw") or "versitygw", *options]
    command += ["posix", "--bucketlinks", "--sidecar", metadata, buckets]
    server = Server(end, command, port, place.path, place.environment)
    config = S3_CONFIG.format(key=KEY, secret=SECRET, endpoint=f"http://{end.address}:{port}")
    try:
        yield Staging(f"s3://{folder.name}", config, limit_s, AMAZON)
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

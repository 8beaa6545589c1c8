"""The Snakemake plugin against the plugins for file systems, HTTP and S3, over emulated paths and on this machine.

Those are installed by `.venv/bin/python -m pip install './plugins/snakemake[bench]'`; `fs` needs rsync besides, and
`s3` the server VersityGW of `make endpoints`. One that is not installed is named and left out.
"""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import emulated
from bench import Bench, Options
from paths import LOOPBACK, End
from points import Point
from processes import ROOT, Measured, Workplace, workplace
from results import Figure, Outcome
from servers import Server, free_port

STAGE = ROOT / "benchmarks" / "snakemake_stage.py"
PLUGINS = ("edt", "http", "s3", "fs")
OTHERS_LIMIT_S = 300.0
"""Most seconds that a plugin may take which nothing is promised of."""

AT_ONCE = 8
AT_ONCE_BYTES = 3_000_000
AT_ONCE_RTT = "105ms"
"""One input of `AT_ONCE_BYTES` takes a second alone, nearly all of it round trips: a cap of each stream would not slow
it down so, because edt opens several for one file."""

CHECKED = 14_000
CHECKED_OTHERS = 30
"""Objects that plugins are asked for which pay for each of them."""

STAGED_OTHERS = 10
"""Objects that plugins retrieve which bring one after another."""

STAGED = 1000
STAGED_RATE_BPS = 1e9
NODE_JOBS = 3


@dataclass(frozen=True)
class Ends:
    """Both ends of a path: objects are near, Snakemake is far."""

    near: End
    far: End


@dataclass(frozen=True)
class Storage:
    """A storage as a plugin reaches it."""

    plugin: str
    query: Callable[[str], str]
    """The query of a name below the root."""
    settings: Mapping[str, Any]
    environment: Mapping[str, str]


def run(options: Options) -> Outcome:
    """Measures what is promised, and what the other plugins do with the same objects."""
    for name in PLUGINS:
        if lacking := missing(name):
            print(f"  {name}: skipped, {lacking}", file=sys.stderr)
    with workplace() as place:
        bench = Bench("snakemake", options, place)
        figures = [*at_once(bench), *checked(bench), *staged(bench), *on_one_node(bench)]
        points = bench.points.found
    return Outcome(
        "snakemake",
        "Objects of a storage, asked for and retrieved by the calls that Snakemake makes, through the plugins `edt`, "
        "`http`, `s3` and `fs`, on the same files. Paths are emulated; `fs` knows none, and reads from this machine.",
        figures,
        options.scale,
        [
            "Time begins when the plugin is loaded and ends with the last object. `http` asks the file server of "
            f"Python and `s3` VersityGW. Plugins that pay for each object are asked for {CHECKED_OTHERS} "
            "of the objects that `edt` is asked for, and what they would take for all is reckoned from that; "
            f"likewise {STAGED_OTHERS} of those that are brought. `http` limits itself to 10 requests a second."
        ],
        points=points,
        versions={f"snakemake-storage-plugin-{name}": missing(name) or installed(name) for name in PLUGINS},
    )


def at_once(bench: Bench) -> list[Figure]:
    """Inputs that each take a second alone, one of them and all at once."""
    folder = bench.place.empty("buckets/at-once")
    make(folder, AT_ONCE, AT_ONCE_BYTES)
    found: dict[str, list[float]] = {}
    with path(rtt=AT_ONCE_RTT, rate="2G", stream_rate="none") as ends:
        for repetition in range(repetitions(bench, 2, 5)):
            for storage in storages(bench, ends, folder):
                for count in (1, AT_ONCE):
                    key = f"at once {storage.plugin} {count} {repetition}"
                    found.setdefault(f"{storage.plugin} {count}", []).append(
                        measured(bench, key, ends, storage, "retrieve", count)["wall_s"]
                    )
    shutil.rmtree(folder)
    return [
        Figure(
            f"{'one input alone' if name.endswith(' 1') else f'{AT_ONCE} such inputs at once'}: {name.split()[0]}",
            "s",
            values,
            at_most=1.5 if name == f"edt {AT_ONCE}" else None,
        )
        for name, values in found.items()
    ]


def checked(bench: Bench) -> list[Figure]:
    """Existing inputs over 50 ms."""
    folder = bench.place.empty("buckets/checked")
    make(folder, CHECKED, 1)
    found: dict[str, list[float]] = {}
    with path(rtt="50ms", rate="1G", stream_rate="none") as ends:
        for repetition in range(repetitions(bench, 1, 3)):
            for storage in storages(bench, ends, folder):
                count = CHECKED if storage.plugin == "edt" else CHECKED_OTHERS
                key = f"checked {storage.plugin} {count} {repetition}"
                wall_s = measured(bench, key, ends, storage, "check", count)["wall_s"]
                found.setdefault(storage.plugin, []).append(wall_s * CHECKED / count)
    shutil.rmtree(folder)
    return [
        Figure(f"{CHECKED} existing inputs over 50 ms: {name}", "s", values, at_most=60.0 if name == "edt" else None)
        for name, values in found.items()
    ]


def staged(bench: Bench) -> list[Figure]:
    """Small inputs over a long path."""
    folder = bench.place.empty("buckets/staged")
    make(folder, STAGED, datasets.MIB)
    found: dict[str, list[float]] = {}
    with path(rtt="67ms", rate="1G", stream_rate="none") as ends:
        for repetition in range(repetitions(bench, 1, 3)):
            for storage in storages(bench, ends, folder, without="fs"):
                number = STAGED if storage.plugin == "edt" else STAGED_OTHERS
                key = f"staged {storage.plugin} {number} {repetition}"
                took = measured(bench, key, ends, storage, "retrieve", number)
                found.setdefault(storage.plugin, []).append(8 * took["bytes"] / took["wall_s"] / STAGED_RATE_BPS)
    shutil.rmtree(folder)
    return [
        Figure(
            f"{STAGED} inputs of 1 MiB at 67 ms, 1 Gbit/s, goodput / rate of the path: {name}",
            "",
            values,
            at_least=0.8 if name == "edt" else None,
        )
        for name, values in found.items()
    ]


def on_one_node(bench: Bench) -> list[Figure]:
    """Jobs of one node that need the same input."""
    folder = bench.place.empty("buckets/node")
    make(folder, 1, 64 * datasets.MIB)
    fetched = []
    ends = Ends(LOOPBACK.near, LOOPBACK.far)
    with edt_storage(bench.place, ends, folder) as storage:
        for _ in range(repetitions(bench, 3, 5)):
            settings = {"cache_dir": str(bench.place.empty("cache")), "limit_rate": "64MB"}
            jobs = [start(bench.place, ends, storage, "retrieve", 1, f"job-{n}", settings) for n in range(NODE_JOBS)]
            said = ""
            for job in jobs:
                job.line()
                said += job.errors()
                job.end()
            fetched.append(float(said.count("edt: 1 file")))
    shutil.rmtree(folder)
    return [Figure(f"transfers of one input for {NODE_JOBS} jobs on one node", "", fetched, at_most=1.0)]


def measured(bench: Bench, key: str, ends: Ends, storage: Storage, action: str, count: int) -> Point:
    """One run of a plugin, kept under a key."""

    def measure() -> Point:
        process = start(bench.place, ends, storage, action, count, "local", {})
        took: Point = json.loads(process.line())
        process.end(limit_s=OTHERS_LIMIT_S)
        print(f"  {key}: {took['wall_s']:.2f} s", flush=True)
        return took

    return bench.points.measured(key, measure)


def start(
    place: Workplace, ends: Ends, storage: Storage, action: str, count: int, folder: str, more: Mapping[str, Any]
) -> Measured:
    """Starts a run of a plugin in an empty folder."""
    settings = json.dumps({**storage.settings, **more})
    words: list[str | Path] = [storage.plugin, action, place.empty(folder), settings, storage.query("{n}"), str(count)]
    command = [*ends.far.prefix, sys.executable, STAGE, *words]
    return Measured(command, {**place.environment, **storage.environment})


def storages(bench: Bench, ends: Ends, folder: Path, without: str | None = None) -> Iterator[Storage]:
    """The same files as each installed plugin reaches them, one after the other."""
    kinds = {"edt": edt_storage, "http": http_storage, "s3": s3_storage, "fs": fs_storage}
    for name, kind in kinds.items():
        if name != without and missing(name) is None:
            with kind(bench.place, ends, folder) as storage:
                yield storage


@contextmanager
def edt_storage(place: Workplace, ends: Ends, folder: Path) -> Iterator[Storage]:
    """`edt serve`."""
    server, port = place.serve(folder, "--plain", host=ends.near.address, within=ends.near.prefix)
    try:
        yield Storage(
            "edt", lambda name: f"edt://{ends.near.address}:{port}/{name}", {"plain": True, "progress": 0.0}, {}
        )
    finally:
        server.dismiss()


@contextmanager
def http_storage(place: Workplace, ends: Ends, folder: Path) -> Iterator[Storage]:
    """A file server of Python's own."""
    port = free_port()
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "http.server",
        str(port),
        "--bind",
        ends.near.address,
        "--directory",
        folder,
    ]
    server = Server(ends.near, command, port, place.path, place.environment)
    try:
        settings = {"allow_redirects": True}
        yield Storage("http", lambda name: f"http://{ends.near.address}:{port}/{name}", settings, {})
    finally:
        server.stop()


@contextmanager
def s3_storage(place: Workplace, ends: Ends, folder: Path) -> Iterator[Storage]:
    """VersityGW in front of the same files."""
    port, keys, bucket = free_port(), ("edtaccess", "edtsecretkey"), folder.name
    address = f"{ends.near.address}:{port}"
    command: list[str | Path] = [versitygw()[0], "--port", address, "--access", keys[0], "--secret", keys[1], "--quiet"]
    command += ["posix", "--sidecar", place.empty("sidecar"), folder.parent]
    server = Server(ends.near, command, port, place.path, place.environment)
    settings = {
        "endpoint_url": f"http://{address}",
        "access_key": keys[0],
        "secret_key": keys[1],
        "region": "us-east-1",
    }
    try:
        yield Storage("s3", lambda name: f"s3://{bucket}/{name}", settings, {})
    finally:
        server.stop()


@contextmanager
def fs_storage(place: Workplace, ends: Ends, folder: Path) -> Iterator[Storage]:  # noqa: ARG001 (it knows no paths)
    """The files themselves."""
    yield Storage("fs", lambda name: str(folder / name), {}, {})


@contextmanager
def path(**parameters: str | float) -> Iterator[Ends]:
    """An emulated path with these parameters."""
    with emulated.Path.start("cloudlab", schedule=None, **parameters) as running:
        near = End(running.near.address, tuple(running.command("near", [])))
        yield Ends(near, End(running.far.address, tuple(running.command("far", []))))


def installed(plugin: str) -> str:
    """The version of a plugin."""
    return version(f"snakemake-storage-plugin-{plugin}")


def missing(plugin: str) -> str | None:
    """What a plugin lacks here; `None` if it can be measured."""
    if importlib.util.find_spec(f"snakemake_storage_plugin_{plugin}") is None:
        return f"snakemake-storage-plugin-{plugin} is not installed (pip install './plugins/snakemake[bench]')"
    if plugin == "fs" and shutil.which("rsync") is None:
        return "rsync is not installed"
    if plugin == "s3" and not versitygw():
        return "versitygw is not installed (make endpoints)"
    return None


def versitygw() -> list[Path]:
    """The program of the S3 server, if it is installed."""
    return list((ROOT / "target" / "endpoints").glob("versitygw@*/versitygw"))


def repetitions(bench: Bench, quick: int, full: int) -> int:
    """How often something is measured."""
    return bench.options.repetitions or (quick if bench.options.quick else full)


def make(folder: Path, count: int, size: int) -> None:
    """Makes files named by numbers, of bytes that do not compress."""
    made = random.Random(7)
    for number in range(count):
        (folder / str(number)).write_bytes(made.randbytes(size))

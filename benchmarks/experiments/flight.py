"""The Flight service: bytes and tables against PyArrow on loopback, and `edt cp flight://` over a long path."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import datasets
import paths
from bench import Bench, Options
from points import Point
from processes import EDT, ROOT, Measured, Workplace, port_of, workplace
from results import Figure, Outcome, output

ENDS = ROOT / "benchmarks" / "flight_ends.py"
PATH = "cloudlab"
STREAM_BPS = 150e6
"""What one stream carries there."""
ENDPOINTS = 4
FILE = "file.bin"
COLUMNS = 8
ROWS_OF_A_GROUP = 250_000


@dataclass(frozen=True)
class Run:
    """What one read took; CPU time is that of both ends."""

    bytes: int
    wall_s: float
    cpu_s: float
    peak_mib: float = 0.0

    @property
    def goodput_bps(self) -> float:
        return 8 * self.bytes / self.wall_s


@dataclass(frozen=True)
class Service:
    """A server at one end of a path."""

    process: Measured
    address: str

    def cpu_s(self) -> float:
        """The CPU time that it has taken so far."""
        fields = Path(f"/proc/{self.process.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(options: Options) -> Outcome:
    """Measures bytes, then the long path where there can be one, then tables."""
    figures: list[Figure] = []
    with workplace() as place:
        bench = Bench("flight", options, place)
        wanted = options.paths or (paths.LOOPBACK.path, PATH)
        if paths.LOOPBACK.path in wanted:
            figures += loopback_bytes(bench)
            figures += tables(bench)
        if PATH in wanted:
            figures += long_path(bench)
        points = bench.points.found
    return Outcome(
        "flight",
        "Files of edt's Flight service read as bytes by PyArrow, against a server in PyArrow that reads the same file "
        "in the same batches of 1 MiB; a folder of Parquet files read as one table by `edt.flight`; and `edt cp` from "
        "and to a `flight://` URL over a path of 67 ms on which a stream carries 150 Mbit/s. tmpfs at both ends.",
        figures,
        options.scale,
        [
            "Wall time of clients of PyArrow begins when it is loaded; that of `edt cp` is its process's. CPU time is "
            "that of client and server. Ratios are taken within one repetition, in which the contenders take turns. "
            "The time to transfer the table is that of the same table from the memory of a PyArrow server."
        ],
        points=points,
        versions={"pyarrow": output(sys.executable, "-c", "import pyarrow; print(pyarrow.__version__)")},
    )


def loopback_bytes(bench: Bench) -> list[Figure]:
    """A file read with one client and with several."""
    size = (512 if bench.options.quick else 2048) * datasets.MIB
    repetitions = bench.options.repetitions or (5 if bench.options.quick else 9)
    found: dict[str, list[Run]] = {}
    source = bench.place.empty("bytes")
    write(source / FILE, size)
    with edt_service(bench.place, paths.LOOPBACK.near, source) as own, baseline(bench.place, "files", source) as other:
        for repetition in range(-1, repetitions):
            for clients in (1, 4):
                for name, service in ordered({"edt": own, "pyarrow": other}, repetition):
                    words = ("get", service.address, str(clients), FILE, str(size))
                    key = f"bytes {clients} {name} {repetition} {size}"
                    each = point(bench, key, lambda words=words, service=service: client(bench.place, words, service))
                    # The first reads of a new server find its memory unused.
                    if repetition >= 0:
                        found.setdefault(f"{name} {clients}", []).append(each)
    shutil.rmtree(source)
    return [figure for clients in (1, 4) for figure in compared(found, clients)]


def compared(found: dict[str, list[Run]], clients: int) -> list[Figure]:
    """Goodput and CPU time of both servers, and the ratios that the bars are about."""
    own, other = found[f"edt {clients}"], found[f"pyarrow {clients}"]
    label = f"bytes, {clients} client{'s' if clients > 1 else ''}"
    pairs = list(zip(own, other, strict=True))
    figures = []
    for name, runs in (("edt", own), ("PyArrow", other)):
        figures.append(Figure(f"{label}: {name}, goodput", "GB/s", [run.bytes / 1e9 / run.wall_s for run in runs]))
        figures.append(Figure(f"{label}: {name}, CPU per GB", "s", [run.cpu_s / (run.bytes / 1e9) for run in runs]))
    speed = [base.wall_s / run.wall_s for run, base in pairs]
    cost = [run.cpu_s / base.cpu_s for run, base in pairs]
    figures.append(Figure(f"{label}: goodput, edt / PyArrow", "", speed, at_least=0.9))
    figures.append(Figure(f"{label}: CPU time, edt / PyArrow", "", cost, at_most=1.0))
    return figures


def tables(bench: Bench) -> list[Figure]:
    """A folder of Parquet files as a table: over Flight, from this machine, and the transfer alone."""
    files, repetitions = (4, 3) if bench.options.quick else (16, 5)
    repetitions = bench.options.repetitions or repetitions
    source = bench.place.empty("tables")
    make_tables(source / "numbers", files)
    found: dict[str, list[Run]] = {}
    with (
        edt_service(bench.place, paths.LOOPBACK.near, source) as own,
        baseline(bench.place, "table", source / "numbers") as memory,
    ):
        contenders: dict[str, tuple[tuple[str, ...], Service | None]] = {
            "flight": (("read", f"flight://{own.address}/numbers", "{}"), own),
            "local": (("open", str(source / "numbers")), None),
            "transfer": (("fetch", memory.address), memory),
        }
        for repetition in range(-1, repetitions):
            for name, (words, service) in ordered(contenders, repetition):
                key = f"table {name} {repetition} {files}"
                each = point(bench, key, lambda words=words, service=service: client(bench.place, words, service))
                if repetition >= 0:
                    found.setdefault(name, []).append(each)
    shutil.rmtree(source)
    triples = list(zip(found["flight"], found["local"], found["transfer"], strict=True))
    ratios = [read.wall_s / (local.wall_s + sent.wall_s) for read, local, sent in triples]
    label = f"table of {found['flight'][0].bytes / 1e9:.3g} GB"
    return [
        *(Figure(f"{label}: {name}", "s", [each.wall_s for each in runs]) for name, runs in found.items()),
        Figure(f"{label}: edt.flight / (local read + transfer)", "", ratios, at_most=1.2),
    ]


def long_path(bench: Bench) -> list[Figure]:
    """Copies from and to the service, tuned; and PyArrow with four endpoints."""
    seconds = bench.options.seconds or (15.0 if bench.options.quick else 40.0)
    repetitions = bench.options.repetitions or (1 if bench.options.quick else 3)
    runs: dict[str, list[Run]] = {"down": [], "up": [], "endpoints": []}
    with paths.opened(PATH) as ends:
        rate = ends.rate_bps or 0.0
        size = int(seconds * rate / 8) // datasets.MIB * datasets.MIB
        source = bench.place.empty("long")
        write(source / FILE, size)
        for repetition in range(repetitions):
            key = f"{PATH} {size} {repetition}"
            runs["down"].append(point(bench, f"down {key}", lambda: copied(bench.place, ends, source, "down")))
            runs["up"].append(point(bench, f"up {key}", lambda: copied(bench.place, ends, source, "up")))
            part = min(size, int(seconds * ENDPOINTS * STREAM_BPS / 8))
            runs["endpoints"].append(
                point(bench, f"endpoints {key}", lambda part=part: fetched(bench.place, ends, source, part))
            )
    shutil.rmtree(source)
    share = {name: [run.goodput_bps / rate for run in each] for name, each in runs.items()}
    four = [run.goodput_bps / (ENDPOINTS * STREAM_BPS) for run in runs["endpoints"]]
    return [
        Figure(f"{PATH}: edt cp from flight://, goodput / rate of the path", "", share["down"], at_least=0.9),
        Figure(f"{PATH}: edt cp to flight://, goodput / rate of the path", "", share["up"], at_least=0.9),
        Figure(f"{PATH}: PyArrow, four endpoints, goodput / that of four streams", "", four, at_least=0.9),
    ]


def copied(place: Workplace, ends: paths.Ends, source: Path, way: str) -> Point:
    """One copy by edt, which lands at the far end."""
    target = place.empty("target")
    server_end, client_end = (ends.near, ends.far) if way == "down" else (ends.far, ends.near)
    root = source if way == "down" else target
    with edt_service(place, server_end, root) as service:
        before, url = service.cpu_s(), f"flight://{service.address}/"
        words: list[str | Path] = [url, target] if way == "down" else [source, url]
        cost = Measured([*client_end.prefix, EDT, "cp", "--plain", *words], place.environment, talks=False).end()
        cpu = cost.cpu_s + service.cpu_s() - before
    size = (target / FILE).stat().st_size
    if size != (source / FILE).stat().st_size:
        raise RuntimeError("the file did not arrive whole")
    shutil.rmtree(target)
    return asdict(Run(size, cost.wall_s, cpu, cost.peak_mib))


def fetched(place: Workplace, ends: paths.Ends, source: Path, size: int) -> Point:
    """One read by PyArrow over several connections."""
    with edt_service(place, ends.near, source) as service:
        words = ("get", service.address, str(ENDPOINTS), FILE, str(size))
        return client(place, words, service, ends.far)


def client(place: Workplace, words: tuple[str, ...], service: Service | None, end: paths.End | None = None) -> Point:
    """Runs a client of PyArrow to its end, and adds what the server took."""
    before = service.cpu_s() if service else 0.0
    prefix = end.prefix if end else ()
    process = Measured([*prefix, sys.executable, ENDS, *words], place.environment)
    found: dict[str, Any] = json.loads(process.line())
    process.end()
    return {**found, "cpu_s": found["cpu_s"] + (service.cpu_s() - before if service else 0.0)}


def point(bench: Bench, key: str, measure: Any) -> Run:
    """One run, kept under a key."""
    return Run(**bench.points.measured(key, measure))


def ordered(contenders: dict[str, Any], repetition: int) -> list[tuple[str, Any]]:
    """The contenders, another one first each time."""
    items = list(contenders.items())
    shift = repetition % len(items)
    return items[shift:] + items[:shift]


@contextmanager
def edt_service(place: Workplace, end: paths.End, root: Path) -> Iterator[Service]:
    """`edt serve --flight`."""
    options = ("--plain", "--flight", f"{end.address}:0")
    process, _ = place.serve(root, *options, host=end.address, within=end.prefix)
    port = port_of(process.line())
    try:
        yield Service(process, f"{end.address}:{port}")
    finally:
        process.dismiss()


@contextmanager
def baseline(place: Workplace, kind: str, folder: Path) -> Iterator[Service]:
    """A server in PyArrow on loopback."""
    process = Measured([sys.executable, ENDS, kind, paths.LOOPBACK.near.address, folder], place.environment)
    port = port_of(process.line())
    try:
        yield Service(process, f"{paths.LOOPBACK.near.address}:{port}")
    finally:
        process.dismiss()


def write(path: Path, size: int) -> None:
    """Makes a file that does not compress."""
    piece = os.urandom(64 * datasets.MIB)
    with path.open("wb") as file:
        for first in range(0, size, len(piece)):
            file.write(piece[: size - first])


def make_tables(folder: Path, files: int) -> None:
    """Makes Parquet files of about 128 MB, of numbers that hardly compress."""
    import numpy
    import pyarrow as pa
    import pyarrow.parquet

    folder.mkdir()
    made = numpy.random.default_rng(6)
    for number in range(files):
        columns = {f"c{column}": made.random(8 * ROWS_OF_A_GROUP) for column in range(COLUMNS)}
        pyarrow.parquet.write_table(
            pa.table(columns), folder / f"{number:03}.parquet", row_group_size=ROWS_OF_A_GROUP, compression="zstd"
        )

"""An S3 service, up and down: edt against s5cmd and rclone, each at its best setting, on loopback and at 67 ms."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

import paths
from bench import Bench, Options, rotated
from copies import Copied
from peers import versions
from peers.peer import Setting
from processes import workplace
from results import Figure, Outcome, Table

PATHS = ("loopback", "open")
DATA_SETS = ("objects-1m", "cloudlab-1g")
WAYS = ("up", "down")
OWN, BARE = "edt-s3", "edt-s3-crc"
OTHERS = ("s5cmd", "rclone-s3")
CLIENTS = (OWN, BARE, *OTHERS)
SCALES = {"objects-1m": 1.0, "cloudlab-1g": 1.0}
QUICK_SCALE = 0.1
LIMIT_S = 120.0


@dataclass
class Cell:
    """One path, data set and way: the runs of each client, repetition by repetition."""

    path: str
    dataset: str
    way: str
    settings: dict[str, Setting] = field(default_factory=dict)
    runs: dict[str, list[Copied]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.path}, {self.dataset}, {self.way}"


def run(options: Options) -> Iterator[Outcome]:
    """Measures each data set and way on the paths that were asked for, and yields the outcome of each path."""
    repetitions = options.repetitions or (1 if options.quick else 3)
    names = options.datasets or DATA_SETS
    for path in paths_of(options):
        with workplace() as place, paths.opened(path) as ends:
            bench = Bench(kept_as(path), options, place)
            cells = [measure(bench, ends, name, way, repetitions) for name in names for way in WAYS]
        yield outcome(path, cells, options)


def paths_of(options: Options) -> tuple[str, ...]:
    """The paths that are measured."""
    return options.paths or (PATHS[:1] if options.quick else PATHS)


def kept_as(path: str) -> str:
    """The name under which the outcome of a path is kept."""
    return f"s3-{path.replace('/', '-')}"


def outcome(path: str, cells: list[Cell], options: Options) -> Outcome:
    """What was found on one path."""
    return Outcome(
        kept_as(path),
        "Copies between a directory and a bucket of VersityGW, which keeps objects as files; tmpfs at both ends. Wall "
        "time is that of the client process. Each client runs at its best setting, edt as it comes; in each repetition "
        "they run one after another, and ratios are taken within it. What arrived is checked: all names and sizes, "
        f"and the content of 16 files. `{BARE}` is edt with `--digest none`: it computes CRC64NVME alone, and no bar "
        "is held to it.",
        [figure for cell in cells for figure in bars(cell)],
        options.scale,
        [],
        [table(cells)],
        {
            f"{cell.label} {tool} {index}": each.record()
            for cell in cells
            for tool, runs in cell.runs.items()
            for index, each in enumerate(runs)
        },
        versions(sorted({tool for cell in cells for tool in cell.runs})),
    )


def measure(bench: Bench, ends: paths.Ends, name: str, way: str, repetitions: int) -> Cell:
    """Finds the best settings, then lets the clients run in turn."""
    cell = Cell(ends.path, name, way)
    tools = bench.tools(tuple(f"{client}-{way}" for client in CLIENTS))
    for peer in tools:
        cell.settings[peer.name] = bench.best(ends, peer, name)
    scale = SCALES[name] * (QUICK_SCALE if bench.options.quick else 1)
    data = bench.data(name, scale)
    for repetition in range(repetitions):
        for peer in rotated(tools, repetition):
            setting = cell.settings[peer.name]
            key = f"{cell.label} {scale:.4f} {peer.name} ({setting.name}) {repetition}"
            run = bench.copy(key, ends, peer, setting, data, LIMIT_S)
            cell.runs.setdefault(peer.name, []).append(run)
    return cell


def bars(cell: Cell) -> list[Figure]:
    """edt against the faster of the others in each repetition, and its CPU time against rclone's."""
    runs = {client: cell.runs.get(f"{client}-{cell.way}", []) for client in CLIENTS}
    others = [runs[client] for client in OTHERS if runs[client]]
    found = []
    for client, said in ((OWN, "edt"), (BARE, "edt without BLAKE3")):
        least, most = (1.0, 1.0) if client == OWN else (None, None)
        own, theirs = runs[client], runs["rclone-s3"]
        best = [max(run.goodput_bps for run in at_once) for at_once in zip(*others, strict=True)]
        if own and best and all(best):
            ratios = [run.goodput_bps / other for run, other in zip(own, best, strict=True)]
            found.append(Figure(f"{cell.label}: {said} / the faster of the others", "", ratios, at_least=least))
        if own and theirs and not any(run.failed for run in (*own, *theirs)):
            ratios = [run.client_cpu_s / other.client_cpu_s for run, other in zip(own, theirs, strict=True)]
            found.append(Figure(f"{cell.label}: CPU time of the client, {said} / rclone", "", ratios, at_most=most))
    return found


def table(cells: list[Cell]) -> Table:
    """The median of each client: goodput and the CPU time of the client alone."""
    rows = []
    for cell in cells:
        for client in CLIENTS:
            tool = f"{client}-{cell.way}"
            if runs := cell.runs.get(tool):
                goodput = statistics.median(run.goodput_bps for run in runs) / 1e6
                cpu = statistics.median(run.client_cpu_s / (run.bytes / 1e9) for run in runs)
                said = "failed" if any(run.failed for run in runs) else f"{goodput:,.0f}"
                rows.append([cell.label, client, cell.settings[tool].name, said, f"{cpu:.2f}"])
    titles = ["path, data set, way", "client", "setting", "goodput in Mbit/s", "CPU s/GB of the client"]
    return Table("Goodput and CPU time: medians", titles, rows)

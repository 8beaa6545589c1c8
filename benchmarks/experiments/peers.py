"""Every peer at its best setting, over several paths and data sets, one after another in each repetition.

Each path is kept under a name of its own, so that one can be measured anew without the others.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

import paths
from bench import Bench, Options, rotated
from copies import Copied
from peers import ALL, versions
from peers.peer import Setting
from processes import workplace
from results import Figure, Outcome, Table

TOOLS = (
    *("edt", "edt-fixed", "gridftp", "xrdcp", "rclone-webdav", "rclone-sftp", "rsync", "aria2"),
    "iperf3",
)
PATHS = ("open", "cloudlab", "newy-cern/15", "lossy")
DATA_SETS = ("small", "mixed", "uniform", "large")
OWN = ("edt", "edt-fixed", "edt-tls", "iperf3")
"""What edt is not compared with: itself, and the limit."""
SLOW = ("rclone-sftp", "rsync")
"""What edt has to be five times as fast as on small files at 67 ms."""


@dataclass
class Cell:
    """One path and data set: the runs of each tool, repetition by repetition."""

    path: str
    dataset: str
    rate_bps: float | None
    settings: dict[str, Setting] = field(default_factory=dict)
    runs: dict[str, list[Copied]] = field(default_factory=dict)


def run(options: Options) -> Iterator[Outcome]:
    """Measures each path and data set that was asked for, and yields the outcome of each path once it is complete."""
    repetitions = options.repetitions or (1 if options.quick else 3)
    names = options.datasets or (("small", "large") if options.quick else DATA_SETS)
    for path in paths_of(options):
        with workplace() as place, paths.opened(path) as ends:
            bench = Bench(kept_as(path), options, place)
            cells = [measure(bench, ends, name, repetitions) for name in names]
        yield outcome(path, cells, options)


def paths_of(options: Options) -> tuple[str, ...]:
    """The paths that are measured."""
    return options.paths or (("open",) if options.quick else PATHS)


def kept_as(path: str) -> str:
    """The name under which the outcome of a path is kept."""
    return f"peers-{path.replace('/', '-')}"


def outcome(path: str, cells: list[Cell], options: Options) -> Outcome:
    """What was found on one path."""
    return Outcome(
        kept_as(path),
        "Goodput of each tool at its best setting: bytes of files over the wall time of the client process, from its "
        "start to its end, on tmpfs at both ends. In each repetition the tools run one after another, and ratios are "
        "taken within it. What arrived is checked: all names and sizes, and the content of 16 files.",
        [figure for cell in cells for figure in bars(cell)],
        options.scale,
        notes(),
        [goodputs(cells), chosen_settings(cells)],
        points(cells),
        versions(sorted({tool for cell in cells for tool in cell.runs})),
    )


def measure(bench: Bench, ends: paths.Ends, name: str, repetitions: int) -> Cell:
    """Finds the best settings, then lets all tools run in turn, as often as asked for."""
    seconds = bench.options.seconds or (2.0 if bench.options.quick else 4.0)
    scale = bench.scale(ends, name, seconds)
    # Where two peers are to be shown five times slower, they have to be let run for so long.
    limit_s = (6 if is_fivefold(ends.path, name) else 3) * seconds + 4
    cell = Cell(ends.path, name, ends.rate_bps)
    tools = bench.tools(TOOLS)
    for peer in tools:
        cell.settings[peer.name] = bench.best(ends, peer, name)
    # After the search, which needs data of its own.
    data = bench.data(name, scale)
    for repetition in range(repetitions):
        for peer in rotated(tools, repetition):
            runs = cell.runs.setdefault(peer.name, [])
            # One that is slower than the limit stays so: it is not made to wait for again.
            if runs and runs[0].slower:
                runs.append(runs[0])
                continue
            setting = cell.settings[peer.name]
            key = f"{ends.path} {name} {scale:.4f} {peer.name} ({setting.name}) {repetition}"
            runs.append(bench.copy(key, ends, peer, setting, data, limit_s))
    return cell


def bars(cell: Cell) -> list[Figure]:
    """edt against the best of all peers in each repetition, and against two of them on small files."""
    others = {tool: runs for tool, runs in cell.runs.items() if tool not in OWN}
    own = cell.runs.get("edt")
    if not own or not others:
        return []
    best = [max(runs[index].goodput_bps for runs in others.values()) for index in range(len(own))]
    label = f"{cell.path}, {cell.dataset}: edt / "
    found = []
    if all(best):
        for tool, said in (("edt", ""), ("edt-fixed", " with the best constant concurrency")):
            runs = cell.runs.get(tool, [])
            ratios = [run.goodput_bps / other for run, other in zip(runs, best, strict=False)]
            if ratios:
                found.append(Figure(f"{label}the best peer{said}", "", ratios, at_least=1.0 if tool == "edt" else None))
    if is_fivefold(cell.path, cell.dataset):
        for tool in SLOW:
            runs = others.get(tool, [])
            if runs and all(run.goodput_bps for run in runs):
                ratios = [mine.goodput_bps / run.goodput_bps for mine, run in zip(own, runs, strict=True)]
                found.append(Figure(f"{label}{tool}", "", ratios, at_least=5.0))
    return found


def is_fivefold(path: str, dataset: str) -> bool:
    """Whether edt is held to five times the goodput of two peers there: small files at 67 ms."""
    return dataset == "small" and path in ("open", "cloudlab")


def goodputs(cells: list[Cell]) -> Table:
    """The median of each tool in Mbit/s, with the smallest and the largest."""
    tools = [tool for tool in TOOLS if any(tool in cell.runs for cell in cells)]
    rows = [[cell.path, cell.dataset, *(spread(cell.runs.get(tool, [])) for tool in tools)] for cell in cells]
    return Table("Goodput in Mbit/s: median (smallest to largest)", ["path", "data set", *tools], rows)


def spread(runs: list[Copied]) -> str:
    """The goodput of some runs in Mbit/s."""
    if not runs:
        return "-"
    if any(run.failed for run in runs):
        return "failed"
    values = [run.goodput_bps / 1e6 for run in runs]
    if any(run.slower for run in runs):
        return f"< {max(values):,.0f}"
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def chosen_settings(cells: list[Cell]) -> Table:
    """The setting of each tool with which it was measured."""
    tools = [tool for tool in TOOLS if any(tool in cell.settings for cell in cells)]
    rows = [
        [cell.path, cell.dataset, *(cell.settings[tool].name if tool in cell.settings else "-" for tool in tools)]
        for cell in cells
    ]
    return Table("Settings, the best of those that were tried", ["path", "data set", *tools], rows)


def points(cells: list[Cell]) -> dict[str, dict[str, object]]:
    """Every run, as JSON."""
    return {
        f"{cell.path} {cell.dataset} {tool} {index}": {
            "path": cell.path,
            "dataset": cell.dataset,
            "rate_bps": cell.rate_bps,
            "tool": tool,
            "setting": cell.settings[tool].name,
            "goodput_bps": run.goodput_bps,
            **run.record(),
        }
        for cell in cells
        for tool, runs in cell.runs.items()
        for index, run in enumerate(runs)
    }


def notes() -> list[str]:
    """What one has to know to read the table."""
    return [
        "Tools: " + "; ".join(f"{tool}: {ALL[tool].about}" for tool in TOOLS) + ".",
        "`<` marks a tool that was stopped at the time limit, about three times what the path's rate asks for, six "
        "times with small files at 67 ms: its goodput is below that figure, and ratios to it are lower bounds. What "
        "was tried for the settings, and how each fared, stands in `results/settings.json`.",
    ]

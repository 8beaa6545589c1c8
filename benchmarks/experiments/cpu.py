"""CPU seconds per GB of both ends, against peers, and against `iperf3` plus `cp`."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import paths
from bench import Bench, Options, rotated
from copies import Copied, Data
from peers import ALL, versions
from processes import Measured, workplace
from results import Figure, Outcome, Table, number

TOOLS = (
    "edt",
    "edt-tls",
    "gridftp",
    "xrdcp",
    "xrdcp-adler32",
    "rclone-webdav",
    "rclone-sftp",
    "rsync",
    "aria2",
    "iperf3",
)
PATHS = ("loopback", "cloudlab")
DATA_SETS = ("large", "small")
LARGE = "large"
"""The data set in which the work for a file does not count."""


def run(options: Options) -> Outcome:
    """Interleaves all tools, and `cp` between two directories of the same tmpfs."""
    figures: list[Figure] = []
    rows: list[list[str]] = []
    points: dict[str, dict[str, object]] = {}
    tools: list[str] = []
    with workplace() as place:
        bench = Bench("cpu", options, place)
        peers = bench.tools(TOOLS)
        tools = [peer.name for peer in peers]
        for path in options.paths or PATHS:
            with paths.opened(path) as ends:
                for name in options.datasets or (DATA_SETS[:1] if options.quick else DATA_SETS):
                    runs, copies = measure(bench, ends, name)
                    figures += bars(f"{path}, {name}", runs, copies)
                    rows.append(
                        [
                            path,
                            name,
                            *(spread(runs.get(tool, [])) for tool in TOOLS),
                            f"{statistics.median(copies):.2f}",
                        ]
                    )
                    points |= {
                        f"{path} {name} {tool} {index}": run.record()
                        for tool, each in runs.items()
                        for index, run in enumerate(each)
                    }
                    points[f"{path} {name} cp"] = {"cpu_s_per_gb": copies}
    return Outcome(
        "cpu",
        "CPU seconds (user and system) per GB of files, client and servers together, with all processes that they "
        "started. What the kernel does in interrupts for no process is not in it, for any tool.",
        figures,
        options.scale,
        ["Peers that check integrity: " + ", ".join(peer.name for peer in ALL.values() if peer.checks_integrity) + "."],
        [Table("CPU seconds per GB, median", ["path", "data set", *TOOLS, "cp"], rows)],
        points,
        versions(tools),
    )


def measure(bench: Bench, ends: paths.Ends, name: str) -> tuple[dict[str, list[Copied]], list[float]]:
    """The runs of all tools, and what `cp` took per GB in the same repetitions."""
    seconds = bench.options.seconds or (2.0 if bench.options.quick else 4.0)
    limit_s = 5 * seconds + 10
    tools = bench.tools(TOOLS)
    settings = {peer.name: bench.best(ends, peer, name) for peer in tools}
    data = bench.data(name, bench.scale(ends, name, seconds))
    runs: dict[str, list[Copied]] = {}
    copies = []
    for repetition in range(bench.options.repetitions or (2 if bench.options.quick else 3)):
        prefix = f"{ends.path} {name} {repetition}"
        for peer in rotated(tools, repetition):
            key = f"{prefix} {peer.name} ({settings[peer.name].name})"
            runs.setdefault(peer.name, []).append(bench.copy(key, ends, peer, settings[peer.name], data, limit_s))
        copies.append(bench.points.measured(f"{prefix} cp", lambda: {"value": copy_cost(bench, data)})["value"])
    return runs, copies


def copy_cost(bench: Bench, data: Data) -> float:
    """CPU seconds per GB of `cp` from one directory to another."""
    target = bench.place.empty("copied")
    # `--reflink=never`: every byte is to be moved.
    command: list[str | Path] = ["cp", "-r", "--reflink=never", data.path, target]
    cost = Measured(command, {}, talks=False).end()
    shutil.rmtree(target)
    return cost.cpu_s / (data.size.bytes / 1e9)


def bars(label: str, runs: dict[str, list[Copied]], copies: list[float]) -> list[Figure]:
    """edt against the cheapest peer that checks integrity, and against iperf3 plus cp where files are large."""
    own = runs.get("edt", [])
    if not own or not all(complete(run) for run in own):
        return []
    found = [Figure(f"{label}: edt, CPU per GB", "s", [run.cpu_s_per_gb for run in own])]
    checked = [
        each
        for tool, each in runs.items()
        if ALL[tool].checks_integrity and not tool.startswith("edt") and all(complete(run) for run in each)
    ]
    if checked:
        ratios = [run.cpu_s_per_gb / min(each[index].cpu_s_per_gb for each in checked) for index, run in enumerate(own)]
        found.append(Figure(f"{label}: edt / the cheapest peer that checks integrity", "", ratios, at_most=1.0))
    limit = runs.get("iperf3", [])
    if limit and all(complete(run) for run in limit):
        ratios = [
            run.cpu_s_per_gb / (base.cpu_s_per_gb + copy) for run, base, copy in zip(own, limit, copies, strict=True)
        ]
        large = label.endswith(LARGE)
        found.append(Figure(f"{label}: edt / (iperf3 + cp)", "", ratios, at_most=1.3 if large else None))
    return found


def complete(run: Copied) -> bool:
    """Whether a run got to its end."""
    return not run.slower and not run.failed


def spread(runs: list[Copied]) -> str:
    """The median of the runs that got to their end."""
    values = [run.cpu_s_per_gb for run in runs if complete(run)]
    return number(statistics.median(values)) if values else "-"

"""sftp at 67 ms: edt against rclone as it comes."""

from __future__ import annotations

import paths
from bench import Bench, Options, rotated
from copies import Copied
from peers import ALL, versions
from processes import workplace
from results import Figure, Outcome

PATH = "open"
DATA_SETS = ("objects-1m", "cloudlab-1g")
TOOLS = ("edt-sftp", "rclone-sftp")
SCALE = 0.25
BAR = 5.0
LIMIT_S = 120.0


def run(options: Options) -> Outcome:
    """Lets both copy in turn, each as it comes."""
    repetitions = options.repetitions or (1 if options.quick else 3)
    names = options.datasets or DATA_SETS
    runs: dict[str, dict[str, list[Copied]]] = {name: {tool: [] for tool in TOOLS} for name in names}
    with workplace() as place, paths.opened(PATH) as ends:
        bench = Bench("sftp", options, place)
        tools = bench.tools(TOOLS)
        for name in names:
            data = bench.data(name, SCALE)
            for repetition in range(repetitions):
                for peer in rotated(tools, repetition):
                    key = f"{name} {peer.name} {repetition}"
                    runs[name][peer.name].append(bench.copy(key, ends, peer, ALL[peer.name].settings[0], data, LIMIT_S))
    return Outcome(
        "sftp",
        "Uploads to OpenSSH over 1 Gbit/s and 67 ms, each tool as it comes: edt tunes itself, rclone copies 4 files at "
        "a time. Wall time is that of the client process; a quarter of the data sets is copied.",
        [figure for name in names for figure in figures(name, runs[name])],
        options.scale,
        points={
            f"{name} {tool} {index}": each.record()
            for name in names
            for tool, found in runs[name].items()
            for index, each in enumerate(found)
        },
        versions=versions([peer.name for peer in tools]),
    )


def figures(name: str, runs: dict[str, list[Copied]]) -> list[Figure]:
    """The goodput of both, and the ratio in each repetition."""
    measured = {tool: [run.goodput_bps / 1e6 for run in each] for tool, each in runs.items() if each}
    found = [Figure(f"{name}: {tool}", "Mbit/s", values) for tool, values in measured.items()]
    pairs = [(ours, theirs) for ours, theirs in zip(*(runs[tool] for tool in TOOLS), strict=True) if theirs.goodput_bps]
    ratios = [ours.goodput_bps / theirs.goodput_bps for ours, theirs in pairs]
    if ratios:
        found.append(Figure(f"{name}: edt / rclone", "", ratios, at_least=BAR))
    return found

"""20,000 and 100,000 small files over loopback, and through a proxy that delays every byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import datasets
from bench import Options
from experiments.loopback_large import Run, account
from processes import Measured, Workplace, compiled, port_of, workplace
from results import Figure, Outcome

RTT_MS = 50

FLOOR = 5000
"""Files per second that the issue asks of loopback; with the delay, 80 % of that."""


def run(options: Options) -> Outcome:
    """Interleaves loopback, the proxy without delay, and the proxy with 50 ms."""
    repetitions = 5 if options.quick else 9
    with workplace() as place:
        source = place.empty("source")
        size = datasets.make("tiny", source)
        runs: dict[str, list[Run]] = {"loopback": [], "proxy, 0 ms": [], f"proxy, {RTT_MS} ms": []}
        measure(place, source, size.files, None)
        for _ in range(repetitions):
            runs["loopback"].append(measure(place, source, size.files, None))
            runs["proxy, 0 ms"].append(measure(place, source, size.files, 0))
            runs[f"proxy, {RTT_MS} ms"].append(measure(place, source, size.files, RTT_MS))
        many = datasets.make("tiny", place.empty("source"), 5)
        pairs = [
            (measure(place, source, many.files, None), measure(place, source, many.files, RTT_MS)) for _ in range(3)
        ]
    return Outcome(
        "small-files",
        f"{size.files} files of 1 to 16 KiB ({size.bytes / 1e6:.0f} MB) on tmpfs, each renamed into place, tuned "
        f"automatically, on loopback and at {RTT_MS} ms round trip time.",
        figures(runs, size.files) + ratios(f"{many.files} files: ", pairs, at_least=0.8),
        options.scale,
        [
            "The proxy (`benchmarks/delay_proxy.cpp`) holds every byte and every new connection back by half a round "
            "trip in each direction and shares the machine with both sides. Wall time is that of the client process "
            "from its start to its end. A session costs about five round trips however many files it moves; 20,000 "
            "files take half a second on loopback, so that these five weigh there, and hardly with 100,000.",
        ],
    )


def measure(place: Workplace, source: Path, files: int, delay_ms: int | None) -> Run:
    """Copies the tree once, directly or through the proxy."""
    target = place.empty("target")
    server, port = place.serve(target)
    proxy = None
    if delay_ms is not None:
        proxy = Measured([compiled("delay_proxy"), str(port), str(delay_ms)], {})
        port = port_of(proxy.line())
    cost = place.copy(source, f"edt://127.0.0.1:{port}/").end()
    run = account(cost, server.stop())
    if proxy:
        proxy.stop(expected=-15)
    arrived = sum(1 for path in target.rglob("*.bin"))
    if arrived != files:
        raise RuntimeError(f"{arrived} of {files} files arrived")
    shutil.rmtree(target)
    return run


def figures(runs: dict[str, list[Run]], files: int) -> list[Figure]:
    """Files per second, memory, and the share that remains with the delay."""
    found = []
    for name, measured in runs.items():
        bar = {"loopback": FLOOR, "proxy, 0 ms": None}.get(name, 0.8 * FLOOR)
        found += [
            Figure(f"{name}: files per second", "", [files / run.wall_s for run in measured], at_least=bar),
            Figure(f"{name}: peak memory, client", "MiB", [run.client_mib for run in measured], at_most=300),
            Figure(f"{name}: peak memory, server", "MiB", [run.server_mib for run in measured], at_most=300),
        ]
    pairs = list(zip(runs["loopback"], runs[f"proxy, {RTT_MS} ms"], strict=True))
    return found + ratios(f"{files} files: ", pairs, at_least=None)


def ratios(label: str, pairs: list[tuple[Run, Run]], *, at_least: float | None) -> list[Figure]:
    """What share of the rate on loopback remains with the delay."""
    shares = [near.wall_s / far.wall_s for near, far in pairs]
    return [Figure(f"{label}{RTT_MS} ms / loopback", "", shares, at_least=at_least)]

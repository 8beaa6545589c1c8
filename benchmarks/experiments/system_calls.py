"""System calls of both ends, counted by strace: per file where files are tiny, per MB where they are large."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import datasets
from bench import Options
from processes import EDT, Measured, Workplace, port_of, workplace
from results import Figure, Outcome, Table

MIB = 1 << 20
WAIT_S = 10.0
SHOWN = 8
"""Kinds of calls that the tables name."""


def run(options: Options) -> Outcome:
    """Copies both data sets once under strace; it slows them down, so nothing is timed."""
    if not shutil.which("strace"):
        raise RuntimeError("`strace` is not installed")
    tiny_scale, large_scale = (0.2, 0.1) if options.quick else (1.0, 0.3)
    figures: list[Figure] = []
    tables: list[Table] = []
    with workplace() as place:
        for name, scale, unit in (("tiny", tiny_scale, "file"), ("large", large_scale, "MB")):
            size = datasets.make(name, place.empty("source"), scale)
            amount = size.files if unit == "file" else size.bytes / 1e6
            for end, calls in counted(place).items():
                figures.append(Figure(f"{name} files: {end}, calls per {unit}", "", [sum(calls.values()) / amount]))
                most = sorted(calls.items(), key=lambda item: -item[1])[:SHOWN]
                rows = [[call, f"{count / amount:.3g}"] for call, count in most]
                tables.append(Table(f"{name} files, {end}: calls per {unit}", ["call", "number"], rows))
    return Outcome(
        "system-calls",
        "System calls of one copy over loopback, tuned automatically, with all that both processes do from their start "
        "to their end.",
        figures,
        options.scale,
        tables=tables,
    )


def counted(place: Workplace) -> dict[str, dict[str, int]]:
    """The calls by name of the client and of the server in one copy."""
    target, summaries = place.empty("target"), {end: place.path / f"strace-{end}" for end in ("client", "server")}
    for summary in summaries.values():
        summary.unlink(missing_ok=True)
    server = traced(place, summaries["server"], "serve", "--listen", "127.0.0.1:0", target)
    try:
        port = port_of(server.line())
        traced(place, summaries["client"], "cp", place.path / "source", f"edt://127.0.0.1:{port}/").end()
    finally:
        os.kill(server.process.pid, signal.SIGTERM)
        server.end()
    return {end: parsed(complete(summary)) for end, summary in summaries.items()}


def traced(place: Workplace, summary: Path, *words: str | Path) -> Measured:
    """Starts edt with strace beside it (`-D`), so that signals and exit status are its own."""
    return Measured(["strace", "-D", "-f", "-c", "-o", summary, EDT, *words], place.environment)


def complete(summary: Path) -> str:
    """The text of a summary, which strace writes after the process has ended."""
    limit = time.monotonic() + WAIT_S
    while time.monotonic() < limit:
        text = summary.read_text() if summary.exists() else ""
        if text.rstrip().endswith("total"):
            return text
        time.sleep(0.02)
    raise RuntimeError(f"strace wrote no summary to `{summary}`")


def parsed(text: str) -> dict[str, int]:
    """The number of calls by name: fourth column and last one of each row."""
    rows = [line.split() for line in text.splitlines()[2:]]
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}

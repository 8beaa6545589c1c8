"""A client is killed in the middle of a large file: the next run sends only what was not verified."""

from __future__ import annotations

import filecmp
import json
import signal
from pathlib import Path
from typing import Any

import datasets
from bench import Options
from processes import MIB, Workplace, workplace
from results import Figure, Outcome


def run(options: Options) -> Outcome:
    """Kills at several points of progress, and resumes each time."""
    points = [0.2, 0.4, 0.6, 0.8] if options.quick else [number / 10 for number in range(1, 10)]
    repeated, allowed, memory = [], [], []
    with workplace() as place:
        source = place.empty("source")
        size = 1024 * MIB
        datasets.write(source / "large.bin", size, datasets.Content("resume"))
        for point in points:
            killed, resumed, peak = attempt(place, source, int(point * size))
            # What was verified at the kill and what is sent afterwards make up the file; anything beyond it went twice.
            repeated.append(float(max(0, killed["bytes_verified"] + resumed["bytes_sent"] - size)))
            allowed.append(float(killed["bytes_sent"] - killed["bytes_verified"]))
            memory.append(peak)
    return Outcome(
        "resume",
        "One file of 1 GiB over loopback; the client is killed (SIGKILL) at given points of progress, and the same "
        "command runs again.",
        [
            Figure("bytes in flight at the kill, as last reported", "B", allowed),
            Figure("verified bytes that were sent again", "B", repeated, at_most=0),
            Figure("peak memory of the resuming client", "MiB", memory, at_most=300),
        ],
        options.scale,
        [f"Killed at {', '.join(f'{point:.0%}' for point in points)} of the file."],
    )


def interrupt(place: Workplace, copy: list[str], bytes_verified: int) -> dict[str, Any]:
    """Starts a copy, kills the client once that many bytes are verified, and returns its last totals."""
    client = place.copy("--json", "--interval", "0.05", *copy, talks=True)
    totals: dict[str, Any] = {}
    while totals.get("bytes_verified", 0) < bytes_verified:
        event = json.loads(client.line())
        totals = event["totals"] if event["event"] == "sampled" else totals
    client.stop(signal.SIGKILL, expected=-9)
    return totals


def attempt(place: Workplace, source: Path, bytes_verified: int) -> tuple[dict[str, Any], dict[str, Any], float]:
    """One kill and one resumption: the totals of both runs, and the peak memory of the second."""
    target = place.empty("target")
    server, port = place.serve(target)
    copy = [str(source), f"edt://127.0.0.1:{port}/"]
    killed = interrupt(place, copy, bytes_verified)
    cost, report = place.report(*copy)
    server.stop()
    if not filecmp.cmp(target / "large.bin", source / "large.bin", shallow=False):
        raise RuntimeError("the resumed file differs from its source")
    return killed, report["totals"], cost.peak_mib

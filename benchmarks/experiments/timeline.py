"""Throughput and streams over time, tuned automatically, one run a path."""

from __future__ import annotations

from functools import partial

import paths
from bench import Bench, Options
from copies import copied, timeline
from peers import ALL, versions
from peers.peer import DEFAULT
from points import Point
from processes import Failed, workplace
from results import Outcome

PATHS = ("cloudlab", "open", "newy-cern/15", "mich-mass/15", "lossy")


def run(options: Options) -> Outcome:
    """Copies equal files for a while over each path, and keeps what the report says of every interval."""
    seconds = options.seconds or (10.0 if options.quick else 40.0)
    points: dict[str, Point] = {}
    with workplace() as place:
        bench = Bench("timeline", options, place)
        for path in options.paths or (PATHS[:1] if options.quick else PATHS):
            with paths.opened(path) as ends:
                points[path] = bench.points.measured(path, partial(followed, bench, ends, seconds))
    return Outcome(
        "timeline",
        "What `edt cp --report` says of every interval: bytes that left the network stage, and streams in use.",
        [],
        options.scale,
        points=points,
        versions=versions(["edt"]),
    )


def followed(bench: Bench, ends: paths.Ends, seconds: float) -> Point:
    """One copy of files of 16 MiB that takes about that long at the path's rate."""
    data = bench.data("uniform", bench.uncapped("uniform", seconds, ends))
    run = copied(bench.place, ends, ALL["edt"], DEFAULT, data, 10 * seconds)
    if run.failed or run.slower:
        raise Failed(f"edt over {ends.path}: {run.failed or 'too slow'}")
    return {"path": ends.path, "rate_bps": ends.rate_bps, "timeline": timeline(bench.place), **run.record()}

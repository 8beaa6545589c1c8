"""240,000 files of 4 KiB at 67 ms, against the same on loopback, and over the same rate without the delay."""

from __future__ import annotations

import emulated
import paths
from bench import Bench, Options
from copies import Copied
from peers import ALL, versions
from peers.peer import DEFAULT
from processes import workplace
from results import Figure, Outcome

LIMIT_S = 300.0
BAR = 0.8
SHORT = "open, 1 ms"
"""A path of the same rate with hardly any delay."""


def run(options: Options) -> Outcome:
    """Interleaves the path, the short one and loopback."""
    scale, repetitions = (0.25, 3) if options.quick else (1.0, 5)
    runs: dict[str, list[Copied]] = {"loopback": [], SHORT: [], "open": []}
    with workplace() as place, paths.opened("open") as far, emulated.Path.start("open", rtt="1ms") as running:
        every = (paths.LOOPBACK, paths.ends_of(SHORT, running), far)
        bench = Bench("tiny-4k", options, place)
        data = bench.data("tiny-4k", scale)
        for repetition in range(options.repetitions or repetitions):
            for ends in every:
                key = f"{ends.path} {repetition}"
                runs[ends.path].append(bench.copy(key, ends, ALL["edt"], DEFAULT, data, LIMIT_S))
    speeds = {path: [0.0 if run.failed else run.files / run.wall_s for run in each] for path, each in runs.items()}
    assert far.rate_bps is not None
    carried = far.rate_bps / 8 * data.size.files / data.size.bytes
    shares = {
        path: [there / here if here else 0.0 for there, here in zip(speeds["open"], speeds[path], strict=True)]
        for path in ("loopback", SHORT)
    }
    return Outcome(
        "tiny-4k",
        f"{data.size.files} files of 4 KiB on tmpfs, tuned automatically: loopback, and 1 Gbit/s with round trip times "
        "of 67 ms and of 1 ms.",
        [
            Figure("loopback: files per second", "", speeds["loopback"]),
            Figure("1 Gbit/s, 67 ms: files per second", "", speeds["open"]),
            Figure("1 Gbit/s, 1 ms: files per second", "", speeds[SHORT]),
            Figure("1 Gbit/s, 67 ms / loopback", "", shares["loopback"], at_least=BAR),
            Figure("1 Gbit/s, 67 ms / 1 Gbit/s, 1 ms", "", shares[SHORT]),
            Figure("1 Gbit/s, 67 ms / what its rate carries", "", [there / carried for there in speeds["open"]]),
        ],
        options.scale,
        [
            f"At 4 KiB a file the path's rate carries {carried:,.0f} files per second and no more, whatever loopback "
            "reaches."
        ],
        points={f"{path} {index}": run.record() for path, each in runs.items() for index, run in enumerate(each)},
        versions=versions(["edt"]),
    )

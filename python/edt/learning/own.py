"""Reads the history: edt's own transfers, and the logs of other tools that were imported into it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from edt import history
from edt.learning.entries import NO_LIMIT, Entries, Flags, Floats, Ints

Columns = dict[str, Any]
"""Arrays of equal length by name."""

TEXTS = ("source", "destination", "source_name", "options")
"""Columns that hold no numbers."""

OF_TRANSFERS = ("id", "began_s", "ended_s", "source", "destination", "source_name", "bandwidth", "rtt_s", "options")
COUNTS = ("listed_files", "listed_bytes", "files_done", "bytes_done")
OF_INTERVALS = (
    *("transfer", "number", "elapsed_s", "interval_s", "network_concurrency", "parallelism", "pipelining", "judged"),
)
RATES = ("network_throughput", "write_throughput")
OF_IMPORTED = ("began_s", "source", "destination", "bandwidth", "rtt_s", "files", "bytes")
SETTINGS = ("concurrency", "parallelism", "pipelining")

PIECE_S = 10.0
"""Intervals that follow each other are not independent of each other; entries of this length nearly are."""


def transfers(after_s: float) -> tuple[Entries, float]:
    """What this machine's transfers measured, of those that ended later than a time, and when the last of them did.

    Times are seconds since 1970. An interval counts if its setting was in effect in the one before it too, so that the
    streams have grown, and not if the work ran dry in it. Intervals with the same setting that follow each other are
    one entry, of ten seconds at most. Transfers that somebody held back tell nothing of their path, nor do those from
    `zero:` or to `null:`, nor intervals with a new stream for each chunk (pipelining 0), which no optimizer may choose.
    """
    every = columns(history.transfers(), (*OF_TRANSFERS, *COUNTS))
    intervals = columns(history.intervals(), (*OF_INTERVALS, *RATES))
    intervals |= settings(intervals)
    new = (every["ended_s"] > after_s) & ~held_back(every["options"]) & of_storage(every, intervals)
    counts = settled(intervals) & np.isin(intervals["transfer"], every["id"][new]) & (intervals["pipelining"] > 0)
    intervals = {name: column[counts] for name, column in intervals.items()}
    of = place(every["id"], intervals["transfer"])
    first, throughput = pieces(intervals)
    found = {name: intervals[name][first] for name in SETTINGS}
    found |= {name: every[name][of][first] for name in ("source", "destination", "bandwidth")}
    # Without a network between there is no round trip to speak of, and the core takes it so too.
    found["rtt_s"] = np.nan_to_num(every["rtt_s"], nan=0.0)[of][first]
    found["began_s"] = (every["began_s"][of] + intervals["elapsed_s"] - intervals["interval_s"])[first]
    found["files"] = known_or(every["listed_files"], every["files_done"])[of][first]
    found["bytes"] = known_or(every["listed_bytes"], every["bytes_done"])[of][first]
    return Entries.of({**found, "throughput": throughput}), float(every["ended_s"][new].max(initial=after_s))


def place(ascending: Floats, wanted: Floats) -> Ints:
    """Where each wanted value stands."""
    found: Ints = np.searchsorted(ascending, wanted).astype(np.int64)
    return found


def pieces(intervals: Mapping[str, Floats]) -> tuple[Ints, Floats]:
    """The first interval of each entry, and the mean throughput of all of its intervals, in bytes per second."""
    begins = intervals["elapsed_s"] - intervals["interval_s"]
    same = np.all([np.diff(intervals[name]) == 0 for name in ("transfer", *SETTINGS)], axis=0)
    same &= np.diff(intervals["number"]) == 1
    run = np.append(np.zeros(min(len(begins), 1)), np.cumsum(~same)).astype(np.int64)
    of_run = begins - begins[np.searchsorted(run, run)] if len(run) else begins
    _, first, piece = np.unique(
        np.stack([run, of_run // PIECE_S], axis=1), axis=0, return_index=True, return_inverse=True
    )
    network, write = (intervals[name] for name in RATES)
    seconds, rate = intervals["interval_s"], np.where(network > 0, network, write)
    piece = piece.reshape(-1)
    return first, np.bincount(piece, weights=rate * seconds) / np.bincount(piece, weights=seconds)


def imports() -> Iterator[Entries]:
    """The logs of other tools in the history."""
    found = columns(history.imported(), ("import", *OF_IMPORTED, *SETTINGS, "throughput"))
    numbers = found.pop("import")
    for number in np.unique(numbers):
        yield Entries.of({name: column[numbers == number] for name, column in found.items()})


def columns(table: Any, names: Iterable[str]) -> Columns:
    """Columns of an Arrow table; numbers that are not known are NaN."""
    found: Columns = {}
    for name in names:
        column = table.column(name).to_pylist()
        if name in TEXTS:
            found[name] = np.array([text or "" for text in column], dtype=object)
        else:
            found[name] = np.array([np.nan if number is None else number for number in column], dtype=np.float64)
    return found


def settings(intervals: Mapping[str, Floats]) -> Columns:
    """The settings of intervals: streams, as files and the streams for each where parallelism had a limit."""
    streams = np.maximum(np.round(intervals["network_concurrency"]), 1)
    limited = np.isfinite(intervals["parallelism"])
    parallelism = np.where(limited, np.clip(np.nan_to_num(intervals["parallelism"], nan=1.0), 1, streams), 1.0)
    return {
        "concurrency": np.maximum(np.round(streams / parallelism), 1),
        "parallelism": np.where(limited, parallelism, NO_LIMIT),
        "pipelining": np.nan_to_num(intervals["pipelining"], nan=float(NO_LIMIT)),
    }


def settled(intervals: Mapping[str, Floats]) -> Flags:
    """Which intervals follow one of the same transfer with the same setting, and were judged to say something of it.

    Of those from before that was kept, all but the last of a transfer do.
    """
    together = np.diff(intervals["transfer"]) == 0
    same = together & np.all([np.diff(intervals[name]) == 0 for name in SETTINGS], axis=0)
    none = np.zeros(min(len(intervals["transfer"]), 1), dtype=bool)
    judged = np.where(np.isnan(intervals["judged"]), np.append(together, none), intervals["judged"] == 1)
    counts: Flags = np.append(none, same) & judged
    return counts


def held_back(options: Iterable[str]) -> Flags:
    """Which transfers had a limit of their rate."""
    told = [json.loads(text or "{}") for text in options]
    limits = ("limit_rate", "worker_rate")
    return np.array([any(each.get(name) is not None for name in limits) for each in told], dtype=bool)


def of_storage(transfers: Mapping[str, Any], intervals: Mapping[str, Floats]) -> Flags:
    """Which transfers went from storage to storage.

    Before intervals were judged, `zero:` and `null:` were kept as of this machine: where no name was kept either, a
    transfer from then may be one of those.
    """
    judged = np.isin(transfers["id"], intervals["transfer"][np.isfinite(intervals["judged"])])
    here = (transfers["source"] == "local") | (transfers["destination"] == "local")
    none = (transfers["source"] == "zero") | (transfers["destination"] == "null")
    found: Flags = ~none & (judged | (transfers["source_name"] != "") | ~here)
    return found


def known_or(column: Floats, other: Floats) -> Floats:
    """The values of a column, and of another where they are not known."""
    return np.where(np.isfinite(column), column, other)

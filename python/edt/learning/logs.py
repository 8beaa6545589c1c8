"""Reads logs: CSV files in the form of `edt history import`, and the history of edt's own transfers."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edt import history
from edt.learning.entries import NO_LIMIT, Entries, Floats

COLUMNS = {
    "start_s": "began_s",
    "source": "source",
    "destination": "destination",
    "bandwidth_bytes_per_s": "bandwidth",
    "rtt_s": "rtt_s",
    "tcp_buffer_bytes": "tcp_buffer",
    "files": "files",
    "bytes": "bytes",
    "mean_file_bytes": "mean_size",
    "concurrency": "concurrency",
    "parallelism": "parallelism",
    "pipelining": "pipelining",
    "throughput_bytes_per_s": "throughput",
}
"""The columns of a CSV file, and their names here; `docs/history.md` describes them."""

TEXTS = ("source", "destination")
"""Columns that hold no numbers."""


def read_csv(file: str | os.PathLike[str]) -> Entries:
    """The entries of a CSV file; a ValueError names the file, the line and what is wrong with it."""
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            return Entries.of(columns_of(csv.reader(counted(stream), skipinitialspace=True)))
    except (ValueError, csv.Error) as error:
        raise ValueError(f"could not learn from `{os.fspath(file)}`: {error}") from error


def digest(file: str | os.PathLike[str]) -> str:
    """What tells a log from others."""
    return hashlib.blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()


def counted(stream: Iterator[str]) -> Iterator[str]:
    """The lines without comments."""
    return (line for line in stream if not line.startswith("#") and line.strip())


def columns_of(rows: Iterator[list[str]]) -> dict[str, Any]:
    """The columns of a CSV file by their names here."""
    header = [name.strip() for name in next(rows, [])]
    if unknown := [name for name in header if name not in COLUMNS]:
        raise ValueError(f"it has a column `{unknown[0]}`, which is none of {', '.join(COLUMNS)}")
    found: dict[str, list[Any]] = {COLUMNS[name]: [] for name in header}
    if len(found) != len(header):
        raise ValueError("it has a column twice")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} fields instead of {len(header)}")
        for column, text in zip(found.items(), row, strict=True):
            column[1].append(text.strip() if column[0] in TEXTS else value(text, column[0], number))
    return completed(found)


def value(text: str, column: str, row: int) -> float:
    """A number; NaN for an empty field."""
    if not text.strip():
        return float("nan")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"row {row} has no number in `{column}`: `{text}`") from None


def completed(found: dict[str, list[Any]]) -> dict[str, Any]:
    """The columns with those that may be left out."""
    size = len(next(iter(found.values()), []))
    for name in ("parallelism", "pipelining"):
        column = np.array(found.get(name, [np.nan] * size), dtype=np.float64)
        found[name] = np.nan_to_num(column, nan=1.0).tolist()
    if "mean_size" in found and "files" in found:
        found["bytes"] = (np.array(found.pop("mean_size")) * np.array(found["files"])).tolist()
    return found


def from_history(after_s: float) -> Entries:
    """The intervals of this machine's transfers that began later than so many seconds since 1970.

    An interval counts if its setting was in effect in the one before it too, so that the streams have grown, and not if it is the
    last of its transfer. Transfers that somebody held back tell nothing of their path.
    """
    transfers = columns(history.transfers(), ("id", "began_s", "source", "destination", "bandwidth", "rtt_s"))
    totals = columns(history.transfers(), ("listed_files", "listed_bytes", "files_done", "bytes_done", "rate_limited"))
    names = ("transfer", "elapsed_s", "interval_s", "network_concurrency", "parallelism", "pipelining")
    intervals = columns(history.intervals(), (*names, "network_throughput", "write_throughput"))
    place = {number: row for row, number in enumerate(transfers["id"].tolist())}
    known = np.array([number in place for number in intervals["transfer"].tolist()], dtype=bool)
    of = np.array([place.get(number, 0) for number in intervals["transfer"].tolist()], dtype=np.int64)
    files = known_or(totals["listed_files"], totals["files_done"])
    size = known_or(totals["listed_bytes"], totals["bytes_done"])
    streams = np.maximum(np.round(intervals["network_concurrency"].astype(np.float64)), 1)
    parallelism = np.minimum(no_limit(intervals["parallelism"]), np.where(np.isnan(intervals["parallelism"]), NO_LIMIT, streams))
    found = {name: transfers[name][of] for name in ("source", "destination", "bandwidth", "rtt_s")}
    found |= {"files": files[of], "bytes": size[of], "transfer": intervals["transfer"]}
    found["began_s"] = transfers["began_s"][of] + intervals["elapsed_s"] - intervals["interval_s"]
    found["concurrency"] = np.where(parallelism == NO_LIMIT, streams, np.maximum(np.round(streams / parallelism), 1))
    found |= {"parallelism": parallelism, "pipelining": no_limit(intervals["pipelining"])}
    found["throughput"] = np.where(intervals["network_throughput"] > 0, intervals["network_throughput"], intervals["write_throughput"])
    held_back = np.nan_to_num(totals["rate_limited"].astype(np.float64))[of] > 0
    counts = known & settled(intervals["transfer"], streams, parallelism) & ~held_back & (found["began_s"] > after_s)
    return Entries.of({name: column[counts] for name, column in found.items()})


def settled(transfer: Floats, streams: Floats, parallelism: Floats) -> Any:
    """Which intervals, in the order of transfers and time, follow one with the same setting and are followed by another one."""
    same = (np.diff(transfer) == 0) & (np.abs(np.diff(streams)) <= streams[:-1] / 8) & (np.diff(parallelism) == 0)
    before, after = np.append(False, same), np.append(np.diff(transfer) == 0, False)
    return before[: len(transfer)] & after[: len(transfer)]


def imports() -> dict[str, Entries]:
    """The logs of other tools that are in the history, by names under which they are known to have been learned from."""
    names = ("import", "began_s", "source", "destination", "bandwidth", "rtt_s", "files", "bytes", "concurrency")
    found = columns(history.imported(), (*names, "parallelism", "pipelining", "throughput"))
    numbers = found.pop("import")
    return {
        f"import {int(number)}": Entries.of({name: column[numbers == number] for name, column in found.items()})
        for number in np.unique(numbers)
    }


def columns(table: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Columns of an Arrow table; numbers that are not known are NaN."""
    found = {}
    for name in names:
        column = table.column(name).to_pylist()
        if name in TEXTS:
            found[name] = np.array([text or "" for text in column], dtype=object)
        else:
            found[name] = np.array([np.nan if number is None else number for number in column], dtype=np.float64)
    return found


def known_or(column: Floats, other: Floats) -> Floats:
    """The values of a column, and of another where they are not known."""
    return np.where(np.isfinite(column), column, other)


def no_limit(column: Floats) -> Floats:
    """The values of a column, with what stands for no limit where there are none."""
    return np.nan_to_num(column, nan=float(NO_LIMIT))

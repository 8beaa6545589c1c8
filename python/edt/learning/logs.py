"""Reads logs: CSV files in the form of `edt history import`."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from edt.learning.entries import Entries

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

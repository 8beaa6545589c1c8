"""The GridFTP transfer logs that were published with HARP: their rows, and the passes through all settings."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from processes import ROOT

FOLDER = Path(os.environ.get("EDT_GRIDFTP_LOGS", ROOT.parent / "shared" / "data" / "harp"))
"""Where they lie, if they do."""

FILE = "harp_grid.csv.gz"

MEBIBIT = 2**20 / 8
"""Bytes: the logs count in Mibit/s."""

SHORTEST_S = 10.0
FASTEST_MIBPS = 9000.0
"""Rows beyond these are mistakes, as in HARP's own program."""

WHOLE = 216
"""Settings of a complete pass: {1, 2, 4, 8, 16, 32} for each of the three parameters."""

WORTH = 72
"""Settings of a pass that says anything, as in HARP's own program."""

Setting = tuple[int, int, int]
"""Parallelism, concurrency, pipelining."""


@dataclass(frozen=True)
class Pass:
    """One pass through the settings: one set of files over one path, in one stretch of time."""

    number: int
    source: str
    destination: str
    began_s: float
    """Midnight of the day of its first row, in seconds since 1970."""
    ended_s: float
    """The same of its last row."""
    bandwidth: float
    """Bytes per second."""
    rtt_s: float
    tcp_buffer: float
    """Bytes."""
    mean_size: float
    """Bytes."""
    files: int
    rows: list[tuple[Setting, float]]
    """Settings and bytes per second, in the order of time."""

    @property
    def throughput(self) -> dict[Setting, float]:
        """Bytes per second of each setting, the last where one was measured twice."""
        return dict(self.rows)

    @property
    def is_complete(self) -> bool:
        """Whether every setting was measured."""
        return len(self.throughput) == WHOLE


def missing() -> str | None:
    """What is missing, for those who skip."""
    there = (FOLDER / FILE).exists()
    return None if there else f"`{FILE}`, the logs published with HARP (EDT_GRIDFTP_LOGS names the folder)"


def passes() -> list[Pass]:
    """All passes that are worth something, by the day they began on."""
    with gzip.open(FOLDER / FILE, "rt", encoding="utf-8", newline="") as stream:
        found = list(cut(csv.DictReader(stream)))
    found.sort(key=lambda rows: date_s(rows[0]["date"]))
    return [made(number, rows) for number, rows in enumerate(found)]


def cut(rows: Iterable[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    """The rows of each pass: of the same files over the same path, until a setting comes again after a whole round."""
    open_: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        if float(row["dur_s"]) < SHORTEST_S or float(row["thr_mibps"]) > FASTEST_MIBPS:
            continue
        key = tuple(row[name] for name in ("file", "src", "dst", "file_size_B", "file_count", "fast"))
        current = open_.setdefault(key, [])
        if len(current) >= WHOLE - 1 and setting(row) in {setting(each) for each in current}:
            yield current
            current = open_[key] = []
        current.append(row)
    yield from (current for current in open_.values() if len({setting(row) for row in current}) >= WORTH)


def made(number: int, rows: list[dict[str, str]]) -> Pass:
    """A pass of its rows."""
    first = rows[0]
    return Pass(
        number=number,
        source=first["src"],
        # The same endpoints in GridFTP's other mode behave as others.
        destination=first["dst"] + (" (fast)" if first["fast"] == "1" else ""),
        began_s=min(date_s(row["date"]) for row in rows),
        ended_s=max(date_s(row["date"]) for row in rows),
        bandwidth=float(first["bw_bps"]) / 8,
        rtt_s=float(first["rtt_s"]),
        tcp_buffer=float(first["buf_B"]),
        mean_size=float(first["file_size_B"]),
        files=int(first["file_count"]),
        rows=[(setting(row), float(row["thr_mibps"]) * MEBIBIT) for row in rows],
    )


def setting(row: dict[str, str]) -> Setting:
    """The setting of a row."""
    return int(row["p"]), int(row["cc"]), int(row["pp"])


def date_s(text: str) -> float:
    """A day, in one of the two forms of the logs, in seconds since 1970."""
    form = "%m/%d/%y" if "/" in text else "%Y-%m-%d"
    return datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()

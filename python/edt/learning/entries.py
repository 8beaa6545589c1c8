"""Log entries that knowledge is learned from: past transfers, or intervals of them, each with one setting."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_LIMIT = 65_535
"""What stands for no limit of parallelism or pipelining."""

FEATURES = {"bandwidth": 1.0, "rtt": 0.5, "mean_size": 1.0, "files": 4.0}
"""What transfers are told apart by, and the difference that counts as one, in doublings.

The network and data arguments of [ASM algorithm 1]. The scales are fixed, not those of the data, so that new logs can
be added to what is known.
"""

NEEDED = ("began_s", "files", "bytes", "concurrency", "parallelism", "pipelining", "throughput")
"""Columns without which there is nothing to learn."""

LEAST_RTT_S = 1e-4
"""A round trip below this is as good as none."""

# 1, 2, 3, 4, 6, 8, 12, ...: what is measured in between counts for the nearest, so that statistics stay small.
_LEVELS = np.array(sorted({1, *(step * 2**power for power in range(15) for step in (2, 3))}), dtype=np.int64)
_BORDERS = np.sqrt(_LEVELS[:-1] * _LEVELS[1:])


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Columns of equal length, oldest first."""

    began_s: Floats
    """Seconds since 1970."""
    session: Ints
    """Equal where the path and, if it is told, the transfer are the same."""
    features: Floats
    """[entries, features]: binary logarithms of bytes per second, seconds, bytes and a number; NaN where not known."""
    settings: Ints
    """[entries, 3]: parallelism, concurrency and pipelining, at levels."""
    throughput: Floats
    """Bytes per second."""

    def __len__(self) -> int:
        return len(self.began_s)

    @property
    def digest(self) -> str:
        """What tells a log from others, whatever it was read from: its times, settings and throughputs."""
        columns = (self.began_s.astype("<f8"), self.settings.astype("<i8"), self.throughput.astype("<f8"))
        return hashlib.blake2b(b"".join(column.tobytes() for column in columns), digest_size=16).hexdigest()

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Entries:
        """Takes columns by their names in `docs/learning.md`, and leaves out rows that cannot be true."""
        if missing := [name for name in NEEDED if name not in columns]:
            raise ValueError(f"the log has no column {', '.join(f'`{name}`' for name in missing)}")
        size = len(columns["throughput"])
        given = {name: numbers(columns, name, size) for name in (*NEEDED, "bandwidth", "rtt_s", "transfer")}
        settings = np.stack([given["parallelism"], given["concurrency"], given["pipelining"]], axis=1)
        usable = plausible(given) & np.isfinite(settings).all(axis=1)
        order = np.argsort(given["began_s"], kind="stable")
        order = order[usable[order]]
        found = cls(
            began_s=given["began_s"],
            session=sessions(columns, given["transfer"], size),
            features=features(given),
            settings=levels(np.rint(np.nan_to_num(settings, nan=1.0)).astype(np.int64)),
            throughput=given["throughput"],
        )
        return found.chosen(order)

    def chosen(self, which: Ints) -> Entries:
        """Some of them, in this order."""
        return Entries(**{field.name: getattr(self, field.name)[which] for field in fields(self)})

    @classmethod
    def joined(cls, parts: Iterable[Entries]) -> Entries:
        """All entries of some logs, whose sessions stay apart."""
        logs, first, moved = list(parts), 0, []
        for log in logs:
            moved.append(log.session + first)
            first += int(log.session.max(initial=-1)) + 1
        columns = {field.name: np.concatenate([getattr(log, field.name) for log in logs]) for field in fields(cls)}
        found = cls(**{**columns, "session": np.concatenate(moved)})
        return found.chosen(np.argsort(found.began_s, kind="stable"))


def numbers(columns: Mapping[str, Any], name: str, size: int) -> Floats:
    """A column as numbers, NaN where it has none."""
    if name not in columns:
        return np.full(size, np.nan)
    try:
        found = np.asarray(columns[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the column `{name}` holds what is no number: {error}") from error
    if found.shape != (size,):
        raise ValueError(f"the column `{name}` has {len(found)} values, and others have {size}")
    return found


def plausible(given: Mapping[str, Floats]) -> Flags:
    """Which rows can be true: with files, with a time, and no faster than their path."""
    limit = np.nan_to_num(1.1 * given["bandwidth"], nan=np.inf)
    known = np.isfinite(given["began_s"]) & np.isfinite(given["throughput"])
    whole = (given["files"] >= 1) & (given["bytes"] > 0) & (given["concurrency"] >= 1) & (given["parallelism"] >= 1)
    fast = (given["throughput"] > 0) & (given["throughput"] <= limit)
    found: Flags = known & whole & fast & (given["pipelining"] >= 0)
    return found


def features(given: Mapping[str, Floats]) -> Floats:
    """[entries, features] in the order of `FEATURES`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = [
            given["bandwidth"],
            np.maximum(given["rtt_s"], LEAST_RTT_S),
            np.maximum(given["bytes"] / given["files"], 1.0),
            given["files"],
        ]
        found: Floats = np.log2(np.stack(columns, axis=1))
    return np.where(np.isfinite(found), found, np.nan)


def sessions(columns: Mapping[str, Any], transfer: Floats, size: int) -> Ints:
    """A number for each combination of source, destination and transfer."""
    names = [columns.get(name, [""] * size) for name in ("source", "destination")]
    known: dict[tuple[Any, ...], int] = {}
    rows = zip(*names, np.nan_to_num(transfer, nan=-1), strict=True)
    return np.array([known.setdefault(row, len(known)) for row in rows], dtype=np.int64)


def levels(settings: Ints) -> Ints:
    """The level nearest to each value; no limit is one of its own.

    Logs that count requests ahead have 0 where one waits for the other, which edt calls a pipelining of 1.
    """
    found = _LEVELS[np.searchsorted(_BORDERS, settings, side="right")]
    return np.where(settings >= NO_LIMIT, NO_LIMIT, found)


def positions(values: Ints, axes: str) -> Floats:
    """Where values of a parameter lie on an axis."""
    exact = values.astype(np.float64)
    return exact if axes == "raw" else np.log2(exact)

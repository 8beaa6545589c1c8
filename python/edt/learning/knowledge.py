"""What is known of past transfers, and the file that keeps it: statistics to go on from, and surfaces made of them."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edt.learning.cells import Cells
from edt.learning.entries import FEATURES, NO_LIMIT, Floats
from edt.learning.loads import LoadClass
from edt.learning.options import Options
from edt.learning.surfaces import Surface, Surfaces, surfaces

KIND = "asm"
FORMAT = 2
"""In the first, logs had other names, so that they would be learned from again, and pipelining could be 0."""

MOST_BYTES = 256 << 20
"""The largest file that a transfer reads."""


@dataclass(frozen=True)
class Cluster:
    """Transfers that resemble each other."""

    known: Floats
    """[features]: entries in which each feature is known."""
    mean: Floats
    """[features]: the centroid, in binary logarithms; NaN where no entry has the feature."""
    reach: float
    """The distance of the farthest entry from it, in scales."""
    classes: list[LoadClass]

    @property
    def entries(self) -> int:
        """Entries behind it."""
        return sum(each.cells.entries for each in self.classes)


@dataclass(frozen=True)
class Log:
    """A log that was learned from, so that none counts twice."""

    name: str
    """Its digest, or `history`."""
    entries: int = 0
    """Entries that were learned from."""
    until_s: float = 0.0
    """Of the history: when the last transfer that was learned from ended, in seconds since 1970."""


@dataclass(frozen=True)
class Knowledge:
    """All that was learned."""

    options: Options = field(default_factory=Options)
    clusters: list[Cluster] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)

    def surfaces(self) -> list[Surfaces]:
        """The surfaces of each cluster."""
        return [surfaces([each.cells for each in cluster.classes], self.options) for cluster in self.clusters]

    def log(self, name: str) -> Log | None:
        """The log of a name, if it was learned from."""
        return next((log for log in self.logs if log.name == name), None)

    @classmethod
    def read(cls, file: str | os.PathLike[str]) -> Knowledge:
        """Reads a file; a ValueError names it and what is wrong with it."""
        try:
            if (size := Path(file).stat().st_size) > MOST_BYTES:
                raise ValueError(f"it has {size} bytes, and no more than {MOST_BYTES} are read")
            return cls.from_dict(json.loads(Path(file).read_text(encoding="utf-8"), parse_constant=refused))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"could not use the knowledge `{os.fspath(file)}`: {what}") from error

    def write(self, file: str | os.PathLike[str]) -> None:
        """Writes the file; one that is there is replaced at once and as a whole."""
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_bytes(self.to_bytes())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def to_bytes(self) -> bytes:
        """The content of the file; a ValueError says that it is larger than what a transfer reads."""
        content = json.dumps(self.to_dict(), allow_nan=False, separators=(",", ":")).encode()
        if len(content) > MOST_BYTES:
            hint = "learn anew from fewer logs: edt learn --fresh"
            raise ValueError(f"the knowledge has {len(content)} bytes, more than {MOST_BYTES}\nhint: {hint}")
        return content

    def to_dict(self) -> dict[str, Any]:
        """The content of the file: what the core needs, and under `learned` what a further call of `learn` needs."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "features": [{"name": name, "scale": scale} for name, scale in FEATURES.items()],
            "clusters": [told(cluster, drawn) for cluster, drawn in zip(self.clusters, self.surfaces(), strict=True)],
            "learned": {
                "options": asdict(self.options),
                "logs": [asdict(log) for log in self.logs],
                "clusters": [statistics(cluster) for cluster in self.clusters],
            },
        }

    @classmethod
    def from_dict(cls, text: Mapping[str, Any]) -> Knowledge:
        """Takes the content of a file."""
        if text["kind"] != KIND:
            raise ValueError(f"it is of the kind {text['kind']!r}, not {KIND!r}")
        if text["format"] != FORMAT:
            raise ValueError(other_format(text["format"]))
        if (features := {each["name"]: each["scale"] for each in text["features"]}) != FEATURES:
            raise ValueError(f"its features are {features}, not {FEATURES}")
        learned = text["learned"]
        return cls(
            Options(**learned["options"]),
            [cluster_of(each) for each in learned["clusters"]],
            [log_of(each) for each in learned["logs"]],
        )


def refused(constant: str) -> None:
    """Refuses what Python reads as a number, and no other reader of JSON does."""
    raise ValueError(f"it holds {constant}, which is no number")


def other_format(found: Any) -> str:
    """What is wrong with a file of another format, and what to do."""
    remedy = "learn anew" if isinstance(found, int) and found < FORMAT else "update edt, or learn anew"
    return (
        f"it is of format {found!r}, and this edt knows format {FORMAT}\n"
        f"hint: {remedy} with `edt learn --fresh`, naming the logs again"
    )


def told(cluster: Cluster, drawn: Surfaces) -> dict[str, Any]:
    """A cluster as the core reads it."""
    return {
        "centroid": [None if math.isnan(value) else round(value, 4) for value in cluster.mean.tolist()],
        "entries": cluster.entries,
        "grids": [
            {
                "parallelism": grid.parallelism.tolist(),
                "concurrency": grid.concurrency.tolist(),
                "pipelining": grid.pipelining.tolist(),
            }
            for grid in drawn.grids
        ],
        "separating": drawn.separating.tolist(),
        "surfaces": [told_surface(surface) for surface in drawn.surfaces],
    }


def told_surface(surface: Surface) -> dict[str, Any]:
    """A surface as the core reads it."""
    return {
        "load": round(surface.load, 4),
        "entries": surface.entries,
        "argmax": list(surface.maxima[0].setting),
        "region": surface.region.tolist(),
        "throughput": [significant(values) for values in surface.throughput],
        "deviation": [np.round(values.reshape(-1), 3).tolist() for values in surface.deviation],
    }


def significant(values: Floats) -> list[float]:
    """The values with four significant digits, whole where they can be."""
    flat = values.reshape(-1)
    step = 10.0 ** (np.floor(np.log10(flat)) - 3)
    rounded = np.round(flat / step) * step
    return [int(value) if value >= 1000 else value for value in rounded.tolist()]


def statistics(cluster: Cluster) -> dict[str, Any]:
    """A cluster as a further call reads it."""
    return {
        "known": cluster.known.tolist(),
        "mean": [None if math.isnan(value) else value for value in cluster.mean.tolist()],
        "reach": cluster.reach,
        "classes": [
            {
                "first_s": each.first_s,
                "last_s": each.last_s,
                "settings": each.cells.settings.tolist(),
                "count": each.cells.count.astype(int).tolist(),
                "mean": each.cells.mean.tolist(),
                "squares": each.cells.squares.tolist(),
            }
            for each in cluster.classes
        ],
    }


def cluster_of(text: Mapping[str, Any]) -> Cluster:
    """Takes the statistics of a cluster, and checks them."""
    mean = np.array([np.nan if value is None else value for value in text["mean"]], dtype=np.float64)
    known, reach = np.array(text["known"], dtype=np.float64), float(text["reach"])
    if mean.shape != (len(FEATURES),) or known.shape != mean.shape or not text["classes"]:
        raise ValueError("a cluster has no centroid or no loads")
    if np.isinf(mean).any() or not (within(0, known) and within(0, np.array([reach]))):
        raise ValueError("the centroid of a cluster is impossible")
    return Cluster(known, mean, reach, [class_of(each) for each in text["classes"]])


def class_of(text: Mapping[str, Any]) -> LoadClass:
    """Takes the statistics of a load class, and checks them."""
    settings, count, mean, squares = (
        np.array(text[name], dtype=np.float64) for name in ("settings", "count", "mean", "squares")
    )
    size = len(settings)
    if settings.shape != (size, 3) or size == 0 or not count.shape == mean.shape == squares.shape == (size,):
        raise ValueError("the statistics of a load do not fit together")
    if not (within(1, settings, NO_LIMIT) and is_whole(settings) and len(np.unique(settings, axis=0)) == size):
        raise ValueError(f"the settings of a load are not whole numbers from 1 to {NO_LIMIT}, each setting once")
    if not (within(1, count) and is_whole(count) and within(0, mean) and (mean > 0).all() and within(0, squares)):
        raise ValueError("the statistics of a load are impossible")
    cells = Cells(settings.astype(np.int64), count, mean, squares)
    return LoadClass(cells, time_of(text["first_s"]), time_of(text["last_s"]))


def log_of(text: Mapping[str, Any]) -> Log:
    """Takes a log that was learned from."""
    return Log(str(text["name"]), int(text["entries"]), time_of(text["until_s"]))


def time_of(text: Any) -> float:
    """Takes a time in seconds since 1970."""
    if not math.isfinite(found := float(text)):
        raise ValueError(f"a time is {found}")
    return found


def within(least: float, values: Floats, most: float = sys.float_info.max) -> bool:
    """Whether all values are numbers of a range."""
    return bool(((values >= least) & (values <= most)).all())


def is_whole(values: Floats) -> bool:
    """Whether all values are whole numbers."""
    return bool((values == np.rint(values)).all())

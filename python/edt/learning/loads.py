"""External load: passes through the settings that saw the same load, and classes of passes that saw a similar one.

Logs do not tell the load. What they tell is how fast the same transfers went at other times: a pass is a stretch of
time in which one kind of transfer was measured, and passes that differ in throughput differ in load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edt.learning.cells import Cells
from edt.learning.entries import Entries, Floats, Ints

GAP_S = 3600.0
"""After a break of an hour the load may be another one."""

AGAIN = 64
"""A setting that comes again after so many entries begins another pass: a sweep starts over, or time has gone by."""

ROUNDS = 50
"""Of alternating between levels and effects; the change of the last ones is far below a percent."""

STRANGERS = 64.0
"""The distance of classes that have no setting in common: merged after all others."""


@dataclass(frozen=True)
class LoadClass:
    """Passes under a similar load."""

    cells: Cells
    first_s: float
    """When the first of their entries began, in seconds since 1970."""
    last_s: float
    """When the last did."""


def passes(entries: Entries) -> list[Ints]:
    """The indices of the entries of each pass, oldest pass first."""
    found: list[list[int]] = []
    last: dict[tuple[int, ...], int] = {}
    previous = -1
    for index in np.lexsort((entries.began_s, entries.session)).tolist():
        setting = tuple(entries.settings[index].tolist())
        now = len(found[-1]) if found else 0
        if (
            previous < 0
            or entries.session[index] != entries.session[previous]
            or entries.began_s[index] - entries.began_s[previous] > GAP_S
            or now - last.get(setting, now) >= AGAIN
        ):
            found.append([])
            last, now = {}, 0
        last[setting] = now
        found[-1].append(index)
        previous = index
    found.sort(key=lambda indices: (float(entries.began_s[indices[0]]), indices[0]))
    return [np.array(indices, dtype=np.int64) for indices in found]


def folded(classes: Sequence[LoadClass], entries: Entries, tolerance: float, most: int) -> list[LoadClass]:
    """The classes with the passes of some entries added: each to the most similar class, or as a new one."""
    found = list(classes)
    for indices in passes(entries):
        chosen = entries.chosen(indices)
        new = LoadClass(Cells.of(chosen), float(chosen.began_s.min()), float(chosen.began_s.max()))
        distances = [distance(new.cells, each.cells) for each in found]
        nearest = int(np.argmin(distances)) if distances else -1
        if nearest >= 0 and distances[nearest] < tolerance:
            found[nearest] = joined(found[nearest], new)
        else:
            found.append(new)
        if len(found) > most:
            found = with_nearest_joined(found)
    return found


def joined(one: LoadClass, other: LoadClass) -> LoadClass:
    """Both as one class."""
    cells = Cells.merged([one.cells, other.cells])
    return LoadClass(cells, min(one.first_s, other.first_s), max(one.last_s, other.last_s))


def with_nearest_joined(classes: Sequence[LoadClass]) -> list[LoadClass]:
    """One class less: the two that are most similar are joined."""
    pairs = [(one, other) for other in range(len(classes)) for one in range(other)]
    distances = [distance(classes[one].cells, classes[other].cells) for one, other in pairs]
    one, other = pairs[int(np.argmin(distances))]
    left = [each for index, each in enumerate(classes) if index not in (one, other)]
    return [*left, joined(classes[one], classes[other])]


def distance(one: Cells, other: Cells) -> float:
    """The mean difference of throughputs at the settings that both have, in doublings; large where these are few."""
    _, left, right = np.intersect1d(one.codes, other.codes, assume_unique=True, return_indices=True)
    if 2 * len(left) < min(len(one), len(other)):
        return STRANGERS
    return float(np.abs(np.log2(one.mean[left] / other.mean[right])).mean())


def split(values: Floats) -> tuple[Floats, Floats]:
    """Splits logarithms [classes, cells], NaN where nothing was measured, into levels of classes and effects of cells.

    Effects are NaN where no class measured anything. The levels have a mean of 0.
    """
    known = np.isfinite(values)
    table = np.where(known, values, 0.0)
    level = np.zeros(len(values))
    with np.errstate(invalid="ignore"):
        for _ in range(ROUNDS):
            effect = np.where(known, table - level[:, None], 0.0).sum(axis=0) / known.sum(axis=0)
            level = np.where(known, table - np.nan_to_num(effect), 0.0).sum(axis=1) / known.sum(axis=1)
            level -= level.mean()
    return level, effect

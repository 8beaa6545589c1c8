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

LEAST_WIDTH = 0.05
"""A tolerance to begin with where there are too many loads, in doublings."""


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
    """The classes with the passes of some entries added: each to the most similar class, or as a new one.

    Where there are too many, they are merged with a tolerance that is half as wide again, until there are not.
    """
    found = list(classes)
    for indices in passes(entries):
        chosen = entries.chosen(indices)
        found = added(
            found, LoadClass(Cells.of(chosen), float(chosen.began_s.min()), float(chosen.began_s.max())), tolerance
        )
        width = max(tolerance, LEAST_WIDTH)
        while len(found) > most:
            width *= 1.5
            found = merged(found, width)
    return found


def merged(classes: Sequence[LoadClass], tolerance: float) -> list[LoadClass]:
    """The classes, added to each other one by one."""
    found: list[LoadClass] = []
    for each in classes:
        found = added(found, each, tolerance)
    return found


def added(classes: Sequence[LoadClass], new: LoadClass, tolerance: float) -> list[LoadClass]:
    """The classes with one more, or with the most similar one enlarged."""
    apart = distances(new.cells, [each.cells for each in classes])
    nearest = int(np.argmin(apart)) if apart else -1
    if nearest < 0 or apart[nearest] >= tolerance:
        return [*classes, new]
    return [joined(each, new) if index == nearest else each for index, each in enumerate(classes)]


def joined(one: LoadClass, other: LoadClass) -> LoadClass:
    """Both as one class."""
    cells = Cells.merged([one.cells, other.cells])
    return LoadClass(cells, min(one.first_s, other.first_s), max(one.last_s, other.last_s))


def distances(one: Cells, others: Sequence[Cells]) -> list[float]:
    """How much the throughputs of one load differ from those of others, in doublings.

    At the settings that both have, in the mean; where these are few, by their levels, as all together make them likely.
    """
    found = [at_shared_settings(one, other) for other in others]
    if None in found:
        level = levels([one, *others])
        found = [
            abs(float(level[0] - other)) if each is None else each for each, other in zip(found, level[1:], strict=True)
        ]
    return [each for each in found if each is not None]


def at_shared_settings(one: Cells, other: Cells) -> float | None:
    """The mean difference of throughputs at the settings that both have, in doublings; `None` where these are few."""
    _, left, right = np.intersect1d(one.codes, other.codes, assume_unique=True, return_indices=True)
    if 2 * len(left) < min(len(one), len(other)):
        return None
    return float(np.abs(np.log2(one.mean[left] / other.mean[right])).mean())


def levels(loads: Sequence[Cells]) -> Floats:
    """The level of each load: by how many doublings its throughputs differ from those of the mean load."""
    codes = np.unique(np.concatenate([cells.codes for cells in loads]))
    values = np.full((len(loads), len(codes)), np.nan)
    for row, cells in zip(values, loads, strict=True):
        row[np.searchsorted(codes, cells.codes)] = np.log2(cells.mean)
    return split(values)[0]


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

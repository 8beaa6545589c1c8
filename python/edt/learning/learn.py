"""The offline analysis as a whole: clusters, loads, and what further logs add to them [ASM section 4.1].

Additive: of earlier logs only their statistics are needed, so that new logs never make anyone read old ones again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edt.learning.clusters import partition
from edt.learning.entries import FEATURES, Entries, Floats, Ints
from edt.learning.knowledge import Cluster, Knowledge, Log
from edt.learning.loads import folded
from edt.learning.options import Options

SCALES = np.array(list(FEATURES.values()))

UNSURE = 1.0
"""The difference, in scales, to a cluster of which a feature is not known."""

NEAR = 1.0
"""Entries within this distance of a cluster, in scales, belong to it; further ones do if others of it lie as far."""


def learn(
    entries: Entries, *, base: Knowledge | None = None, options: Options | None = None, log: Log | None = None
) -> Knowledge:
    """Learns from the entries of a log, on top of what is known.

    Args:
        entries: what was logged.
        base: what was learned before; its options hold.
        options: of a beginning without a base.
        log: what the entries are of, by which it is known to have been learned from.
    """
    known = base or Knowledge(options or Options())
    if not len(entries):
        return known
    clusters = list(known.clusters)
    labels = assigned(entries, clusters)
    for label in range(len(clusters)):
        clusters[label] = grown(clusters[label], entries.chosen(np.flatnonzero(labels == label)), known.options)
    new = kinds(entries.chosen(np.flatnonzero(labels < 0)), known.options)
    clusters += [grown(nothing(), part, known.options) for part in new]
    return replace(known, clusters=clusters, logs=noted(known, log, len(entries)) if log else known.logs)


def nothing() -> Cluster:
    """A cluster without entries."""
    return Cluster(np.zeros(len(FEATURES)), np.full(len(FEATURES), np.nan), 0.0, [])


def kinds(entries: Entries, options: Options) -> list[Entries]:
    """The entries in clusters; those of which different features are known are of different ones."""
    found = []
    known = np.isfinite(entries.features)
    for mask in np.unique(known, axis=0):
        part = entries.chosen(np.flatnonzero((known == mask).all(axis=1)))
        labels = partition((part.features / SCALES)[:, mask], options.most_clusters, options.seed).labels
        found += [part.chosen(np.flatnonzero(labels == label)) for label in range(int(labels.max()) + 1)]
    return found


def assigned(entries: Entries, clusters: list[Cluster]) -> Ints:
    """The nearest cluster of each entry, -1 where none is near."""
    if not clusters:
        return np.full(len(entries), -1, dtype=np.int64)
    distances = np.stack([distance(entries, cluster.mean) for cluster in clusters], axis=1)
    nearest = distances.argmin(axis=1)
    reach = np.array([max(cluster.reach, NEAR) for cluster in clusters])
    return np.where(distances.min(axis=1) <= reach[nearest], nearest, -1)


def distance(entries: Entries, centroid: Floats) -> Floats:
    """[entries]: how far each is from a centroid, by what is known of the entry, as the core has it."""
    difference = np.where(np.isfinite(centroid), (entries.features - centroid) / SCALES, UNSURE)
    difference = np.where(np.isfinite(entries.features), difference, 0.0)
    found: Floats = np.sqrt((difference**2).sum(axis=1))
    return found


def grown(cluster: Cluster, entries: Entries, options: Options) -> Cluster:
    """The cluster with further entries."""
    if not len(entries):
        return cluster
    known = np.isfinite(entries.features)
    sums = np.where(known, entries.features, 0.0).sum(axis=0)
    count = cluster.known + known.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean = (cluster.known * np.nan_to_num(cluster.mean) + sums) / count
    classes = folded(cluster.classes, entries, options.tolerance, options.most_loads)
    reach = max(cluster.reach, float(distance(entries, mean).max()))
    return Cluster(count, mean, reach, classes)


def noted(known: Knowledge, log: Log, entries: int) -> list[Log]:
    """The logs that were learned from, this one among them."""
    before = known.log(log.name)
    now = replace(log, entries=entries + (before.entries if before else 0))
    return [each for each in known.logs if each.name != log.name] + [now]

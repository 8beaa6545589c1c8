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

NEAR = 1.0
"""Entries within this distance of a cluster, in scales, belong to it; further ones do if others of it lie as far."""


def learn(
    entries: Entries, *, base: Knowledge | None = None, options: Options | None = None, log: str = ""
) -> Knowledge:
    """Learns from the entries of a log, on top of what is known.

    Args:
        entries: what was logged.
        base: what was learned before; its options hold.
        options: of a beginning without a base.
        log: the name of the log, by which it is known to have been learned from.
    """
    known = base or Knowledge(options or Options())
    if not len(entries):
        return known
    clusters = list(known.clusters)
    labels = assigned(entries, clusters)
    for label in range(len(clusters)):
        clusters[label] = grown(clusters[label], entries.chosen(np.flatnonzero(labels == label)), known.options)
    new = entries.chosen(np.flatnonzero(labels < 0))
    if len(new):
        parts = partition(scaled(new), known.options.most_clusters, known.options.seed).labels
        empty = Cluster(np.zeros(len(FEATURES)), np.full(len(FEATURES), np.nan), 0.0, [])
        members = [np.flatnonzero(parts == part) for part in range(int(parts.max()) + 1)]
        clusters += [grown(empty, new.chosen(which), known.options) for which in members]
    return replace(known, clusters=clusters, logs=noted(known, log, entries))


def scaled(entries: Entries) -> Floats:
    """[entries, features] in scales; what is not known counts as the mean of what is."""
    features = entries.features
    known = np.isfinite(features)
    means = np.where(known, features, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    found: Floats = np.where(known, features, means) / SCALES
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
    """[entries]: how far each is from a centroid, by what is known of both."""
    difference = np.nan_to_num((entries.features - centroid) / SCALES)
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


def noted(known: Knowledge, name: str, entries: Entries) -> list[Log]:
    """The logs that were learned from, this one among them."""
    before = known.log(name) or Log(name, 0, -np.inf)
    now = Log(name, before.entries + len(entries), max(before.last_s, float(entries.began_s[-1])))
    return [log for log in known.logs if log.name != name] + [now]

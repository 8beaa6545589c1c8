"""Clusters of log entries, by k-means++ and by hierarchy, judged by the Calinski-Harabasz index [ASM section 4.1.1]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans

from edt.learning.entries import Floats, Ints

RESOLUTION = 0.25
"""Differences of features below this, in their scales, say nothing: nobody knows a round trip time better."""

MOST_POINTS = 4_000
"""Most points for the hierarchy, which needs the distances of all pairs."""


@dataclass(frozen=True)
class Partition:
    """A division of points into clusters."""

    labels: Ints
    """[points]: the cluster of each, from 0."""
    index: float
    """The index; NaN for one cluster, which has none."""
    method: str
    """What found it."""


def partition(points: Floats, most: int, seed: int) -> Partition:
    """The division of points [points, features] with the largest index, of both methods and all numbers of clusters."""
    cells, place = np.unique(np.round(points / RESOLUTION), axis=0, return_inverse=True)
    place = place.reshape(-1)
    weights = np.bincount(place).astype(np.float64)
    centres = np.stack([np.bincount(place, weights=column) for column in points.T], axis=1) / weights[:, None]
    candidates = [
        Partition(labels, index(centres, weights, labels), method)
        for k in range(2, min(most, len(cells)) + 1)
        for method, labels in divided(centres, weights, k, seed)
    ]
    one = Partition(np.zeros(len(cells), dtype=np.int64), float("nan"), "one")
    # One cluster has no index: it is right where all points are within one scale of their mean.
    best = one if is_one(centres, weights) else max(candidates, key=lambda found: found.index)
    return Partition(best.labels[place], best.index, best.method)


def divided(centres: Floats, weights: Floats, k: int, seed: int) -> list[tuple[str, Ints]]:
    """What both methods make of weighed points."""
    found = KMeans(k, init="k-means++", n_init=10, random_state=seed).fit(centres, sample_weight=weights)
    both = [("k-means++", renumbered(found.labels_))]
    if len(centres) <= MOST_POINTS:
        # Unweighted pair group method with arithmetic mean.
        both.append(("hierarchical", renumbered(fcluster(linkage(centres, "average"), k, "maxclust"))))
    return both


def renumbered(labels: Ints) -> Ints:
    """The same clusters, numbered from 0 without gaps."""
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)


def is_one(points: Floats, weights: Floats) -> bool:
    """Whether no point is further than one scale from the mean of all."""
    mean = np.average(points, axis=0, weights=weights)
    return bool(np.linalg.norm(points - mean, axis=1).max() <= 1)


def index(points: Floats, weights: Floats, labels: Ints) -> float:
    """The Calinski-Harabasz index [ASM eq. 4 to 6, where the printed forms of the two variations are interchanged].

    Each point has at least the variation of half the resolution: without it, more clusters would always be better in
    logs that repeat the same transfers.
    """
    n, m = float(weights.sum()), int(labels.max()) + 1
    sizes = np.bincount(labels, weights=weights)
    means = np.stack([np.bincount(labels, weights=weights * column) for column in points.T], axis=1) / sizes[:, None]
    overall = np.average(points, axis=0, weights=weights)
    within = float((weights * ((points - means[labels]) ** 2).sum(axis=1)).sum()) + n * (RESOLUTION / 2) ** 2
    between = float((sizes * ((means - overall) ** 2).sum(axis=1)).sum())
    return between / (m - 1) / (within / max(n - m, 1.0))

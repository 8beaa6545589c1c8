"""How knowledge is learned. What was learned with is kept beside it, because an update goes on in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Options:
    """The choices that the offline analysis leaves open."""

    axes: Literal["log2", "raw"] = "log2"
    """On which axes the splines run. The paper's are raw; doublings matter more than differences."""
    grid: Literal["integer", "measured"] = "integer"
    """At which settings surfaces are given: all whole numbers between those that were measured, or only the latter."""
    most_clusters: int = 32
    """Most clusters that one call adds."""
    most_loads: int = 64
    """Most load classes of a cluster; the most similar are merged beyond that."""
    tolerance: float = 0.1
    """Loads whose throughputs differ by less than a factor of 2 to this power, in the mean, are one class."""
    seed: int = 0
    """Seeds k-means++ and the points that are tried for sampling: the same logs give the same knowledge."""

    def __post_init__(self) -> None:
        if self.axes not in ("log2", "raw") or self.grid not in ("integer", "measured"):
            raise ValueError(f"there are no axes `{self.axes}` with a grid `{self.grid}`")
        if self.most_clusters < 1 or self.most_loads < 1 or not 0 <= self.tolerance < 10:
            raise ValueError(f"{self.most_clusters} clusters, {self.most_loads} loads, {self.tolerance}: out of range")

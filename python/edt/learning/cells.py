"""Sufficient statistics of repeated entries: for each setting how many there are, their mean and their variation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from edt.learning.entries import Entries, Floats, Ints


@dataclass(frozen=True)
class Cells:
    """One row for each setting. What further entries add needs no old ones [ASM section 4]."""

    settings: Ints
    """[cells, 3]: parallelism, concurrency, pipelining; ascending."""
    count: Floats
    """[cells]: entries."""
    mean: Floats
    """[cells]: mu of their throughputs in bytes per second [ASM eq. 13]."""
    squares: Floats
    """[cells]: the sum of their squared differences from it, N sigma^2 [ASM eq. 14]."""

    def __len__(self) -> int:
        return len(self.count)

    @property
    def codes(self) -> Ints:
        """[cells]: a number for each setting."""
        found: Ints = self.settings @ np.array([1 << 32, 1 << 16, 1], dtype=np.int64)
        return found

    @property
    def entries(self) -> int:
        """Entries of all settings."""
        return int(self.count.sum())

    @classmethod
    def of(cls, entries: Entries) -> Cells:
        """The statistics of some entries."""
        ones = np.ones(len(entries))
        return cls.merged([cls(entries.settings, ones, entries.throughput, 0.0 * ones)])

    @classmethod
    def merged(cls, parts: Iterable[Cells]) -> Cells:
        """The statistics of all entries behind some statistics."""
        every = list(parts)
        settings, place = np.unique(np.concatenate([part.settings for part in every]), axis=0, return_inverse=True)
        place = place.reshape(-1)
        counts, means = np.concatenate([part.count for part in every]), np.concatenate([part.mean for part in every])
        count = np.bincount(place, weights=counts).astype(np.float64)
        mean = np.bincount(place, weights=counts * means) / count
        within = np.concatenate([part.squares for part in every])
        squares = np.bincount(place, weights=within + counts * (means - mean[place]) ** 2)
        return cls(settings, count, mean, squares.astype(np.float64))

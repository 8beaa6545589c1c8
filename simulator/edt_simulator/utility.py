"""Utilities and optima of the papers, vectorised with NumPy; rates in bits per second, loss as a share, any shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Reals = NDArray[np.float64]


def edt_utility(
    throughput: ArrayLike, concurrency: ArrayLike, loss: ArrayLike = 0.0, *, k: float = 1.02, b: float = 10.0
) -> Reals:
    """Answers throughput / k^concurrency - b * loss [EDT section IV-B], in the unit of `throughput`.

    The paper leaves the unit open, and `b` weighs loss against it: with throughput as a share of the bandwidth, b = 10
    makes 1 % of loss cost a tenth of the bandwidth's worth; beside bits per second, loss would not count at all.
    """
    kept = np.asarray(throughput, np.float64) * np.power(k, -np.asarray(concurrency, np.float64))
    return np.asarray(kept - b * np.asarray(loss, np.float64))


def automdt_utility(throughput: ArrayLike, concurrency: ArrayLike, *, k: float = 1.02) -> Reals:
    """Sums throughput / k^concurrency over the stages, the last axis: [..., 3] gives [...] [AutoMDT section IV-B]."""
    return np.asarray(edt_utility(throughput, concurrency, k=k).sum(axis=-1))


def edt_optimum(bandwidth_bps: ArrayLike, stream_bps: ArrayLike) -> Reals:
    """Answers CC* = BW / TPT, the concurrency that just fills the link [EDT section IV-E]."""
    return np.asarray(np.asarray(bandwidth_bps, np.float64) / np.asarray(stream_bps, np.float64))


def edt_maximum(bandwidth_bps: ArrayLike, stream_bps: ArrayLike, *, k: float = 1.02) -> Reals:
    """Answers R_max = BW / k^CC* [EDT section IV-E], in the unit of `bandwidth_bps`.

    Where CC* is beyond 1 / ln k (50.5 streams with k = 1.02), fewer streams than CC* have more utility than this.
    """
    return edt_utility(bandwidth_bps, edt_optimum(bandwidth_bps, stream_bps), k=k)


def automdt_optimum(capacity_bps: ArrayLike, stream_bps: ArrayLike) -> Reals:
    """Answers n_i* = b / TPT_i, b the least capacity of the stages: [..., 3] gives [..., 3] [AutoMDT section IV-A]."""
    bottleneck = np.asarray(capacity_bps, np.float64).min(axis=-1, keepdims=True)
    return np.asarray(bottleneck / np.asarray(stream_bps, np.float64))


def automdt_maximum(capacity_bps: ArrayLike, stream_bps: ArrayLike, *, k: float = 1.02) -> Reals:
    """Answers R_max = b * sum of k^-n_i*: [..., 3] gives [...] [AutoMDT section IV-E]."""
    bottleneck = np.asarray(capacity_bps, np.float64).min(axis=-1, keepdims=True)
    return automdt_utility(bottleneck, automdt_optimum(capacity_bps, stream_bps), k=k)


def effective_stream_bps(scenarios: NDArray[np.void]) -> Reals:
    """Answers what one stream or worker moves by each scenario's start, with its window and files: [scenarios, 3]."""
    rates = scenarios["stream_bps"].astype(np.float64)
    overheads = scenarios["file_overhead_s"].astype(np.float64)
    rtt_s = scenarios["rtt_s"]
    window_bps = np.full(rtt_s.shape, np.inf)
    np.divide(8.0 * scenarios["window_bytes"], rtt_s, out=window_bps, where=rtt_s > 0.0)
    rates[:, 1] = np.minimum(rates[:, 1], window_bps)
    overheads[:, 1] += scenarios["file_round_trips"] * rtt_s
    return np.asarray(rates / (1.0 + overheads * rates / (8.0 * scenarios["file_bytes"][:, None])))

"""Points of the grid, the steps and the shares as tests make them by hand."""

from __future__ import annotations

from typing import Any

import verdicts
from cells import Cell
from points import Point

RATE_BPS = 1e9


def cell(**changes: Any) -> Cell:
    """A cell of the grid, capped at a fifth."""
    return Cell(**{"congestion": "cubic", "rate_mbps": 1000, "rtt_ms": 20, "loss": 0.0, "cap": 5, **changes})


def followed(*intervals: tuple[float, float], seconds: float = 1.0, rate_bps: float = RATE_BPS) -> list[dict[str, Any]]:
    """A timeline of intervals of this length: the share of the rate, and the streams."""
    return [
        {
            "elapsed_s": number * seconds,
            "throughput": {"network": share * rate_bps / 8},
            "concurrency": {"network": streams},
            "loss": None,
            "overruled": False,
        }
        for number, (share, streams) in enumerate(intervals, start=1)
    ]


def point(name: str, *intervals: tuple[float, float], **more: Any) -> Point:
    """A transfer that was measured."""
    timeline = followed(*intervals)
    ends = [sample["elapsed_s"] for sample in timeline]
    return {"name": name, "seed": 0, "build": "b", "timeline": timeline, "intervals": ends, **more}


def good(share: float = 1.0, streams: float = 0.0) -> tuple[float, float]:
    """An interval whose utility is its share, as long as there are no streams."""
    return share, streams


def worth(sample: dict[str, Any]) -> float:
    """The utility over the path of these tests."""
    return verdicts.utility_over(RATE_BPS)(sample)


def constants(each: Cell, best: int = 5) -> list[Point]:
    """Transfers with all constants of a cell, of which one is best; streams in excess of it cost nothing."""
    return [point(f"fixed {count}", *[good(1.0 if count == best else 0.6)] * 12) for count in each.constants]

"""What is known of one path: the estimates of the exploration phase, as `edt explore` keeps them."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any, Literal

STAGES = ("read", "network", "write")
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class PathEstimate:
    """The estimates of one path; tuples hold the network stage alone, or read, network and write."""

    source: str = ""
    destination: str = ""
    stages: Literal[1, 3] = 1
    bandwidth: tuple[float, ...]
    """Bytes per second that a stage moves at most: max T_n [EDT §IV-E, AutoMDT §IV-A]."""
    stream_rate: tuple[float, ...]
    """Bytes per second that one stream or worker moves at most: max T_n / n."""
    buffers: tuple[float, float] = (64e6, 64e6)
    """Bytes of the sender's and the receiver's buffer."""
    rtt_s: float = 0.03
    """Round trip time in seconds."""
    k: float = 1.02
    """K of the utility."""

    def __post_init__(self) -> None:
        for name in ("bandwidth", "stream_rate"):
            values = getattr(self, name)
            if len(values) != self.stages or not all(math.isfinite(value) and value > 0 for value in values):
                raise ValueError(f"`{name}` must hold {self.stages} positive rates, not {values}")
        if not (1 < self.k < 2 and 0 <= self.rtt_s < 100 and min(self.buffers) > 0):
            raise ValueError(f"k {self.k}, round trip {self.rtt_s} s and buffers {self.buffers} make no path")

    @property
    def bottleneck(self) -> float:
        """Bytes per second that the whole path moves at most: b = min B_i."""
        return min(self.bandwidth)

    @property
    def optimum(self) -> tuple[float, ...]:
        """The concurrency of each stage that just fills the path: n_i* = b / TPT_i, at least 1."""
        return tuple(max(1.0, self.bottleneck / rate) for rate in self.stream_rate)

    @property
    def r_max(self) -> float:
        """The utility there, in bytes per second: sum of b / k^n_i*."""
        return float(sum(self.bottleneck * self.k**-streams for streams in self.optimum))

    @classmethod
    def read(cls, file: str | os.PathLike[str]) -> PathEstimate:
        """Reads a path file; a ValueError names the file and what is wrong with it."""
        try:
            with open(file, encoding="utf-8") as stream:
                return cls.from_dict(json.load(stream))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"could not use the path file `{os.fspath(file)}`: {error}") from error

    @classmethod
    def from_dict(cls, text: dict[str, Any]) -> PathEstimate:
        """Takes the content of a path file."""
        if text.get("format") != FORMAT:
            raise ValueError(f"its format is {text.get('format')!r}, not {FORMAT}")
        stages: Literal[1, 3] = 3 if text["stages"] == 3 else 1
        names = STAGES if stages == 3 else ("network",)
        estimate = text["estimate"]
        rtt_ms = estimate.get("rtt_ms")
        buffers = text["buffers"]
        return cls(
            source=text["source"],
            destination=text["destination"],
            stages=stages,
            bandwidth=tuple(float(estimate["bandwidth"][name]) for name in names),
            stream_rate=tuple(float(estimate["stream_rate"][name]) for name in names),
            buffers=(float(buffers["sender"] or 64e6), float(buffers["receiver"] or 64e6)),
            rtt_s=0.03 if rtt_ms is None else rtt_ms / 1e3,
            k=float(text["k"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """What an agent file says of the path it was trained for."""
        return {
            "source": self.source,
            "destination": self.destination,
            "bandwidth": list(self.bandwidth),
            "stream_rate": list(self.stream_rate),
            "optimum": list(self.optimum),
            "r_max": self.r_max,
        }

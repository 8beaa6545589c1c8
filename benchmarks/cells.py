"""The grid of paths over which optimizers are compared, and how many streams each of them wants in theory."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

from experiments.agents import K

RATES_MBPS = (50, 200, 1000, 2000)
RTTS_MS = (1, 20, 80, 200)
LOSSES = (0.0, 0.001)
CAPS = (None, 5, 20)
"""A stream is given this part of the rate; `None`: all that TCP makes of it."""

MOST_AT_ONCE = 8
"""Paths that are measured side by side, if they are slow."""
MOST_TOGETHER_MBPS = 600
"""What their rates may sum up to: two cores carry more, but not without slowing down both ends."""

MOST_STREAMS = 64
"""What edt allows an optimizer."""
SEGMENT = 8948
"""Bytes of a segment at the MTU of the paths, 9000."""
SEND_BUFFER = 4 << 20
"""Bytes of a connection's buffer at most: `net.ipv4.tcp_wmem` of Linux."""
ALL_THE_SAME = (1, 2, 4, 8)
"""Constants that are measured in every cell."""


@dataclass(frozen=True)
class Cell:
    """One path of the grid."""

    congestion: str
    rate_mbps: int
    rtt_ms: int
    loss: float
    cap: int | None

    @property
    def name(self) -> str:
        """As results and `--cells` name it."""
        cap = f"cap{self.cap}" if self.cap else "nocap"
        return f"{self.congestion}-{self.rate_mbps}M-{self.rtt_ms}ms-loss{100 * self.loss:g}-{cap}"

    @property
    def rate_bps(self) -> float:
        """The bottleneck's rate."""
        return 1e6 * self.rate_mbps

    @property
    def overrides(self) -> dict[str, str]:
        """The options of the path emulator."""
        return {
            "rate": f"{self.rate_mbps}M",
            "rtt": f"{self.rtt_ms}ms",
            "loss": f"{self.loss:g}",
            "stream_rate": f"{self.rate_bps / self.cap:.0f}" if self.cap else "none",
            "congestion": self.congestion,
        }

    @property
    def stream_bps(self) -> float:
        """What one stream reaches: the least of the rate, its cap, a buffer each round trip, and what losses leave."""
        trip_s = self.rtt_ms / 1e3
        limits = [self.rate_bps, 8 * SEND_BUFFER / trip_s]
        if self.cap:
            limits.append(self.rate_bps / self.cap)
        if self.loss and self.congestion != "bbr":
            limits.append(8 * SEGMENT * window(self.congestion, self.loss, trip_s) / trip_s)
        return min(limits)

    @property
    def optimum(self) -> int:
        """The streams of the largest utility: those whose rates add up to the path's, or 50 where no number does.

        U = min(1, n r / C) / K^n rises up to n = C / r or n = 1 / ln K = 50.5, whichever is less, and falls from there.
        """
        part = self.stream_bps / self.rate_bps
        worth = {streams: min(1.0, streams * part) / K**streams for streams in range(1, MOST_STREAMS + 1)}
        # 50 and 51 are equal but for what rounding leaves.
        return next(streams for streams, each in worth.items() if each >= (1 - 1e-9) * max(worth.values()))

    @property
    def constants(self) -> list[int]:
        """The constants that are measured: those of every cell, and some around the optimum."""
        best = self.optimum
        around = set(ALL_THE_SAME)
        if 2 < best <= 8:
            around |= {best, best + 1, best + 2}
        elif best > 8:
            around |= {best, min(MOST_STREAMS, round(1.2 * best))}
            # What losses and buffers leave to a stream is known less exactly than a cap.
            if self.stream_bps * (self.cap or 1) < 0.99 * self.rate_bps:
                around.add(round(0.6 * best))
        return sorted(around)


def window(congestion: str, loss: float, trip_s: float) -> float:
    """The mean window in segments under random losses of a share `loss` [RFC 9438 sections 4.3 and 5.1]."""
    reno = math.sqrt(1.5 / loss)
    if congestion == "reno":
        return reno
    # Equation 5 with C = 0.4 and beta = 0.7; where Reno would have more, CUBIC keeps up with it.
    return float(max(reno, 1.054 * (trip_s / loss) ** 0.75))


def grid(congestions: Iterable[str]) -> list[Cell]:
    """All cells, in an order in which the first ones are of all kinds: a run that ends early tells of the whole."""
    every = [Cell(*parts) for parts in itertools.product(congestions, RATES_MBPS, RTTS_MS, LOSSES, CAPS)]
    random.Random("grid").shuffle(every)
    return every


QUICK = (
    *("50M-1ms-loss0-nocap", "50M-20ms-loss0.1-cap5", "50M-80ms-loss0-cap20", "50M-200ms-loss0-nocap"),
    *("200M-1ms-loss0-cap20", "200M-20ms-loss0-cap5", "200M-80ms-loss0.1-nocap"),
    *("1000M-20ms-loss0-cap20", "1000M-80ms-loss0-cap5", "2000M-20ms-loss0-nocap"),
)
"""The cells of a quick run: every value of every parameter is in at least one."""


def chosen(cells: Iterable[Cell], pattern: str | None, *, quick: bool) -> list[Cell]:
    """The cells whose names hold a regular expression; without one all, or those of a quick run."""
    if pattern is not None:
        return [cell for cell in cells if re.search(pattern, cell.name)]
    return [cell for cell in cells if not quick or cell.name.split("-", 1)[1] in QUICK]

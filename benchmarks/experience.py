"""Transfers that are made to be learned from: constants under several loads, with a day between loads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

RISING = (4, 6, 8, 12, 16, 20, 24)
LOADS = {
    "medium": (*RISING, *reversed(RISING), *RISING),
    "light": 2 * (2, 4, 6, 8, 12, 16, 20, 24),
}
"""Under which they are made, the oldest load first, and the constants under each, in the order in which they run.

HARP and ASM tell loads apart by time, by gaps of three hours and of one, so that each load needs a time of its own.
Beside others more streams pay, and throughput varies so much that HARP needs three passes to see it. They rise and fall
in turn: after one of many streams others need long to get back what they had, and one of few would seem to move much.
`ann` wants 30 transfers in all.
"""
FIRST = 8
"""Streams of a transfer before each load that is left out of the history.

Alone the others fill every queue, and no round trip is as long as the first. HARP takes for one group what is within a
quarter of its first row, and would see two loads in one.
"""
SECONDS = 3.2
"""How long each takes at the path's rate: with fewer files of 16 MiB than streams there is nothing to learn."""
DAY_S = 86400


def count() -> int:
    """Transfers in all."""
    return sum(len(streams) for streams in LOADS.values())


def age(database: Path) -> None:
    """Makes every transfer of a history a day older."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"UPDATE transfers SET began_s = began_s - {DAY_S}, ended_s = ended_s - {DAY_S}")

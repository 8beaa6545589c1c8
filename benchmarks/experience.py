"""Transfers that are made to be learned from: constants under several loads, with a day between loads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

LOADS = {
    "medium": 2 * (4, 6, 8, 12, 16, 20, 24),
    "light": 2 * (2, 4, 6, 8, 12, 16, 20, 24),
}
"""Under which they are made, the oldest load first, and the constants under each, in the order in which they run.

HARP and ASM tell loads apart by time, by gaps of three hours and of one, so that each load needs a time of its own.
`ann` wants 30 transfers in all.
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

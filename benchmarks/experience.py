"""Transfers that are made to be learned from: constants under several loads, with a day between loads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

LOADS = ("medium", "light")
"""Under which they are made; the last one is the newest.

HARP and ASM tell loads apart by time, by gaps of three hours and of one, and so need each load at a time of its own.
"""
STREAMS = (2, 4, 6, 8, 12, 16, 20, 24)
"""Constants under each load: up to where a stream more brings little beside those of others too."""
PASSES = 2
"""How often each of them is made under each load; `ann` wants 30 transfers in all."""
SECONDS = 3.2
"""How long each takes at the path's rate: with fewer files of 16 MiB than streams there is nothing to learn."""
DAY_S = 86400


def streams() -> tuple[int, ...]:
    """The constants under one load, in the order in which they are made."""
    return PASSES * STREAMS


def count() -> int:
    """Transfers in all."""
    return len(LOADS) * len(streams())


def age(database: Path) -> None:
    """Makes every transfer of a history a day older."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"UPDATE transfers SET began_s = began_s - {DAY_S}, ended_s = ended_s - {DAY_S}")

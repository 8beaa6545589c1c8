"""What the history of a test has kept."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from harness import Edt, Outcome


def ok(outcome: Outcome) -> str:
    assert outcome.code == 0, outcome.err
    return outcome.out


def transfers(edt: Edt) -> list[dict[str, Any]]:
    """The transfers that are kept, oldest first."""
    lines = ok(edt.run("history", "export", "--format", "json")).splitlines()
    return [json.loads(line) for line in lines]


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Looks into the database without edt."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()

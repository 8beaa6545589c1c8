"""Keeps every finished measurement of an experiment on disk, so that one that was stopped goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Point = dict[str, Any]


class OutOfTime(Exception):
    """The time that was given is over, and there is more to measure."""


class Points:
    """The finished points of one experiment. What was measured under another identity is left out.

    At or after `deadline`, on the clock of `time.monotonic`, nothing more is measured.
    """

    def __init__(self, file: Path, identity: str, *, resume: bool, deadline: float | None = None) -> None:
        self.file = file
        self.deadline = deadline
        self.identity = identity
        self.found: dict[str, Point] = self.load() if resume else {}

    def load(self) -> dict[str, Point]:
        """What an earlier run of the same identity finished."""
        try:
            document = json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}
        found: dict[str, Point] = document["points"] if document.get("identity") == self.identity else {}
        return found

    def measured(self, key: str, measure: Callable[[], Point]) -> Point:
        """The point of that key: what was found before, or what `measure` finds now, which is on disk at once."""
        if key not in self.found:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise OutOfTime
            self.found[key] = measure()
            self.save()
        return self.found[key]

    def save(self) -> None:
        """Replaces the file as a whole, so that a stop at any moment leaves a complete one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps({"identity": self.identity, "points": self.found}))
        fresh.replace(self.file)

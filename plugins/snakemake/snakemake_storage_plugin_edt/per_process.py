"""What each process has for itself: threads and locks are not those of the process that it was forked from."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Something that every process makes anew. Threads may share it.

    A lock that a thread held when the process was forked is held for ever in the new one, where that thread is not.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """`make` is called once in each process, when that first asks."""
        self._make = make
        self._made: dict[int, T] = {}

    @property
    def own(self) -> T:
        """What this process has. What others made is never let go of here: closing it could end it for them."""
        process = os.getpid()
        if process in self._made:
            return self._made[process]
        # Where two threads come here at the same time, both take what the first one has made.
        return self._made.setdefault(process, self._make())

"""Runs measurements side by side in threads, as many as the machine carries, and ends them all when asked to end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from processes import Measured

T = TypeVar("T")


def together(jobs: Sequence[Callable[[threading.Event], T]]) -> list[T]:
    """What each job returns; the first one that failed tells why, once all have ended.

    A job is given an event that is set when it should end; the processes that are measured are killed by then.
    """
    over = threading.Event()
    with ThreadPoolExecutor(max(1, len(jobs))) as pool:
        futures = [pool.submit(job, over) for job in jobs]
        try:
            wait(futures)
        except BaseException:
            over.set()
            for process in list(Measured.running):
                process.kill()
            raise
    return [future.result() for future in futures]


class Room:
    """What runs side by side: so much in all, in so many places. What fits passes all but what needs the whole."""

    def __init__(self, size: float, places: int) -> None:
        self.size = self.left = size
        self.places = list(range(places))
        self.waiting: dict[object, float] = {}
        self.changed = threading.Condition()

    @contextmanager
    def taken(self, part: float, *, alone_first: Callable[[], None] | None = None) -> Iterator[int]:
        """Waits for so much of the room, at most all of it, and has it for the time of a `with` block; its place.

        `alone_first` is done before, with nothing beside it.
        """
        part = min(part, self.size)
        held = self.size if alone_first else part
        place = self.enter(held)
        try:
            if alone_first:
                alone_first()
                self.give(held - part)
                held = part
            yield place
        finally:
            self.places.append(place)
            self.give(held)

    def enter(self, part: float) -> int:
        """Waits for its turn, and for so much of the room."""
        mine = object()
        with self.changed:
            self.waiting[mine] = part
            self.changed.wait_for(lambda: self.is_next(mine))
            del self.waiting[mine]
            self.left -= part
            place = self.places.pop()
            self.changed.notify_all()
            return place

    def is_next(self, mine: object) -> bool:
        """Whether it may enter now."""
        before = itertools.takewhile(lambda each: each is not mine, self.waiting)
        fits = bool(self.places) and self.waiting[mine] <= self.left
        return fits and all(self.waiting[each] < self.size for each in before)

    def give(self, part: float) -> None:
        """Gives so much back."""
        with self.changed:
            self.left += part
            self.changed.notify_all()

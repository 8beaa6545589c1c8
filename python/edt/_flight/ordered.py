"""Several streams fetched at once by threads, and given out one after another, while little of them waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as _pa


_PATIENCE_S = 5.0
"""How long to wait for threads that were told to end."""


class Ordered:
    """The batches of all parts in order. Parts are begun in the same order, so the one that is given out always moves.

    Each thread lets its share of the limit wait, and then reads no further, which holds the service back.
    """

    def __init__(
        self,
        batches: Callable[[int], Iterator[_pa.RecordBatch]],
        cancel: Callable[[], None],
        parts: int,
        threads: int,
        limit_bytes: int,
    ) -> None:
        """`batches` fetches a part, and `cancel` ends all that are being fetched."""
        self._batches, self._cancel = batches, cancel
        self._threads, self._share = threads, max(1, limit_bytes // threads)
        self._changed = threading.Condition()
        self._waiting: list[deque[_pa.RecordBatch]] = [deque() for _ in range(parts)]
        self._held = [0] * parts
        self._complete = [False] * parts
        self._next = 0
        self._stopped = False
        self._failure: BaseException | None = None

    def __iter__(self) -> Iterator[_pa.RecordBatch]:
        """Gives out the batches; leaving early ends the threads."""
        threads = [threading.Thread(target=self._fetch, name="edt-flight", daemon=True) for _ in range(self._threads)]
        for thread in threads:
            thread.start()
        try:
            for part in range(len(self._waiting)):
                while (batch := self._take(part)) is not None:
                    yield batch
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            self._cancel()
            for thread in threads:
                # A service that does not even begin to answer keeps its thread, at most as long as the process.
                thread.join(_PATIENCE_S)

    def _fetch(self) -> None:
        try:
            while (part := self._begin()) is not None:
                for batch in self._batches(part):
                    if not self._put(part, batch):
                        return
                with self._changed:
                    self._complete[part] = True
                    self._changed.notify_all()
        except BaseException as failure:
            with self._changed:
                self._failure = self._failure or failure
                self._changed.notify_all()

    def _begin(self) -> int | None:
        with self._changed:
            if self._stopped or self._failure or self._next == len(self._waiting):
                return None
            self._next += 1
            return self._next - 1

    def _put(self, part: int, batch: _pa.RecordBatch) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._held[part] < self._share)
            self._waiting[part].append(batch)
            self._held[part] += batch.nbytes
            self._changed.notify_all()
            return not self._stopped

    def _take(self, part: int) -> _pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting[part] or self._complete[part] or self._failure)
            if self._waiting[part]:
                batch = self._waiting[part].popleft()
                self._held[part] -= batch.nbytes
                self._changed.notify_all()
                return batch
            if not self._complete[part] and self._failure:
                raise self._failure
            return None

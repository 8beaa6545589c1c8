"""Gathers what the tasks of an event loop ask for at about the same time, and hands it over as one batch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_storage_plugin_edt.query import Place

# How long a first request waits for others, in seconds: tasks of one round begin in one turn of the loop.
_WINDOW = 0.01

# The longest that it waits while questions about other objects are under way, in seconds.
_LONGEST = 2.0


@dataclass(eq=False)
class Request:
    """An object that is to be moved to or from a local path."""

    place: Place
    path: Path
    shown: str
    """The query as it is shown to people."""
    error: BaseException | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits for it any more."""
    done: threading.Event = field(default_factory=threading.Event)
    on_done: Callable[[], None] | None = None

    def end(self, error: BaseException | None = None) -> None:
        """Says what became of it; the first word counts."""
        if not self.done.is_set():
            self.error = error
            self.done.set()
            if self.on_done is not None:
                self.on_done()


class Batcher:
    """Hands requests over in batches. Any number of event loops, in any threads, may share one."""

    def __init__(self, carry_out: Callable[[list[Request]], None], name: str, busy: Callable[[], bool]) -> None:
        """`carry_out` runs on a thread of its own for each batch; `busy` says whether more requests are near."""
        self._carry_out = carry_out
        self._name = name
        self._busy = busy
        self._waiting: dict[asyncio.AbstractEventLoop, list[Request]] = {}

    async def submit(self, request: Request) -> None:
        """Waits until the request was carried out; raises what it failed with. Cancelling the task cancels it."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ended.done():
                ended.set_result(None)

        request.on_done = lambda: _call_soon(loop, wake)
        waiting = self._waiting.setdefault(loop, [])
        waiting.append(request)
        if len(waiting) == 1:
            loop.call_later(_WINDOW, self._hand_over, loop, loop.time() + _LONGEST)
        try:
            await ended
        except asyncio.CancelledError:
            request.cancelled.set()
            raise
        if request.error is not None:
            raise request.error

    def run(self, request: Request) -> None:
        """Carries one request out and waits; raises what it failed with."""
        self._guarded([request])
        request.done.wait()
        if request.error is not None:
            raise request.error

    def _hand_over(self, loop: asyncio.AbstractEventLoop, latest: float) -> None:
        if self._busy() and loop.time() < latest:
            loop.call_later(_WINDOW, self._hand_over, loop, latest)
            return
        batch = [request for request in self._waiting.pop(loop, []) if not request.cancelled.is_set()]
        if batch:
            try:
                threading.Thread(target=self._guarded, args=(batch,), name=self._name, daemon=True).start()
            except RuntimeError as error:  # the system has no more threads for this user
                for request in batch:
                    request.end(error)

    def _guarded(self, batch: list[Request]) -> None:
        try:
            self._carry_out(batch)
        except BaseException as error:  # whoever waits must hear of it
            for request in batch:
                request.end(error)
        for request in batch:
            request.end(RuntimeError(f"`{request.shown}` was left out of its batch"))


def _call_soon(loop: asyncio.AbstractEventLoop, wake: Callable[[], Any]) -> None:
    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:
        return  # the loop has ended, and nobody waits

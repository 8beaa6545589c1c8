"""Threads that wait for answers of storages beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_THREADS = 8


class Lookers:
    """The threads of one process. Any number of event loops may share them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="edt-look")
        self._looking = 0
        self._counting = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Runs what waits for a storage."""
        with self._counting:
            self._looking += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            with self._counting:
                self._looking -= 1

    def are_looking(self) -> bool:
        """Whether any of them is at work."""
        return self._looking > 0

"""Runs measurements side by side in threads, and ends them all when the benchmarks are asked to end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
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

"""Questions to storages. A session with an edt server is kept for a while: the next one takes one round trip."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from snakemake_storage_plugin_edt.query import SERVER, Place

if TYPE_CHECKING:
    import edt
    from edt import _edt

T = TypeVar("T")

# Seconds for which sessions are kept that nobody uses: a server takes a limited number of them, and jobs may be many.
_KEPT = 5.0

# Questions to one server that are under way at once.
_AT_ONCE = 8


class Questions:
    """Lists and describes. Threads may share it."""

    def __init__(self, options: Mapping[str, Any], retries: int) -> None:
        """`options` are those by which edt reaches the storage; it is asked so many times more while it is away."""
        self._options = dict(options)
        self._retries = retries
        self._sessions: dict[str, tuple[_edt.Files, float]] = {}
        self._connecting: dict[str, threading.Lock] = {}
        self._reaper: threading.Timer | None = None
        self._lock = threading.Lock()

    def list(self, directory: Place, *, recursive: bool) -> list[edt.Entry]:
        """The entries of a directory, or all below it, named relative to it."""
        import edt

        if directory.scheme in SERVER:
            rows = self._insisting(lambda: self._files(directory.root).list(directory.path, recursive))
            return [edt.Entry(*row) for row in rows]
        url = directory.url if directory.path else directory.root
        return self._insisting(lambda: edt.list(url, recursive=recursive, **self._options))

    def stat(self, place: Place) -> edt.Entry:
        """Describes an entry."""
        import edt

        if place.scheme in SERVER:
            return edt.Entry(*self._insisting(lambda: self._files(place.root).stat(place.path)))
        return self._insisting(lambda: edt.stat(place.url, **self._options))

    def followed(self, place: Place) -> tuple[int, int | None]:
        """Size and time of the file that a link leads to."""
        reader = self._insisting(lambda: self._files(place.root).open(place.path, (0, 0)))
        return reader.size, reader.modified_ns

    def _insisting(self, ask: Callable[[], T]) -> T:
        """Asks again, after growing pauses, while nobody answers."""
        import edt

        for attempt in range(self._retries):
            try:
                return ask()
            except (edt.UnreachableError, edt.ConnectionLostError, edt.ThrottledError):
                time.sleep(2.0**attempt)
        return ask()

    def _files(self, root: str) -> _edt.Files:
        from edt import _edt

        with self._lock:
            connecting = self._connecting.setdefault(root, threading.Lock())
        # Whoever asks another server does not wait for this one.
        with connecting:
            with self._lock:
                known = self._sessions.get(root)
            files = known[0] if known else _edt.Files(root, self._options, _AT_ONCE - 1, 0)
            with self._lock:
                self._sessions[root] = (files, time.monotonic())
                if self._reaper is None:
                    self._wake_later()
        return files

    def _wake_later(self) -> None:
        self._reaper = threading.Timer(_KEPT, self._drop_unused)
        self._reaper.daemon = True
        self._reaper.start()

    def _drop_unused(self) -> None:
        """Lets go of sessions that were not asked for a while; whoever is still using one keeps it until the answer."""
        with self._lock:
            since = time.monotonic() - _KEPT
            dropped = [root for root, (_, used) in self._sessions.items() if used <= since]
            unused = [self._sessions.pop(root) for root in dropped]
            self._reaper = None
            if self._sessions:
                self._wake_later()
        # Closing them takes a moment, in which nobody has to wait.
        unused.clear()

"""Questions to storages. A session with an edt server is kept for a while: the next one takes one round trip."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from snakemake_storage_plugin_edt.per_process import PerProcess
from snakemake_storage_plugin_edt.query import SERVER, Place

if TYPE_CHECKING:
    import edt
    from edt import _edt

T = TypeVar("T")

# Seconds for which sessions are kept that nobody uses: a server takes a limited number of them, and jobs may be many.
_KEPT = 5.0

# Questions to one server that are under way at once.
_AT_ONCE = 8


class _Sessions:
    """The sessions of one process with servers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while any of the others is looked at or changed, and for no longer."""
        self.open: dict[str, tuple[_edt.Files, float]] = {}
        self.connecting: dict[str, threading.Lock] = {}
        self.reaper: threading.Timer | None = None


class Questions:
    """Lists, describes and removes. Threads may share it, and a process that was forked has sessions of its own."""

    def __init__(self, options: Mapping[str, Any], retries: int) -> None:
        """`options` are those by which edt reaches the storage; it is asked so many times more while it is away."""
        self._options = dict(options)
        self._retries = retries
        self._sessions = PerProcess(_Sessions)

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

    def remove(self, place: Place, *, recursive: bool) -> None:
        """Removes an entry. It may be gone already: an attempt whose answer was lost may have removed it."""
        import edt

        with suppress(edt.NotFoundError):
            self._insisting(lambda: edt.remove(place.url, recursive=recursive, **self._options))

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

        sessions = self._sessions.own
        with sessions.lock:
            connecting = sessions.connecting.setdefault(root, threading.Lock())
        # Whoever asks another server does not wait for this one.
        with connecting:
            with sessions.lock:
                known = sessions.open.get(root)
            files = known[0] if known else _edt.Files(root, self._options, _AT_ONCE - 1, 0)
            with sessions.lock:
                sessions.open[root] = (files, time.monotonic())
                if sessions.reaper is None:
                    _wake_later(sessions)
        return files


def _wake_later(sessions: _Sessions) -> None:
    sessions.reaper = threading.Timer(_KEPT, _drop_unused, (sessions,))
    sessions.reaper.daemon = True
    sessions.reaper.start()


def _drop_unused(sessions: _Sessions) -> None:
    """Lets go of sessions that were not asked for a while; whoever is still using one keeps it until the answer."""
    with sessions.lock:
        since = time.monotonic() - _KEPT
        dropped = [root for root, (_, used) in sessions.open.items() if used <= since]
        unused = [sessions.open.pop(root) for root in dropped]
        sessions.reaper = None
        if sessions.open:
            _wake_later(sessions)
    # Closing them takes a moment, in which nobody has to wait.
    unused.clear()

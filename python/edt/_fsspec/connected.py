"""A file system that is one edt server: its connections and its names."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from edt import _edt
from edt._fsspec import place
from edt.options import Path, Size

_T = TypeVar("_T")
_R = TypeVar("_R")

# Connections of a process that forked: closing them in its child would end them for the process that uses them.
ABANDONED: list[_edt.Files | _edt.FileReader] = []


class Connected(AbstractFileSystem):
    """What the other parts of the file system ask: the server, and the names of its files."""

    root_marker = "/"
    sep = "/"
    service: str | None = None
    """The scheme of the service, where it is no edt server."""

    def __init__(
        self,
        host: str = "",
        port: int | None = None,
        *,
        tls: bool = False,
        connections: int = 8,
        read_ahead: Size = "64MiB",
        token_file: Path | None = None,
        plain: bool = False,
        known_hosts: Path | None = None,
        listings_expiry_time: float | None = 10,
        **options: Any,
    ) -> None:
        """Connects when it is first used.

        Args:
            host: Name or address of the server, or a bucket.
            port: Its port; default 7632.
            tls: Whether to encrypt even on this machine, as `edts://` does.
            connections: Ranges that are read at once, each over a connection of its own.
            read_ahead: Most bytes that each open file is read ahead.
            token_file: The file with the shared secret; default `EDT_TOKEN`, then the user's configuration directory.
            plain: Whether encryption may be left out beyond loopback, on both sides.
            known_hosts: Where pinned identities are kept; default in the user's configuration directory.
            listings_expiry_time: Seconds for which a listing is believed; `None` for ever.
            **options: Those of every fsspec file system, such as `use_listings_cache`.
        """
        if not host:
            raise ValueError("no server is named: write edt://host/path, or give host=...")
        super().__init__(listings_expiry_time=listings_expiry_time, **options)
        self._authority = host if self.service and port is None else _authority(host, port)
        self._scheme = self.service or ("edts" if tls else "edt")
        self.connect_options: dict[str, Any] = {"token_file": token_file, "plain": plain, "known_hosts": known_hosts}
        self._connections = connections
        self._read_ahead = _edt.parse_size(read_ahead)
        self._connecting: dict[int, threading.Lock] = {}
        """Held by those who connect, by process: what is held when a process is forked stays so in the new one."""
        self._state = object()
        """Another one after each change that this file system makes at the server."""
        self._native: tuple[int, _edt.Files] | None = None

    @property
    def native(self) -> _edt.Files:
        """The connections of this process to the server."""
        process = os.getpid()
        with self._connecting.setdefault(process, threading.Lock()):
            if self._native is not None and self._native[0] != process:
                ABANDONED.append(self._native[1])
                self._native = None
            if self._native is None:
                url = f"{self._scheme}://{self._authority}/"
                made = _edt.Files(url, self.connect_options, self._connections, self._read_ahead)
                self._native = (process, made)
            return self._native[1]

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return place.whole(place.split(stringify_path(path))[2])

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        scheme, authority, _ = place.split(path)
        if not scheme or not authority:
            return {}
        if scheme.startswith("edt+"):
            return {"host": authority}
        host, port = _host_and_port(authority)
        return {"host": host} | ({"port": port} if port else {}) | ({"tls": True} if scheme == "edts" else {})

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path."""
        return ("edt+" if self.service else "") + self.address(name)

    def address(self, name: str) -> str:
        """The URL of a path, as `edt.copy` takes it."""
        return f"{self._scheme}://{self._authority}{place.encoded(self.plain(name), self._scheme)}"

    def plain(self, path: str) -> str:
        """The path of a URL or path."""
        return str(self._strip_protocol(path))

    @property
    def fsid(self) -> str:
        """The server."""
        return f"{self._scheme}-{self._authority}"

    def at_once(self, work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
        """Does work on several items at once, as many as there are connections; the first error ends it."""
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(self._connections, len(items))) as threads:
            return list(threads.map(work, items))


def _authority(host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"


def _host_and_port(authority: str) -> tuple[str, int | None]:
    host, bracket, tail = authority.rpartition("]") if authority.startswith("[") else ("", "", authority)
    if not bracket:
        host, _, tail = tail.partition(":")
    port = tail.lstrip(":")
    return host.removeprefix("["), int(port) if port else None

"""Looking at the files of a server, with listings that are kept for a while."""

from __future__ import annotations

import errno
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Any

from edt import _edt
from edt._fsspec.connected import Connected
from edt._fsspec.place import Info, info_of, parent, relative
from edt.errors import (
    ConnectionLostError,
    InvalidInputError,
    PermissionDeniedError,
    ThrottledError,
    UnreachableError,
    UnsupportedError,
    WrongTypeError,
)


class Listed(Connected):
    """Lists, describes and finds."""

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **options: Any) -> list[Any]:
        """Lists a directory, or a file as itself; `refresh` asks the server whatever is known."""
        path = self.plain(path)
        infos = None if refresh else self.dircache.get(path)
        if infos is None:
            state = self._state
            infos = self._described(self.native.list(relative(path), False), path)
            if not _is_itself(infos, path):
                self._keep({path: infos}, state)
        return list(infos) if detail else [info["name"] for info in infos]

    def info(self, path: str, refresh: bool = False, **options: Any) -> Info:
        """Describes an entry; the file or directory that a link leads to."""
        path = self.plain(path)
        if not refresh:
            # They are sorted; one by one, a look at each entry of a large directory would take minutes.
            known = self.dircache.get(parent(path)) or ()
            at = bisect_left(known, path, key=lambda info: str(info["name"]))
            if at < len(known) and known[at]["name"] == path:
                return dict(known[at])
        return self._described([self.native.stat(relative(path))], "")[0]

    def found(self, path: str, refresh: bool = False) -> Info | None:
        """Describes an entry, or says that there is none; what the server cannot tell is an error."""
        try:
            return self.info(path, refresh=refresh)
        except (FileNotFoundError, WrongTypeError):
            return None

    def known(self, path: str) -> Info:
        """Describes an entry that has to be there."""
        found = self.found(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.plain(path))
        return found

    def exists(self, path: str, **options: Any) -> bool:
        """Whether there is an entry; a server that does not answer is an error."""
        return self.found(path) is not None

    def isdir(self, path: str) -> bool:
        """Whether there is a directory."""
        return (self.found(path) or {}).get("type") == "directory"

    def isfile(self, path: str) -> bool:
        """Whether there is a file."""
        return (self.found(path) or {}).get("type") == "file"

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> Any:
        """Lists all files below a path, by one request for the whole tree."""
        path = self.plain(path)
        if maxdepth is not None:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)
        state = self._state
        try:
            infos = self._described(self.native.list(relative(path), True), path)
        except (FileNotFoundError, WrongTypeError):
            return {} if detail else []
        if not _is_itself(infos, path):
            self._keep(_by_directory(path, infos), state)
            if withdirs:
                infos = [self.info(path), *infos]
        out = {info["name"]: info for info in infos if withdirs or info["type"] != "directory"}
        names = sorted(out)
        return {name: out[name] for name in names} if detail else names

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "omit", **options: Any
    ) -> Any:
        """Lists directories one after another; see `fsspec.AbstractFileSystem.walk`.

        By default those that are gone or may not be read are left out. What the server cannot tell is an error: where
        a part of the names passed for all of them, `glob` would find too little.
        """
        left_out = _raise_unless_left_out if on_error == "omit" else on_error
        return super().walk(path, maxdepth=maxdepth, topdown=topdown, on_error=left_out, **options)

    def modified(self, path: str) -> datetime:
        """When a file was written last, in UTC."""
        nanoseconds = self.info(path).get("mtime_ns")
        if nanoseconds is None:
            raise UnsupportedError(f"could not tell when `{path}` was modified", cause="the server does not know")
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=nanoseconds // 1000)

    def _described(self, rows: Iterable[_edt._Row], base: str) -> list[Info]:
        infos = sorted((info_of(row, base) for row in rows), key=lambda info: str(info["name"]))
        links = [info for info in infos if info["type"] == "link"]
        self.at_once(self._follow, links)
        return infos

    def _follow(self, info: Info) -> None:
        """Describes a link to a file as that file; whether it leads to one has to be known."""
        try:
            reader = self.native.open(relative(info["name"]), (0, 0))
        except (ConnectionLostError, ThrottledError, UnreachableError):
            raise
        except (InvalidInputError, OSError):
            return
        info |= {"type": "file", "size": reader.size}

    def _keep(self, listings: dict[str, list[Info]], state: object) -> None:
        """Keeps listings that were begun in a state. If another thread has changed something since, they may be old."""
        for directory, infos in listings.items():
            if self._state is not state:
                break
            self.dircache[directory] = infos
        # Only now: whoever changes something after this look drops them himself.
        if self._state is not state:
            self._drop(listings)

    def _drop(self, directories: Iterable[str]) -> None:
        for directory in directories:
            # Another thread may have been faster, and `pop` of this mapping is two steps.
            with suppress(KeyError):
                del self.dircache[directory]

    @contextmanager
    def changing(self, *paths: str) -> Iterator[None]:
        """Forgets what is known of paths that the block changes; a change that fails may have been made in part."""
        try:
            yield
        finally:
            for path in paths:
                self.forget(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forgets listings: all, or that of a directory and of the one above it."""
        super().invalidate_cache(path)
        if path is None:
            self._state = object()
            self.dircache.clear()
        else:
            self.forget(path)

    def forget(self, path: str) -> None:
        """Forgets what is known of a path, of what is below it, and of the directories above it."""
        path = self.plain(path)
        self._state = object()
        self._drop(
            known
            for known in list(self.dircache)
            if known == path or known.startswith(path.rstrip("/") + "/") or path.startswith(known.rstrip("/") + "/")
        )


def _by_directory(path: str, infos: list[Info]) -> dict[str, list[Info]]:
    """The listing of each directory of a tree."""
    below: dict[str, list[Info]] = {path: []}
    for info in infos:
        if info["type"] == "directory":
            below.setdefault(info["name"], [])
        below.setdefault(parent(info["name"]), []).append(info)
    return below


def _raise_unless_left_out(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, PermissionDeniedError, WrongTypeError)):
        raise error


def _is_itself(infos: list[Info], path: str) -> bool:
    """Whether a listing is that of a file, which yields itself."""
    return len(infos) == 1 and infos[0]["name"] == path

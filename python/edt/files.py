"""Looking at and removing files of any endpoint."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal

from edt import _edt
from edt.options import ConnectOptions, Path, endpoint_text

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Entry:
    """One item of an endpoint."""

    path: str
    """The name relative to the endpoint, components joined by `/`; empty for the endpoint itself."""
    kind: Literal["file", "directory", "symlink", "other"]
    """What it is."""
    size: int
    """Size in bytes; 0 for all but files."""
    modified_ns: int | None
    """Modification time in nanoseconds since 1970, if known."""
    mode: int | None
    """Unix permission bits, if there are any."""
    target: str | None
    """Where a symbolic link points to, as written."""

    @property
    def modified(self) -> datetime | None:
        """The modification time in UTC, to the microsecond."""
        if self.modified_ns is None:
            return None
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=self.modified_ns // 1000)


def list(url: Path, *, recursive: bool = False, **options: Unpack[ConnectOptions]) -> builtins.list[Entry]:
    """Lists the direct children of a directory, or everything below it; a file yields itself with an empty path.

    The first entry that cannot be read raises its error.
    """
    return [Entry(*row) for row in _edt.list(endpoint_text(url), recursive, dict(options))]


def stat(url: Path, **options: Unpack[ConnectOptions]) -> Entry:
    """Describes a file, directory or link."""
    return Entry(*_edt.stat(endpoint_text(url), dict(options)))


def remove(url: Path, *, recursive: bool = False, **options: Unpack[ConnectOptions]) -> None:
    """Removes a file, a link, or a directory: with all below it if `recursive`, else only if it is empty.

    Refused are roots, names that end in `.` or `..`, and links of this machine written with a slash at the end.
    """
    _edt.remove(endpoint_text(url), recursive, dict(options))

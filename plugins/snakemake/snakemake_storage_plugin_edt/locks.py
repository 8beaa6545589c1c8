"""Locks of names among the processes of a node: one open file holds any number of them, and the kernel frees them."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

# type, whence, start, length, process: `struct flock` of Linux, padded to its alignment.
_FLOCK = "@hhqqi4x"


class Locks:
    """Locks that belong to one batch. Each name is a byte of the file, at an offset that its digest gives.

    They are those of the open file (`F_OFD_SETLK`), so two batches of one process exclude each other as well.
    """

    def __init__(self, path: Path) -> None:
        if not hasattr(fcntl, "F_OFD_SETLK"):
            raise OSError("locks of open files, by which jobs share what they fetch, are there on Linux only")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def take(self, name: str) -> bool:
        """Locks a name, or answers false at once if another batch holds it."""
        try:
            self._set(name, fcntl.F_WRLCK)
        except BlockingIOError:
            return False
        except PermissionError:
            return False
        return True

    def release(self, names: Iterable[str]) -> None:
        """Frees names that this batch holds."""
        for name in names:
            self._set(name, fcntl.F_UNLCK)

    def close(self) -> None:
        """Frees all that is held."""
        os.close(self._file)

    def _set(self, name: str, kind: int) -> None:
        offset = int.from_bytes(blake2b(os.fsencode(name), digest_size=7).digest())
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, offset, 1, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

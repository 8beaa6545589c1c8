"""Locks of names among the processes of a node, and of lanes: the kernel frees them with the process that held them."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from logging import Logger
from pathlib import Path
from types import TracebackType
from typing import Self

# type, whence, start, length, process: `struct flock` of Linux, padded to its alignment.
_FLOCK = "@hhqqi4x"

# Where open files have no locks of ranges, names share so many files.
_SHARED = 64

# What file systems say that have no locks: NFS without its lock service, Lustre without `-o flock`, some of FUSE.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


@dataclass(frozen=True)
class Ground:
    """Where the locks of a directory lie, and which lanes those who see them share."""

    locks: Path
    lanes: Path


def ground(home: Path, logger: Logger) -> Ground:
    """The directory itself, if its file system has locks; else its locks are of this node, and its lanes too."""
    home.mkdir(parents=True, exist_ok=True)
    if has_locks(home):
        return Ground(home, home / "lanes")
    try:
        node, identity = _on_this_node(home)
    except OSError as error:
        raise OSError(
            f"the file system of `{home}` has no locks, and none can be made elsewhere on this node ({error}): "
            "set cache-dir to a directory on a local disk"
        ) from error
    logger.warning(
        f"edt: the file system of `{home}` has no locks: what several nodes need is fetched by each of them "
        "(cache-dir on a local disk avoids this warning)"
    )
    return Ground(node, home / f"lanes-{identity}")


def has_locks(folder: Path) -> bool:
    """Whether files of this directory can be locked in both ways that are used."""
    try:
        file = lock(folder / f"probe-{secrets.token_hex(4)}")
        if file is not None:
            os.close(file)
        with Locks(folder) as locks:
            locks.take("")
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    finally:
        for probe in folder.glob("probe-*"):
            probe.unlink(missing_ok=True)
    return True


def lock(path: Path) -> int | None:
    """Opens and locks a file, until it is closed; `None` if somebody else has it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return file


class Locks:
    """Locks of names that belong to one batch; two batches of one process exclude each other as well."""

    def __init__(self, folder: Path) -> None:
        """Takes the directory in which the files lie that are locked."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._open: dict[Path, int] = {}

    def take(self, name: str) -> bool:
        """Locks a name, or answers false at once if another batch holds it."""
        number = int.from_bytes(blake2b(os.fsencode(name), digest_size=7).digest(), "big")
        return self._take_byte(number) if hasattr(fcntl, "F_OFD_SETLK") else self._take_file(number % _SHARED)

    def close(self) -> None:
        """Frees all that is held."""
        for file in self._open.values():
            os.close(file)
        self._open.clear()

    def _take_byte(self, number: int) -> bool:
        """On Linux each name is a byte of one file, and the lock that of the open file."""
        path = self._folder / "locks"
        if path not in self._open:
            self._open[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
        try:
            fcntl.fcntl(self._open[path], fcntl.F_OFD_SETLK, wanted)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _take_file(self, number: int) -> bool:
        """Elsewhere it is one of some files: another name may hold it, and is then waited for without need."""
        path = self._folder / f"locks-{number}"
        if path not in self._open:
            file = lock(path)
            if file is None:
                return False
            self._open[path] = file
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _on_this_node(home: Path) -> tuple[Path, str]:
    """A directory of this user for the locks of another one, and a name for those who see it."""
    # Not `TMPDIR`: on clusters each job has one of its own. Where `/tmp` is its own too, so are its lanes.
    base = Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir()) / f"edt-locks-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.is_symlink() or base.stat().st_uid != os.getuid():
        raise PermissionError(f"`{base}` belongs to somebody else")
    folder = base / blake2b(os.fsencode(home.resolve()), digest_size=10).hexdigest()
    folder.mkdir(exist_ok=True)
    identity = folder / "identity"
    if not identity.exists():
        part = folder / secrets.token_hex(8)
        part.write_text(part.name)
        # The first one counts.
        with suppress(FileExistsError):
            os.link(part, identity)
        part.unlink()
    if not has_locks(folder):
        raise OSError(errno.ENOLCK, f"`{folder}` has no locks either")
    return folder, identity.read_text()

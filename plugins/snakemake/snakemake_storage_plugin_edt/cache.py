"""The cache of a node: fetched files by their content, shared with local paths by reflink, hard link or copy."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from snakemake_storage_plugin_edt.local import beside

_FICLONE = 0x40049409
_WRITE_BITS = 0o222


class Cache:
    """Objects are named after the BLAKE3 of their content and their time; an index leads from URL, size and time there.

    Callers hold the lock of a URL while they look for it or add it.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """`limit` is in bytes; least recently used objects go beyond it."""
        self._objects = folder / "objects"
        self._index = folder / "index"
        self._limit = limit

    def find(self, url: str, size: int, modified_ns: int | None) -> Path | None:
        """The object of a URL in this state, if it is here and whole."""
        if modified_ns is None:
            return None
        try:
            found = self._objects / self._entry(url, size, modified_ns).read_text()
            described = found.stat()
        except OSError:
            return None
        if (described.st_size, described.st_mtime_ns) != (size, modified_ns):
            return None
        with suppress(OSError):
            os.utime(self._used(found))
        return found

    def add(self, url: str, file: Path, blake3: str) -> Path:
        """Takes a fetched file over as an object, without leave to write: jobs share it."""
        described = file.stat()
        name = f"{blake3[:2]}/{blake3}-{described.st_mtime_ns}"
        target = self._objects / name
        target.parent.mkdir(parents=True, exist_ok=True)
        file.chmod(described.st_mode & 0o777 & ~_WRITE_BITS)
        entry = self._entry(url, described.st_size, described.st_mtime_ns)
        # Before the object is there: what was never used goes first.
        with self._used(target).open("a") as used:
            used.write(f"{entry.relative_to(self._index)}\n")
        file.replace(target)
        entry.parent.mkdir(parents=True, exist_ok=True)
        part = beside(entry)
        part.write_text(name)
        part.replace(entry)
        return target

    def trim(self) -> None:
        """Removes least recently used objects until the rest fits; files that jobs hold linked keep their content."""
        found = []
        for path in self._objects.glob("*/*"):
            if path.suffix == ".used":
                continue
            with suppress(OSError):
                found.append((self._last_use(path), path.stat().st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                return
            self._remove(path)
            total -= size

    def _remove(self, target: Path) -> None:
        """Removes an object and what leads to it."""
        used = self._used(target)
        with suppress(OSError):
            for entry in used.read_text().splitlines():
                (self._index / entry).unlink(missing_ok=True)
        target.unlink(missing_ok=True)
        used.unlink(missing_ok=True)

    def _entry(self, url: str, size: int, modified_ns: int) -> Path:
        key = blake2b(f"{url}\0{size}\0{modified_ns}".encode(errors="surrogateescape"), digest_size=20).hexdigest()
        return self._index / key[:2] / key

    def _used(self, target: Path) -> Path:
        """A file beside the object that names what leads to it in the index, and whose time is that of its last use.

        The object's own time is that of its source.
        """
        return target.with_name(f"{target.name}.used")

    def _last_use(self, path: Path) -> float:
        try:
            return self._used(path).stat().st_mtime
        except OSError:
            return 0.0


def share(source: Path, target: Path, *, mode: int | None = None) -> None:
    """Brings an object to a local path, whole or not at all: by reflink, else hard link, else copy.

    With a mode of its own it shares no more than content with the object.
    """
    part = beside(target)
    try:
        if not _cloned(source, part) and (mode is not None or not _linked(source, part)):
            shutil.copy2(source, part)
            _flush(part)
        if mode is not None:
            part.chmod(mode)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Forces content to stable storage: size and time are all that is looked at later, also after a power loss."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _cloned(source: Path, target: Path) -> bool:
    with source.open("rb") as reader, target.open("wb") as writer:
        try:
            fcntl.ioctl(writer, _FICLONE, reader.fileno())
        except OSError:
            target.unlink()
            return False
    shutil.copystat(source, target)
    return True


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        return False
    return True

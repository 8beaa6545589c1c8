"""Open files: one that is read by ranges and ahead, and one that appears at the server when it is closed."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractBufferedFile

from edt import _edt
from edt._fsspec.connected import ABANDONED
from edt._fsspec.place import name, relative
from edt.errors import SourceChangedError

if TYPE_CHECKING:
    from edt._fsspec.moved import Moved

# What is read with the answer to an opening, and by lines.
_FIRST = 64 << 10

# The most bytes of a file that is written in one request.
SMALL = 512 << 10


class ReadFile(AbstractBufferedFile):
    """A file opened to read: the state that it had then. One that changed since raises `edt.SourceChangedError`.

    The core reads ahead, over several connections, as far as it takes to keep a reader from waiting that goes on; so
    there is no cache of fsspec's by default, but there can be one (`cache_type`).
    """

    fs: Moved
    path: str
    size: int
    loc: int
    _native: _edt.FileReader | None

    def __init__(self, fs: Moved, path: str, *, cache_type: str = "none", size: Any = None, **options: Any) -> None:
        """Opens the file; a `size` that fsspec knows is replaced by the one that it has now."""
        self._native = fs.native.open(relative(path), (0, _FIRST))
        self._process = os.getpid()
        self._block = (0, b"")
        super().__init__(fs, path, "rb", cache_type=cache_type, size=self.native.size, **options)

    @property
    def native(self) -> _edt.FileReader:
        """The open file of the core."""
        if self._native is None:
            raise ValueError("I/O operation on closed file.")
        if self._process != os.getpid():
            self._begin_anew()
        return self._native

    def _begin_anew(self) -> None:
        """Opens the file again in a process that was forked: threads and connections stayed with the other one."""
        assert self._native is not None
        ABANDONED.append(self._native)
        opened = self.fs.native.open(relative(self.path), (0, 0))
        if (opened.size, opened.modified_ns) != (self._native.size, self._native.modified_ns):
            what = f"could not go on reading `{self.path}`"
            raise SourceChangedError(what, cause="the file has changed since it was opened")
        self._native, self._process = opened, os.getpid()

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.native.read_at(start, end - start)

    def expect(self, ranges: list[tuple[int, int]]) -> None:
        """Says which ranges will be read, each from a first byte up to another: they are brought at once."""
        self.native.expect(ranges)

    def readuntil(self, char: bytes = b"\n", blocks: int | None = None) -> bytes:
        """Reads up to and with the next `char`, or to the end."""
        parts: list[bytes] = []
        while True:
            begin, block = self._block
            skip = self.loc - begin
            if not 0 <= skip < len(block):
                begin, skip, block = self.loc, 0, self.read(blocks or _FIRST)
                self._block = (begin, block)
            rest = _rest_of(char, parts, block[skip : skip + len(char) - 1])
            found = block.find(char, skip)
            end = skip + rest if rest else found + len(char) if found >= 0 else len(block)
            parts.append(block[skip:end])
            self.loc = begin + end
            if rest or found >= 0 or not block:
                return b"".join(parts)

    def close(self) -> None:
        """Lets go of what was read ahead."""
        super().close()
        if self._native is not None and self._process != os.getpid():
            ABANDONED.append(self._native)
        self._native = None
        self._block = (0, b"")


def _rest_of(char: bytes, parts: list[bytes], then: bytes) -> int:
    """How many bytes of `then` are the end of a `char` that begins in the parts before it; 0 if none does."""
    before = b"".join(parts[-len(char) :])[1 - len(char) :] if len(char) > 1 else b""
    at = (before + then).find(char)
    return at + len(char) - len(before) if at >= 0 else 0


class WriteFile(AbstractBufferedFile):
    """A file opened to write: nothing of it is at the server before it is closed, and then all of it.

    A small one is sent in one request; a larger one is gathered in a local temporary file and copied by `edt.copy`.
    One whose `with` block is left by an exception is thrown away, as is one that is never closed.
    """

    fs: Moved
    path: str
    mode: str
    buffer: io.BytesIO
    autocommit: bool
    closed: bool

    def __init__(self, fs: Moved, path: str, mode: str, **options: Any) -> None:
        """Refuses a directory, and for `xb` whatever stands there."""
        self._folder: str | None = None
        self._process = 0
        self._small: bytes | None = None
        self._aborted = False
        found = fs.found(path) if mode != "wb" else None
        if mode == "xb" and found is not None:
            raise FileExistsError(f"could not create `{path}`: it exists")
        if found is not None and found["type"] == "directory":
            raise IsADirectoryError(f"could not write `{path}`: it is a directory")
        self._append = mode == "ab" and found is not None
        super().__init__(fs, path, mode, **options)
        if self._append:
            self._begin_with_what_is_there()

    @property
    def _temporary(self) -> Path:
        """The local file that gathers a large content."""
        if self._folder is None:
            try:
                self._folder, self._process = tempfile.mkdtemp(prefix="edt-"), os.getpid()
            except OSError as error:
                raise self._not_gathered(error, error.filename) from error
        # Under its own name, so that reports and errors name it.
        return Path(self._folder, name(self.path))

    def _begin_with_what_is_there(self) -> None:
        self.fs.get_file(self.path, str(self._temporary))
        self.loc = self._temporary.stat().st_size

    def _upload_chunk(self, final: bool = False) -> bool:
        if not final or self._folder is not None or self.buffer.tell() > SMALL:
            self._gather()
            self._small = None
        else:
            self._small = self.buffer.getvalue()
        if final and self.autocommit:
            self.commit()
        return True

    def _gather(self) -> None:
        temporary = self._temporary
        try:
            with temporary.open("ab") as file:
                file.write(self.buffer.getbuffer())
        except BaseException as error:
            # A part of it may be there, which would be there twice if it were written once more.
            self.abort()
            if not isinstance(error, OSError):
                raise
            raise self._not_gathered(error, str(temporary)) from error

    def _not_gathered(self, error: OSError, place: str | None) -> OSError:
        """What is raised where a place of this machine cannot take the content."""
        remedy = "set TMPDIR to a directory that can be written and has room"
        return OSError(error.errno, f"could not gather `{self.path}`: {error.strerror}; {remedy}", place)

    def commit(self) -> None:
        """Brings the content to the server, where it appears under its name when it is complete.

        One that was aborted within a transaction is passed over.
        """
        if self._aborted:
            return
        try:
            if self._small is not None:
                self.fs.native.write(relative(self.path), self._small, self.mode != "xb")
            else:
                self.fs.bring(str(self._temporary), self.path, replace=self.mode != "xb", keeps_mode=True)
        finally:
            self.discard()
            self.fs.forget(self.path)

    def discard(self) -> None:
        """Throws the content away. A process that was forked from the one that writes leaves it where it is."""
        folder, self._folder = self._folder, None
        if folder is not None and self._process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)

    def abort(self) -> None:
        """Closes the file without bringing anything to the server."""
        if not self.closed:
            self.closed = self._aborted = True
            self.discard()

    def close(self) -> None:
        """Brings the content to the server, unless a transaction will; if that fails, nothing is there."""
        try:
            super().close()
        except BaseException:
            self.discard()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        if hasattr(self, "_folder"):
            self.abort()


class WriteCompressed(io.BufferedIOBase):
    """A compressing file over a `WriteFile`: closing it closes both, and an exception throws both away."""

    def __init__(self, outer: Any, file: WriteFile) -> None:
        """Takes what compresses into `file`."""
        self._outer = outer
        self._file = file

    def writable(self) -> bool:
        """That is what it is for."""
        return True

    def write(self, data: Any) -> int:
        """Compresses the data."""
        return int(self._outer.write(data))

    def close(self) -> None:
        """Brings the content to the server."""
        if not self.closed:
            super().close()
            self._outer.close()
            self._file.close()

    def abort(self) -> None:
        """Closes without bringing anything to the server."""
        super().close()
        self._file.abort()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()


class WriteText(io.TextIOWrapper):
    """Text over a file that is written; an exception that leaves the `with` block throws it away likewise."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        file = self.detach()
        if isinstance(file, (WriteFile, WriteCompressed)):
            file.abort()

    def __del__(self) -> None:
        """What is dropped without having been closed is thrown away; by itself a text file would be closed."""
        with suppress(AttributeError, ValueError):
            file = self.buffer
            if not self.closed and isinstance(file, (WriteFile, WriteCompressed)):
                file.abort()

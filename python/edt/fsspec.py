"""Files at edt servers for everything that opens files through fsspec: pandas, xarray, zarr, Dask, PyArrow.

`pip install 'edt[fsspec]'` registers `edt://`, `edts://` and `edt+s3://` with its like; nothing needs to be imported.
See `docs/fsspec.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from glob import has_magic
from typing import Any, TypeVar

from fsspec.compression import compr
from fsspec.core import get_compression

from edt._fsspec import place
from edt._fsspec.moved import Moved
from edt._fsspec.opened import SMALL, ReadFile, WriteCompressed, WriteFile, WriteText
from edt._fsspec.place import parent, relative
from edt.errors import WrongTypeError

__all__ = [
    "EdtAzFileSystem",
    "EdtFileSystem",
    "EdtFtpFileSystem",
    "EdtFtpsFileSystem",
    "EdtGsFileSystem",
    "EdtHttpFileSystem",
    "EdtHttpsFileSystem",
    "EdtS3FileSystem",
    "EdtServiceFileSystem",
    "EdtSftpFileSystem",
    "EdtWebdavFileSystem",
    "EdtWebdavsFileSystem",
    "EdtsFileSystem",
]

_T = TypeVar("_T")
_R = TypeVar("_R")

# What `cat_file` reads with the answer to an opening.
_FIRST = 4 << 20


class EdtFileSystem(Moved):
    """The files of one edt server. `fsspec.filesystem("edt", host="...")` makes one, as does every `edt://` URL.

    Reads are ranged, verified, and ahead of who reads in order; writes appear whole when a file is closed; `get` and
    `put` move whole trees in one tuned transfer. Listings are kept for a while, see `listings_expiry_time`.
    """

    protocol: tuple[str, ...] = ("edt", "edts")

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, **options: Any
    ) -> Any:
        path = self.plain(path)
        if mode != "rb":
            return WriteFile(self, path, mode, block_size=block_size, autocommit=autocommit, **options)
        try:
            return ReadFile(self, path, block_size=block_size, autocommit=autocommit, **options)
        except WrongTypeError as error:
            raise IsADirectoryError(str(error)) from error

    def open(self, path: str, mode: str = "rb", compression: str | None = None, **options: Any) -> Any:
        """Opens a file; see `fsspec.AbstractFileSystem.open`.

        What is written appears at the server when the file is closed. Leaving its `with` block by an exception throws
        it away.
        """
        if "r" in mode or ("b" in mode and compression is None):
            return super().open(path, mode, compression=compression, **options)
        text = {key: options.pop(key) for key in ("encoding", "errors", "newline") if key in options}
        file = super().open(path, mode.replace("t", "").replace("b", "") + "b", **options)
        compression = get_compression(path, compression)
        if compression is not None:
            file = WriteCompressed(compr[compression](file, mode="w"), file)
        return file if "b" in mode else WriteText(file, **text)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Reads a file, or a range of it, with one round trip where it has at most 4 MiB."""
        path = relative(self.plain(path))
        try:
            if (start or 0) < 0 or (end or 0) < 0:
                size = self.native.open(path, (0, 0)).size
                start, end = (max(0, each + size) if each is not None and each < 0 else each for each in (start, end))
            first = start or 0
            last = first + _FIRST if end is None else min(max(end, first), first + _FIRST)
            reader = self.native.open(path, (first, last))
        except WrongTypeError as error:
            raise IsADirectoryError(str(error)) from error
        return reader.read_at(first, max(0, (reader.size if end is None else end) - first))

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """Reads files at once, as many as there are connections; see `fsspec.AbstractFileSystem.cat`."""
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self.plain(path):
            return self.cat_file(paths[0], **options)
        paths = [each for each in paths if not (recursive and self.isdir(each))]
        read = self.at_once(_caught(lambda each: self.cat_file(each, **options), on_error == "raise"), paths)
        pairs = zip(paths, read, strict=True)
        return {name: value for name, value in pairs if on_error == "return" or not isinstance(value, Exception)}

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        """Reads ranges of files at once, as many as there are connections."""
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        wanted = list(zip(paths, starts, ends, strict=True))
        return self.at_once(_caught(lambda each: self.cat_file(*each, **options), on_error != "return"), wanted)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        """Writes a file, in one round trip where it has at most 512 KiB and is not part of a transaction."""
        content = bytes(value)
        if len(content) > SMALL or self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb", **options) as file:
                file.write(content)
            return
        with self.changing(path):
            self.native.write(relative(self.plain(path)), content, mode != "create")

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        """Writes files at once, as many as there are connections."""
        files = list(path.items()) if isinstance(path, dict) else [(path, value)]
        self.at_once(lambda file: self.pipe_file(file[0], file[1], **options), files)

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        """Makes an empty file."""
        if not truncate and self.exists(path):
            raise NotImplementedError("an edt server does not set the time of a file that is there")
        self.pipe_file(path, b"")

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Makes a directory, by default with those above it."""
        path = self.plain(path)
        if not create_parents and not self.isdir(parent(path)):
            raise FileNotFoundError(f"could not make `{path}`: there is no directory `{parent(path)}`")
        self.makedirs(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and those above it."""
        path = self.plain(path)
        if not exist_ok and self.exists(path):
            raise FileExistsError(f"could not make `{path}`: it exists")
        with self.changing(path):
            try:
                self.native.create_directory(relative(path))
            except WrongTypeError as error:
                raise FileExistsError(str(error)) from error

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        if not self.isdir(path):
            raise (NotADirectoryError if self.exists(path) else FileNotFoundError)(f"there is no directory `{path}`")
        self.rm_file(path)

    def rm_file(self, path: str) -> None:
        """Removes a file or an empty directory."""
        with self.changing(path):
            self.native.remove(relative(self.plain(path)), False)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with `recursive` directories with all that is below them, each by one request."""
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for each in reversed(self.expand_path(path, recursive=False)):
            with self.changing(each):
                self.native.remove(relative(each), recursive)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copies a file at the server; of a directory it makes an empty one."""
        with self.changing(path2):
            try:
                self.native.copy(relative(self.plain(path1)), relative(self.plain(path2)))
            except WrongTypeError:
                if not self.isdir(path1):
                    raise
                self.makedirs(path2, exist_ok=True)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """Gives a file or directory another name at the server, or moves it into a directory that is there."""
        if not isinstance(path1, str) or not isinstance(path2, str) or has_magic(path1):
            for source in self.expand_path(path1, recursive=False):
                for target in [path2] if isinstance(path2, str) else path2:
                    _refuse_within(self.plain(source), self.plain(target))
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        source, target = self.plain(path1), self.plain(path2)
        if source == target:
            return
        if path2.endswith("/") or self.isdir(target):
            target = f"{target.rstrip('/')}/{place.name(source)}"
        if self.service is not None:
            self._move_by_copies(source, target, maxdepth, options)
            return
        with self.changing(source, target):
            self.native.rename(relative(source), relative(target))

    def _move_by_copies(self, source: str, target: str, maxdepth: int | None, options: dict[str, Any]) -> None:
        """Copies, then removes: only edt servers rename for others. What would remove its own copies is refused."""
        recursive = self.isdir(source)
        _refuse_within(source, target)
        if recursive and maxdepth is not None:
            raise ValueError(
                f"`{source}` is a directory: it is moved with all that it has, and `maxdepth` does not go with that"
            )
        super().mv(source, target, recursive=recursive, **options)


class EdtsFileSystem(EdtFileSystem):
    """The same with encryption even on this machine: `edts://`."""

    protocol = ("edts", "edt")

    def __init__(self, host: str = "", port: int | None = None, *, tls: bool = True, **options: Any) -> None:
        """Takes the arguments of `EdtFileSystem`."""
        super().__init__(host, port, tls=tls, **options)


class EdtServiceFileSystem(EdtFileSystem):
    """The files of another service that edt reaches: `edt+s3://bucket/key` and so on. `host` is a bucket, or a host.

    Reads, writes and transfers are those of `EdtFileSystem`, with what the service guarantees: see `docs/endpoints.md`,
    also for its credentials. `mv` copies and removes.
    """


class EdtS3FileSystem(EdtServiceFileSystem):
    """Amazon S3, and what speaks its protocol."""

    protocol = ("edt+s3",)
    service = "s3"


class EdtGsFileSystem(EdtServiceFileSystem):
    """Google Cloud Storage."""

    protocol = ("edt+gs",)
    service = "gs"


class EdtAzFileSystem(EdtServiceFileSystem):
    """Azure Blob Storage."""

    protocol = ("edt+az",)
    service = "az"


class EdtHttpFileSystem(EdtServiceFileSystem):
    """Web servers, to read."""

    protocol = ("edt+http",)
    service = "http"


class EdtHttpsFileSystem(EdtServiceFileSystem):
    """Web servers with encryption, to read."""

    protocol = ("edt+https",)
    service = "https"


class EdtWebdavFileSystem(EdtServiceFileSystem):
    """WebDAV."""

    protocol = ("edt+webdav",)
    service = "webdav"


class EdtWebdavsFileSystem(EdtServiceFileSystem):
    """WebDAV with encryption."""

    protocol = ("edt+webdavs",)
    service = "webdavs"


class EdtSftpFileSystem(EdtServiceFileSystem):
    """Hosts reached with ssh."""

    protocol = ("edt+sftp",)
    service = "sftp"


class EdtFtpFileSystem(EdtServiceFileSystem):
    """FTP."""

    protocol = ("edt+ftp",)
    service = "ftp"


class EdtFtpsFileSystem(EdtServiceFileSystem):
    """FTP with encryption."""

    protocol = ("edt+ftps",)
    service = "ftps"


def _caught(work: Callable[[_T], _R], raising: bool) -> Callable[[_T], _R | Exception]:
    """The same work with its exception as its answer, unless that is to be raised."""

    def attempt(item: _T) -> _R | Exception:
        try:
            return work(item)
        except Exception as error:
            if raising:
                raise
            return error

    return attempt


def _refuse_within(source: str, target: str) -> None:
    """What is moved into itself would be removed with the copies of it."""
    if f"{target}/".startswith(f"{source.rstrip('/')}/"):
        raise ValueError(f"`{source}` cannot be moved to `{target}`, which lies in it")

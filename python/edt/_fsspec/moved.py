"""Moving files and trees between this machine and a server, each in as few tuned transfers as that takes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.utils import isfilelike

from edt import _edt
from edt._fsspec import trees
from edt._fsspec.listed import Listed
from edt.errors import Error, TransferFailed, of_kind
from edt.events import FileDone
from edt.options import endpoint_text
from edt.report import Report
from edt.transfer import TransferHandle


class Moved(Listed):
    """Gets and puts."""

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Brings files to this machine, a tree in one tuned transfer; see `fsspec.AbstractFileSystem.get`."""
        trees.get(self, rpath, lpath, recursive, maxdepth, callback)

    def get_file(self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **options: Any) -> None:
        """Brings one file, or makes a directory like that at the server."""
        if isfilelike(lpath) or options.get("outfile") is not None:
            super().get_file(rpath, lpath, callback=callback, **options)
        elif self.known(rpath)["type"] == "directory":
            Path(lpath).mkdir(parents=True, exist_ok=True)
        else:
            self.fetch([self.plain(rpath)], os.path.abspath(lpath), callback)

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Brings files of this machine to the server, a tree in one transfer; see `fsspec.AbstractFileSystem.put`."""
        trees.put(self, lpath, rpath, recursive, maxdepth, callback)

    def put_file(
        self, lpath: str, rpath: str, callback: Callback = DEFAULT_CALLBACK, mode: str = "overwrite", **options: Any
    ) -> None:
        """Brings one file to the server, or makes a directory like that of this machine."""
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
        else:
            self.bring(os.path.abspath(lpath), rpath, replace=mode != "create", callback=callback)

    def fetch(
        self, sources: Sequence[str], target: str, callback: Callback = DEFAULT_CALLBACK, *, symlinks: str = "keep"
    ) -> None:
        """Copies paths of the server to this machine in one transfer."""
        self._transfer([self.address(path) for path in sources], target, callback, symlinks=symlinks)

    def send(
        self, sources: Sequence[str], target: str, callback: Callback = DEFAULT_CALLBACK, *, symlinks: str = "keep"
    ) -> None:
        """Copies paths of this machine to the server in one transfer."""
        slash = "/" if target.endswith("/") else ""
        _check_present(sources)
        with self.changing(target):
            self._transfer(sources, self.address(target).rstrip("/") + slash, callback, symlinks=symlinks)

    def bring(
        self,
        source: str,
        target: str,
        *,
        replace: bool,
        callback: Callback = DEFAULT_CALLBACK,
        keeps_mode: bool = False,
    ) -> None:
        """Copies one file of this machine to a name at the server; what an interruption leaves is thrown away.

        With `keeps_mode` the source first gets the mode of the file that it replaces.
        """
        _check_present([source])
        found = self.found(target, refresh=keeps_mode) or {}
        if found.get("type") == "directory":
            raise IsADirectoryError(f"could not write `{target}`: it is a directory")
        if keeps_mode and "mode" in found and not found["islink"]:
            # It has to be read here.
            os.chmod(source, found["mode"] | stat.S_IRUSR)
        overwrite = "replace" if replace else "never"
        try:
            self._transfer([source], self.address(target), callback, overwrite=overwrite, resumable=False)
        finally:
            self.forget(target)

    def _transfer(
        self,
        sources: Sequence[str],
        target: str,
        callback: Callback,
        *,
        overwrite: str = "replace",
        resumable: bool = True,
        symlinks: str = "keep",
    ) -> None:
        options = {**self.connect_options, "overwrite": overwrite, "symlinks": symlinks}
        # Those of this machine need not be text.
        origins, target = [endpoint_text(source) for source in sources], endpoint_text(target)
        with TransferHandle(_edt.start(origins, target, options, None, resumable)) as handle:
            for event in handle:
                if isinstance(event, FileDone):
                    callback.relative_update(1)
            report = handle.join()
        if not report.is_complete:
            raise _failed(report)


def _check_present(sources: Sequence[str]) -> None:
    """Of a name that is not there, and looks like a pattern, a transfer would bring what matches it."""
    for source in sources:
        if not os.path.lexists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)


def _failed(report: Report) -> Error:
    """What the only item that failed did so with, as a rule an `OSError`; of several, the exception with the report."""
    whole = TransferFailed(report)
    if report.totals.failed > 1 or not report.failures:
        return whole
    failure = report.failures[0]
    error = of_kind(failure.kind, failure.what, failure.cause, failure.hint)
    error.__cause__ = whole
    return error

"""Stores a batch: all files of it in one transfer, each directory as a mirror of the local one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from snakemake_storage_plugin_edt.batches import Request
from snakemake_storage_plugin_edt.listings import Listings
from snakemake_storage_plugin_edt.moves import Mover


@dataclass(frozen=True)
class Storer:
    """Brings local paths to the storage."""

    listings: Listings
    mover: Mover

    def carry_out(self, batch: list[Request]) -> None:
        """Stores all of a batch."""
        together = [request for request in batch if _base(request) is not None and not request.path.is_dir()]
        alone = [request for request in batch if request not in together]
        try:
            together.sort(key=lambda request: (request.place.root, str(_base(request))))
            for (root, base), group in groupby(together, key=lambda request: (request.place.root, _base(request))):
                assert base is not None
                self._store_files(root, base, list(group))
            for request in alone:
                self._store_alone(request)
        finally:
            for request in batch:
                self.listings.forget(request.place)

    def _store_files(self, root: str, base: Path, requests: list[Request]) -> None:
        named = {request.place.path: [request] for request in requests}
        moved = self.mover.move(base, root, named, symlinks="follow")
        for name, several in named.items():
            for request in several:
                # Whoever waits goes on at once and must see what is stored now.
                self.listings.forget(request.place)
                request.end(moved.failed.get(name))

    def _store_alone(self, request: Request) -> None:
        selection = "mirror" if request.path.is_dir() else "all"
        # A directory at the storage must not swallow a file of its name.
        source, target = os.fspath(request.path), request.place.url
        moved = self.mover.move(source, target, {"": [request]}, selection=selection, symlinks="follow")
        self.listings.forget(request.place)
        request.end(next(iter(moved.failed.values()), None))


def _base(request: Request) -> Path | None:
    """The directory below which the local path is named as below the root; `None` if there is none."""
    parts = Path(request.place.path).parts
    if request.place.tail or request.path.parts[-len(parts) :] != parts:
        return None
    return Path(*request.path.parts[: -len(parts)])

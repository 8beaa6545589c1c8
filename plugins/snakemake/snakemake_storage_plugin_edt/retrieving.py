"""Retrieves a batch: each object once per node, verified, whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_storage_plugin_edt.batches import Request
from snakemake_storage_plugin_edt.cache import Cache, share
from snakemake_storage_plugin_edt.lanes import Lane, lane
from snakemake_storage_plugin_edt.listings import FOLLOWED, Listings
from snakemake_storage_plugin_edt.local import beside, make_room
from snakemake_storage_plugin_edt.locks import Ground, Locks, ground
from snakemake_storage_plugin_edt.moves import Moved, Mover

if TYPE_CHECKING:
    import edt

# The mode of a file of which the storage keeps none.
_MODE = 0o644

# How often a batch looks whether others have fetched what it waits for, in seconds.
_LOOK_AGAIN = 0.1

Named = dict[str, list[Request]]


@dataclass(frozen=True)
class Retriever:
    """Brings objects to their local paths."""

    home: Path
    """Where lanes and locks are, if its file system has locks: the cache directory, or below the local prefix."""
    cache: Cache | None
    listings: Listings
    mover: Mover
    writable: bool = False
    """Whether what the cache shares can be written."""

    @cached_property
    def ground(self) -> Ground:
        """Where lanes and locks are."""
        return ground(self.home, self.mover.logger)

    def carry_out(self, batch: list[Request]) -> None:
        """Retrieves all of a batch: what lies below one root in one transfer."""
        whole = [request for request in batch if request.place.tail]
        for request in whole:
            self._from_root(request.place.root, {request.place.path: [request]})
        rest = sorted((request for request in batch if not request.place.tail), key=lambda request: request.place.root)
        for root, group in groupby(rest, key=lambda request: request.place.root):
            named: Named = {}
            for request in group:
                named.setdefault(request.place.path, []).append(request)
            self._from_root(root, named)
        if self.cache is not None:
            self.cache.trim()

    def _from_root(self, root: str, pending: Named) -> None:
        """Fetches what nobody else fetches, then looks after the rest: others may have brought it meanwhile."""
        while pending:
            with Locks(self.ground.locks) as locks:
                mine = {name: requests for name, requests in pending.items() if locks.take(requests[0].place.url)}
                if mine:
                    self._fetch(root, mine)
            pending = {
                name: requests
                for name, requests in pending.items()
                if name not in mine and not all(request.cancelled.is_set() for request in requests)
            }
            if pending and not mine:
                time.sleep(_LOOK_AGAIN)

    def _fetch(self, root: str, named: Named) -> None:
        missing: Named = {}
        # What is here already is held to the present state, not to one that was told a while ago.
        several = [request for requests in named.values() for request in requests]
        self.listings.forget(*(each.place for each in several if self.cache is not None or each.path.exists()))
        for name, requests in named.items():
            left = [request for request in requests if not self._is_at_hand(request)]
            if left:
                missing[name] = left
        if not missing:
            return
        times = self._times_of_links(missing)
        with lane(self.ground.lanes, root, missing) as taken:
            goes_on = taken.begin(root, missing)
            moved = self._move(root, missing, taken)
            if goes_on:
                self._drop_what_is_gone(missing, moved, taken)
            # What lies inside of something else is taken out of it first.
            for name in sorted(missing, key=lambda name: -name.count("/")):
                self._arrived(name, missing, moved, taken, times.get(name))
            if not moved.failed:
                taken.end(root, missing)

    def _move(self, root: str, missing: Named, taken: Lane) -> Moved:
        digest = "blake3" if self.cache is not None else "none"
        first = next(iter(missing.values()))[0].place
        if first.tail:
            moved = self.mover.move(first.url, taken.data / first.path, {"": missing[first.path]}, digest=digest)
            return Moved({first.path if name == "" else name: error for name, error in moved.failed.items()})
        symlinks = "follow" if first.scheme in FOLLOWED else "keep"
        return self.mover.move(root, taken.data, missing, name="lane", digest=digest, symlinks=symlinks)

    def _drop_what_is_gone(self, missing: Named, moved: Moved, taken: Lane) -> None:
        """Removes from directories what an earlier attempt brought and the storage has no more."""
        for name, requests in missing.items():
            arrived, place = taken.data / name, requests[0].place
            if name in moved.failed or place.tail or not arrived.is_dir():
                continue
            symlinks = "follow" if place.scheme in FOLLOWED else "keep"
            mirrored = self.mover.move(place.url, arrived, {"": requests}, selection="mirror", symlinks=symlinks)
            for error in mirrored.failed.values():
                moved.failed[name] = error

    def _is_at_hand(self, request: Request) -> bool:
        """Whether the node has the object in its present state: at the local path, or in the cache, which shares it."""
        if self.cache is None and not request.path.exists():
            return False
        entry = self.listings.entry(request.place)
        if entry is None:
            return False
        if entry.kind == "directory":
            at_hand = self._is_same_directory(request)
        elif self.cache is None:
            at_hand = request.path.is_file() and _state(request.path.stat()) == (entry.size, entry.modified_ns)
        else:
            at_hand = self._is_shared(self.cache, request, entry)
        if at_hand:
            request.end()
        return at_hand

    def _is_same_directory(self, request: Request) -> bool:
        """Whether the local directory is that of the storage: jobs that read it must not lose it to another copy of it.

        What links in it lead to is only found out by fetching it.
        """
        if request.path.is_symlink() or not request.path.is_dir():
            return False
        try:
            there = {entry.path: entry for _, entry in self.listings.below(request.place)}
            here = {os.fspath(path.relative_to(request.path)): _state(path.lstat()) for path in request.path.rglob("*")}
        except OSError:
            # Fetching fails for the same reason and says so.
            return False
        if any(entry.kind not in ("file", "directory") for entry in there.values()):
            return False
        return here == {
            name: None if entry.kind == "directory" else (entry.size, entry.modified_ns)
            for name, entry in there.items()
        }

    def _is_shared(self, cache: Cache, request: Request, entry: edt.Entry) -> bool:
        """Whether the cache has the file, which then is at the local path too."""
        found = cache.find(request.place.url, entry.size, entry.modified_ns)
        if found is None:
            return False
        try:
            make_room(request.path)
            share(found, request.path, mode=(entry.mode or _MODE) if self.writable else None)
        except OSError:
            # Another process made room in the cache meanwhile, or fetching fails for the same reason and says so.
            return False
        return True

    def _times_of_links(self, missing: Named) -> dict[str, int]:
        """Links arrive as the files that they lead to, and count as changed when either was."""
        entries = {
            name: self.listings.entry(requests[0].place)
            for name, requests in missing.items()
            if requests[0].place.scheme in FOLLOWED and not requests[0].place.tail
        }
        return {
            name: entry.modified_ns
            for name, entry in entries.items()
            if entry is not None and entry.kind == "symlink" and entry.modified_ns is not None
        }

    def _arrived(
        self, name: str, missing: Mapping[str, list[Request]], moved: Moved, taken: Lane, modified_ns: int | None
    ) -> None:
        requests, error = missing[name], moved.failed.get(name)
        if error is not None:
            for request in requests:
                request.end(error)
            return
        arrived = taken.data / name
        if modified_ns is not None and arrived.is_file():
            os.utime(arrived, ns=(modified_ns, modified_ns))
        mode = None
        if self.cache is not None and name in moved.digests and arrived.is_file():
            mode = stat.S_IMODE(arrived.stat().st_mode) if self.writable else None
            arrived = self.cache.add(requests[0].place.url, arrived, moved.digests[name])
            shared = True
        else:
            shared = len(requests) > 1 or _is_inside(name, missing)
        for request in requests:
            try:
                _hand_over(arrived, request.path, shared=shared, mode=mode)
            except OSError as failed:
                request.end(failed)
            else:
                request.end()


def _state(described: os.stat_result) -> tuple[int, int] | None:
    """Size and time of what is there; `None` of a directory."""
    return None if stat.S_ISDIR(described.st_mode) else (described.st_size, described.st_mtime_ns)


def _hand_over(arrived: Path, target: Path, *, shared: bool, mode: int | None) -> None:
    make_room(target)
    if arrived.is_dir():
        _hand_over_directory(arrived, target, shared=shared)
        return
    if not shared:
        with suppress(OSError):
            arrived.replace(target)
            return
    share(arrived, target, mode=mode)


def _hand_over_directory(arrived: Path, target: Path, *, shared: bool) -> None:
    """Brings a directory to its local path, whole or not at all, also from another file system."""
    part = beside(target)
    try:
        if shared:
            shutil.copytree(arrived, part, symlinks=True)
        else:
            shutil.move(arrived, part)
        make_room(target)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_inside(name: str, names: Mapping[str, object]) -> bool:
    above = name.rpartition("/")[0]
    while above:
        if above in names:
            return True
        above = above.rpartition("/")[0]
    return False

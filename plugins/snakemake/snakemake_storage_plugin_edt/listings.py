"""What is known of the objects of a storage: thousands of questions about them become a few listings.

Snakemake asks for one object at a time. The first question in a directory is answered by a look at the object alone,
the second one lists the directory, and many directories side by side are listed together.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from snakemake_storage_plugin_edt.per_process import PerProcess
from snakemake_storage_plugin_edt.query import Place
from snakemake_storage_plugin_edt.questions import Questions

if TYPE_CHECKING:
    import edt

# Directories below one directory that are listed one by one before all of them are listed together.
_SIDE_BY_SIDE = 8

# A listing of everything below a directory that took longer, in seconds, is not made again.
_LONGEST = 30.0

# An answer is believed this many times as long as it took, if that is more than the time to live.
_WORTH = 1.0

FOLLOWED = ("edt", "edts", "file")
"""Storages whose links are followed: elsewhere edt cannot."""

# Web servers have pages, and what looks like a listing may leave things out.
_WEB = ("http", "https")


class Unknown(Enum):
    """Says that nobody looked yet."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


@dataclass
class _Listing:
    entries: Mapping[str, edt.Entry]
    tree: bool
    linked: bool
    """Whether there are links in it that are followed."""
    until: float


@dataclass(frozen=True)
class _Followed:
    """What a link leads to, and how it was itself at that time."""

    link: edt.Entry
    entry: edt.Entry | None
    until: float


class _Locks:
    """Who is at what in one process."""

    def __init__(self) -> None:
        self.known = threading.Lock()
        """Held while what is known is changed."""
        self.looking: defaultdict[Place, threading.Lock] = defaultdict(threading.Lock)
        """Held while somebody looks for something in a directory."""


class Listings:
    """Answers for a while from what was listed. Threads may share it."""

    def __init__(self, ttl: float, options: Mapping[str, Any], retries: int) -> None:
        """`ttl` is in seconds; `options` are those by which edt reaches the storage; see `Questions` for `retries`."""
        self._ttl = ttl
        self._questions = Questions(options, retries)
        self._single: dict[Place, tuple[edt.Entry | None, float]] = {}
        self._listed: dict[Place, _Listing] = {}
        self._followed: dict[Place, _Followed] = {}
        self._asked: defaultdict[Place, int] = defaultdict(int)
        self._side_by_side: defaultdict[Place, int] = defaultdict(int)
        self._unlistable: set[Place] = set()
        self._slow_trees: set[Place] = set()
        self._changes = 0
        self._locks = PerProcess(_Locks)

    def known(self, place: Place) -> edt.Entry | Unknown | None:
        """What is known without a look: the entry, `None` if there is none, or that nothing is known.

        A link to a file has the size of the file, and the later time of both; one that leads nowhere is none.
        """
        told = self._told(place)
        if isinstance(told, Unknown) or not _is_followed(place, told):
            return told
        followed = self._followed.get(place)
        if followed is None or followed.link != told or time.monotonic() >= followed.until:
            return UNKNOWN
        return followed.entry

    def _told(self, place: Place) -> edt.Entry | Unknown | None:
        """What is known of the name itself."""
        now = time.monotonic()
        single = self._single.get(place)
        if single is not None and now < single[1]:
            return single[0]
        above = place
        while above.path:
            above = above.parent
            listing = self._listed.get(above)
            if listing is not None and now < listing.until and (listing.tree or above == place.parent):
                return listing.entries.get(place.path[len(above.path) :].lstrip("/"))
        return UNKNOWN

    def entry(self, place: Place) -> edt.Entry | None:
        """The entry, or `None` if there is none; looks if nothing is known."""
        known = self.known(place)
        if not isinstance(known, Unknown):
            return known
        locks = self._locks.own
        with locks.known:
            looking = locks.looking[place.parent]
        with looking:
            told = self._told(place)
            if isinstance(told, Unknown):
                told = self._look(place)
        known = self.known(place)
        return self._follow(place, told) if isinstance(known, Unknown) else known

    def below(self, place: Place) -> list[tuple[Place, edt.Entry]]:
        """All that lies below a place, looked up afresh; nothing if it is no directory or not there."""
        import edt

        try:
            found = self._questions.list(place, recursive=True)
        except edt.NotFoundError:
            return []
        return [(place.child(entry.path), entry) for entry in found if entry.path]

    def siblings(self, place: Place) -> list[tuple[Place, edt.Entry]] | None:
        """What lies beside a place, itself included; `None` where directories cannot be listed, or hold links.

        A link alone does not say whether there is what it leads to.
        """
        parent = place.parent
        if not self.is_listable(place):
            return None
        listing = self._listed.get(parent)
        if listing is None or time.monotonic() >= listing.until:
            listing = self._list(parent, tree=False)
        if listing is None or listing.linked:
            return None
        return [(parent.child(name), entry) for name, entry in listing.entries.items() if "/" not in name]

    def is_listable(self, place: Place) -> bool:
        """Whether a listing of the directory of a place can tell of it."""
        return not place.tail and place.scheme not in _WEB and place.parent not in self._unlistable

    def remove(self, place: Place) -> None:
        """Removes what is at a place, a directory with all that is below it."""
        entry = self.entry(place)
        try:
            if entry is not None:
                self._questions.remove(place, recursive=entry.kind == "directory")
        finally:
            self.forget(place)

    def forget(self, *places: Place) -> None:
        """Drops what is known of places that may have changed, and of what lies above and below them."""
        changed = set(places)
        above = {each for place in places for each in _up(place)}
        with self._locks.own.known:
            # What is being asked at present may be of before.
            self._changes += 1
            self._single = {known: answer for known, answer in self._single.items() if changed.isdisjoint(_up(known))}
            self._followed = {known: each for known, each in self._followed.items() if changed.isdisjoint(_up(known))}
            self._listed = {
                known: listing
                for known, listing in self._listed.items()
                if known not in above and changed.isdisjoint(_up(known))
            }

    def _look(self, place: Place) -> edt.Entry | None:
        parent = place.parent
        self._asked[parent] += 1
        if self._asked[parent] > 1 and self.is_listable(place) and self._list_near(parent):
            told = self._told(place)
            if not isinstance(told, Unknown):
                return told
        return self._stat(place)

    def _list_near(self, parent: Place) -> bool:
        """Lists a directory, or all that are beside it if many of them were asked for; false if that is impossible."""
        above = parent.parent
        self._side_by_side[above] += 1
        if parent.path and self._side_by_side[above] > _SIDE_BY_SIDE and above not in self._slow_trees:
            begun = time.monotonic()
            if self._list(above, tree=True) is not None:
                if time.monotonic() - begun > _LONGEST:
                    self._slow_trees.add(above)
                return True
            self._slow_trees.add(above)
        return self._list(parent, tree=False) is not None

    def _list(self, directory: Place, *, tree: bool) -> _Listing | None:
        import edt

        begun, changes = time.monotonic(), self._changes
        try:
            found = self._questions.list(directory, recursive=tree)
        except edt.NotFoundError:
            found = []
        except (edt.UnreachableError, edt.ConnectionLostError, edt.RefusedError):
            raise
        except edt.Error:
            self._unlistable.add(directory)
            return None
        entries = {entry.path: entry for entry in found if entry.path}
        linked = any(_is_followed(directory, entry) for entry in found)
        listing = _Listing(entries, tree, linked, self._until(begun))
        with self._locks.own.known:
            if changes == self._changes:
                self._listed[directory] = listing
        return listing

    def _stat(self, place: Place) -> edt.Entry | None:
        import edt

        begun, changes = time.monotonic(), self._changes
        try:
            entry: edt.Entry | None = self._questions.stat(place)
        except (edt.NotFoundError, edt.WrongTypeError):
            entry = None
        with self._locks.own.known:
            if changes == self._changes:
                self._single[place] = (entry, self._until(begun))
        return entry

    def _follow(self, place: Place, told: edt.Entry | None) -> edt.Entry | None:
        """Describes a link as Snakemake describes one of this machine: by the later time, and by what it leads to."""
        import edt

        if told is None or not _is_followed(place, told):
            return told
        begun, changes = time.monotonic(), self._changes
        try:
            size, modified_ns = self._questions.followed(place)
        except edt.WrongTypeError:  # a directory
            entry: edt.Entry | None = told
        except edt.NotFoundError:
            entry = None
        else:
            times = [each for each in (told.modified_ns, modified_ns) if each is not None]
            entry = replace(told, size=size, modified_ns=max(times, default=None), mode=None)
        with self._locks.own.known:
            if changes == self._changes:
                self._followed[place] = _Followed(told, entry, self._until(begun))
        return entry

    def _until(self, begun: float) -> float:
        now = time.monotonic()
        return now + max(self._ttl, _WORTH * (now - begun))


def _is_followed(place: Place, entry: edt.Entry | None) -> bool:
    return entry is not None and entry.kind == "symlink" and place.scheme in FOLLOWED


def _up(place: Place) -> list[Place]:
    """The place, and all directories above it."""
    places = [place]
    while places[-1].path:
        places.append(places[-1].parent)
    return places

"""Staging lanes: where a batch arrives before its files get their names, and where an interrupted one is gone on with.

Snakemake removes the local path of an input that it could not get, so nothing that is to be resumed can lie there.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from snakemake_storage_plugin_edt.locks import lock

# Nobody comes back for what is older, in seconds.
_FORGOTTEN = 14 * 24 * 3600

# Where a transfer to a lane keeps what has not arrived whole.
_PARTIAL = ".edt"


@dataclass(frozen=True)
class Lane:
    """A directory that one batch has for itself."""

    path: Path

    @property
    def data(self) -> Path:
        """Where the files arrive, under their names below the root of the batch."""
        return self.path / "data"

    @property
    def wanted(self) -> Path:
        """The file that says what the batch fetches, and what earlier ones have left; it goes with the last of that."""
        return self.path / "wanted"

    def begin(self, root: str, names: Collection[str]) -> bool:
        """Notes what the batch fetches, and whether it goes on with another one; what one from elsewhere left goes."""
        left = self.unfinished(root) or set()
        goes_on = not left.isdisjoint(names)
        if not goes_on:
            self.clear()
        self.data.mkdir(parents=True, exist_ok=True)
        self._note(root, left.union(names) if goes_on else names)
        return goes_on

    def end(self, root: str, names: Collection[str]) -> None:
        """Removes what a complete batch had here; what an earlier one has left of others stays for who asks for it."""
        for name in names:
            _remove(self.data / name)
        is_partial = (self.path / _PARTIAL).exists()
        others = (self.unfinished(root) or set()).difference(names)
        left = {name for name in others if is_partial or os.path.lexists(self.data / name)}
        if left:
            self._note(root, left)
        else:
            self.clear()

    def _note(self, root: str, names: Collection[str]) -> None:
        text = json.dumps({"root": _digest(root), "names": sorted(names)})
        part = self.wanted.with_suffix(".part")
        part.write_text(text)
        part.replace(self.wanted)

    def unfinished(self, root: str) -> set[str] | None:
        """What an interrupted batch from this root was to fetch; `None` if there is none."""
        try:
            noted = json.loads(self.wanted.read_text())
        except (OSError, ValueError):
            return None
        return set(noted["names"]) if noted["root"] == _digest(root) else None

    def clear(self) -> None:
        """Removes all that lies here."""
        for entry in self.path.iterdir():
            if entry.name != "lock":
                _remove(entry)


def _remove(path: Path) -> None:
    """Removes what is there, if anything is."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _digest(root: str) -> str:
    """What tells roots apart; they may hold passwords."""
    return blake2b(root.encode(errors="surrogateescape"), digest_size=16).hexdigest()


@contextmanager
def lane(folder: Path, root: str, names: Collection[str]) -> Iterator[Lane]:
    """Takes the free lane in which most of `names` were under way already, else an unused one, until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set(names)
    number = 0
    while True:
        lanes = sorted((Lane(path) for path in folder.iterdir() if path.is_dir()), key=lambda lane: lane.path.name)
        lanes.sort(key=lambda lane: _rank(lane, root, wanted))
        for candidate in [found for found in lanes if _rank(found, root, wanted) <= 0]:
            held = lock(candidate.path / "lock")
            if held is not None:
                try:
                    yield candidate
                finally:
                    os.close(held)
                return
        number = len(lanes)
        while (folder / f"{number}").exists():
            number += 1
        (folder / f"{number}").mkdir(exist_ok=True)


def _rank(lane: Lane, root: str, wanted: set[str]) -> int:
    """Below 0 the more of `wanted` is under way there, 0 if nothing is, above 0 if only other things are."""
    try:
        age = time.time() - lane.wanted.stat().st_mtime
    except OSError:
        return 0
    if age > _FORGOTTEN:
        return 0
    return -len((lane.unfinished(root) or set()) & wanted) or 1

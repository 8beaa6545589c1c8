"""Finds the best setting of each peer by a small search, and keeps what it found for later runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from copies import Copied
from peers.peer import Peer, Setting

MARGIN = 1.5
"""A setting that takes this many times as long as the best so far is stopped."""


@dataclass(frozen=True)
class Found:
    """The best setting, and the goodput in bits per second of each that was tried; 0 where it failed or was stopped."""

    best: Setting
    tried: dict[str, float]


def best_of(settings: Sequence[Setting], limit_s: float, measure: Callable[[Setting, float], Copied]) -> Found:
    """Tries each setting once, within a limit drawn from the best before it; the first wins if none gets through."""
    best, tried = settings[0], dict.fromkeys((setting.name for setting in settings), 0.0)
    for setting in settings:
        run = measure(setting, limit_s)
        if run.slower or run.failed:
            continue
        tried[setting.name] = run.goodput_bps
        if run.goodput_bps > tried[best.name] or best is setting:
            best = setting
        limit_s = min(limit_s, MARGIN * run.wall_s)
    return Found(best, tried)


class Known:
    """The best settings that were found, by path, data set and peer; for the version of the peer that had them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.entries: dict[str, dict[str, object]] = json.loads(file.read_text()) if file.exists() else {}

    def setting(self, key: str, peer: Peer, version: str) -> Setting | None:
        """What is known; `None` if nothing is, or if the peer has changed since."""
        entry = self.entries.get(key)
        names = {setting.name for setting in peer.settings}
        if entry is None or entry["version"] != version or entry["best"] not in names:
            return None
        return peer.setting(str(entry["best"]))

    def learn(self, key: str, version: str, found: Found) -> None:
        """Keeps what a search found."""
        tried = {name: round(goodput / 1e6) for name, goodput in found.tried.items()}
        self.entries[key] = {"best": found.best.name, "version": version, "tried_mbps": tried}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(self.entries, indent=1, sort_keys=True) + "\n")

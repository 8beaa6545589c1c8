"""What experiments over paths share: what was asked for, the data sets that lie ready, and copies that are kept."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass

import datasets
import paths
import peers
from copies import Copied, Data, copied
from peers.peer import Peer, Setting
from points import Point, Points
from processes import Workplace
from results import FOLDER, identity
from settings import Known, best_of

CACHE_BYTES = 6 << 30
"""Most bytes of data sets that lie ready on tmpfs; a copy needs as much again as it moves."""

KEPT = FOLDER / "tmp"
"""Where finished points are kept until the experiment ends, and after."""

SEARCH_S = 2.0
"""How long a copy at the path's rate takes in a search."""
SEARCH_LIMIT_S = 8.0
UNLIMITED_BPS = 4e9
"""What data sets are scaled by where the path has no rate."""


@dataclass(frozen=True)
class Options:
    """What a run of the benchmarks was asked for; `None` leaves it to the experiment."""

    quick: bool = True
    paths: tuple[str, ...] | None = None
    datasets: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    repetitions: int | None = None
    seconds: float | None = None
    """How long a copy at the path's rate shall take; data sets are scaled to it."""
    resume: bool = False
    search: bool = False
    deadline: float | None = None
    """When, on the clock of `time.monotonic`, nothing more is begun; `None`: never."""
    cells: str | None = None
    """A regular expression that the names of cells of the grid hold."""
    optimizers: tuple[str, ...] | None = None
    congestion: tuple[str, ...] = ("cubic",)
    keep_fixed: bool = False
    """With `resume`, transfers with a constant concurrency are kept whatever build of edt made them, if it was measured
    by the same code and over the same emulator of paths."""

    @property
    def scale(self) -> str:
        """As the results name it."""
        return "quick" if self.quick else "full"

    def scale_beside(self, repetitions: int, seconds: float) -> str:
        """The same where so much is usual: what is less says so, so that nobody takes it for the whole."""
        asked: list[tuple[float | None, float, str]] = [
            (self.repetitions, repetitions, "repetitions"),
            (self.seconds, seconds, "s"),
        ]
        less = [f"{own:g} of {usual:g} {unit}" for own, usual, unit in asked if own and own < usual]
        return ", ".join([self.scale, *less])


class Bench:
    """One experiment at work."""

    def __init__(self, name: str, options: Options, place: Workplace) -> None:
        self.options = options
        self.place = place
        kept = KEPT / f"{name}-{options.scale}.json"
        self.points = Points(kept, identity(), resume=options.resume, deadline=options.deadline)
        self.known = Known(FOLDER / "settings.json")
        self.ready: dict[str, Data] = {}

    def tools(self, names: tuple[str, ...]) -> list[Peer]:
        """The peers that were asked for, or else those given; one that is not installed is named and left out."""
        chosen = [peers.ALL[name] for name in self.options.tools or names]
        for peer in chosen:
            if missing := peer.missing():
                print(f"  {peer.name}: skipped, {', '.join(missing)} not installed (see --install)", file=sys.stderr)
        return [peer for peer in chosen if not peer.missing()]

    def data(self, name: str, scale: float) -> Data:
        """A data set that lies ready; the oldest go when there are too many bytes."""
        key = f"{name}-{scale:.6f}"
        if key not in self.ready:
            size = datasets.size_of(name, scale)
            while self.ready and size.bytes + sum(data.size.bytes for data in self.ready.values()) > CACHE_BYTES:
                shutil.rmtree(self.ready.pop(next(iter(self.ready))).path)
            directory = self.place.empty(f"source-{key}")
            self.ready[key] = Data(name, directory, datasets.make(name, directory, scale))
            # The first two reads of a new page cost the kernel more than all later ones: no tool is to pay for them.
            for _ in range(2):
                datasets.read(directory)
        return self.ready[key]

    def copy(self, key: str, ends: paths.Ends, peer: Peer, setting: Setting, data: Data, limit_s: float) -> Copied:
        """One copy, kept under `key`; what is known already is not measured again."""

        def measure() -> Point:
            run = copied(self.place, ends, peer, setting, data, limit_s)
            state = run.failed or ("slower than the limit" if run.slower else f"{run.goodput_bps / 1e6:,.0f} Mbit/s")
            print(f"  {key}: {state}", flush=True)
            return run.record()

        return Copied(**self.points.measured(key, measure))

    def best(self, ends: paths.Ends, peer: Peer, name: str) -> Setting:
        """The best setting of a peer there: a known one, or what a search over all of them finds now.

        A quick run searches only if it is told to, and otherwise leaves a peer of which nothing is known as it comes.
        """
        default = peer.settings[0]
        if len(peer.settings) == 1:
            return default
        key, version = f"{ends.path} {name} {peer.name}", peers.versions([peer.name])[peer.name]
        setting = None if self.options.search else self.known.setting(key, peer, version)
        if setting or (self.options.quick and not self.options.search):
            return setting or default
        data = self.data(name, self.scale(ends, name, min(SEARCH_S, self.options.seconds or SEARCH_S)))
        found = best_of(
            peer.settings,
            SEARCH_LIMIT_S,
            lambda each, limit: self.copy(f"search {key} {each.name}", ends, peer, each, data, limit),
        )
        self.known.learn(key, version, found)
        return found.best

    def uncapped(self, name: str, seconds: float, ends: paths.Ends) -> float:
        """The scale at which a copy takes so long, also where that is more than the whole data set."""
        return seconds * (ends.rate_bps or UNLIMITED_BPS) / 8 / datasets.size_of(name).bytes

    def scale(self, ends: paths.Ends, name: str, seconds: float) -> float:
        """The scale at which a copy at the path's rate takes so long."""
        return datasets.scale_for(name, seconds * (ends.rate_bps or UNLIMITED_BPS) / 8)


def rotated(peers_in_turn: list[Peer], repetition: int) -> list[Peer]:
    """The same peers, another one first each time, so that none always follows the same."""
    shift = repetition % max(1, len(peers_in_turn))
    return peers_in_turn[shift:] + peers_in_turn[:shift]

"""Optimizers as the grid, the steps and the shares run them, and agents that are trained for a path."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import emulated
import paths
from experiments.agents import Serving, environ
from processes import EDT, Failed, Workplace
from timed import supply

USUAL = ("auto", "model", "falcon", "marlin", "generalist")
"""What is compared unless something else is asked for; one that this build does not have is left out."""
AGENTS = {"edt": 1, "drl": 1, "automdt": 3}
"""Optimizers that are trained for each path, and the stages in which it is explored for them."""
EXPLORE_S = 20
MOST_EXPLORED = 30
TRAIN_S = 120
"""After how long a training ends, wherever it is."""


@dataclass(frozen=True)
class Run:
    """One transfer that is to be made: its name, and the options of `edt cp`."""

    name: str
    words: tuple[str, ...]


def constant(streams: int) -> Run:
    """A constant concurrency."""
    return Run(f"fixed {streams}", ("--optimizer", "fixed", "--concurrency", str(streams)))


def optimizer(name: str, *, seed: int = 0, agent: Path | None = None) -> Run:
    """An optimizer; with its agent, and the seed of what that draws, if it is one that is trained."""
    trained = ("--agent", str(agent), "--seed", str(seed)) if agent else ()
    return Run(name, ("--optimizer", name, *trained))


@functools.cache
def registered() -> tuple[str, ...]:
    """The names of all optimizers, as the help of `edt cp` lists them."""
    text = subprocess.run([EDT, "cp", "--help"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"--optimizer <NAME>.*?\[possible values: ([^\]]+)\]", text, re.DOTALL)
    if not found:
        raise Failed("the help of `edt cp` does not list its optimizers")
    return tuple(re.split(r",\s*", found[1].strip()))


def asked(names: tuple[str, ...] | None, usual: tuple[str, ...] = USUAL) -> tuple[str, ...]:
    """The optimizers that were asked for, all of which must exist, or else those of the usual ones that do."""
    if names is None:
        return tuple(name for name in usual if name in registered())
    if unknown := [name for name in names if name not in registered()]:
        raise Failed(f"this build of edt has no optimizer {', '.join(unknown)}; it has {', '.join(registered())}")
    return names


def congestions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those congestion controls that the kernel has for paths; the others are named and left out."""
    found = []
    for name in names:
        try:
            with emulated.Path.start(congestion=name):
                found.append(name)
        except emulated.Unavailable as error:
            print(f"  {name}: skipped, {error}", file=sys.stderr)
    if not found:
        raise Failed("no path can be made with any of the congestion controls that were asked for")
    return tuple(found)


class Trainer:
    """Explores a path and trains agents for it, which are kept in a folder."""

    def __init__(self, place: Workplace, folder: Path, source: Path, build: str) -> None:
        self.place, self.folder, self.source, self.build = place, folder, source, build

    def file(self, path: str, kind: str) -> Path:
        """Where an agent is kept: one that another build has explored for and trained is another agent."""
        return self.folder / f"{path}-{kind}-{self.build}.safetensors"

    def train(self, path: str, kind: str, overrides: dict[str, str]) -> None:
        """Trains an agent for a path of these parameters."""
        found = self.place.empty("explored") / "path.json"
        self.explore(path, AGENTS[kind], overrides, found)
        fresh = found.with_name("agent.safetensors")
        words = ["--path", found, "--agent", kind, "--output", fresh, "--seconds", TRAIN_S, "--json", "--quiet"]
        # 1: kept, though it did not reach 0.9 of the best reward.
        self.edt("train", *words, limit_s=3 * TRAIN_S, allowed=(0, 1))
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.move(fresh, self.file(path, kind))

    def explore(self, path: str, stages: int, overrides: dict[str, str], found: Path) -> None:
        """Measures a path from memory to memory, or from directory to directory with three stages."""
        limits = ["--seconds", EXPLORE_S, "--max-streams", MOST_EXPLORED, "--stages", stages]
        with emulated.Path.start(schedule=None, **overrides) as running:
            ends = paths.ends_of(path, running)
            source: str | Path = "zero:"
            if stages == 3:
                source = supply(self.source, self.place, 0.0, EXPLORE_S)
            with Serving(self.place, ends, []) as url:
                words = [*ends.near.prefix, EDT, "explore", "--plain", *limits, "--output", found, source, url]
                self.run(words, limit_s=6 * EXPLORE_S)

    def edt(self, *words: object, limit_s: float, allowed: tuple[int, ...] = (0,)) -> None:
        """Runs edt here."""
        self.run([EDT, *words], limit_s=limit_s, allowed=allowed)

    def run(self, command: list[object], *, limit_s: float, allowed: tuple[int, ...] = (0,)) -> None:
        """Runs a command to its end."""
        words = [str(word) for word in command]
        try:
            ended = subprocess.run(
                words,
                env=environ(self.place.environment),
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"`{' '.join(words[-6:])}` took longer than {limit_s:g} s") from error
        if ended.returncode not in allowed:
            raise Failed(f"`{' '.join(words[-6:])}` ended with {ended.returncode}\n{ended.stderr[-1500:]}")

"""What the experiments found, kept as JSON with the machine, the commit and the versions."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from processes import EDT, ROOT

FOLDER = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Figure:
    """One measured quantity with its spread over the repetitions, and the bar it is held to, if there is one."""

    what: str
    unit: str
    values: list[float]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def worst(self) -> float:
        """The value that counts for a bar on a peak; for the others the median does."""
        return max(self.values)

    @property
    def passed(self) -> bool | None:
        """Whether the bar is met; `None` where there is none."""
        if self.at_least is not None:
            return self.median >= self.at_least
        if self.at_most is not None:
            return (self.worst if self.unit in ("MiB", "B") else self.median) <= self.at_most
        return None


@dataclass(frozen=True)
class Table:
    """Figures that are read side by side."""

    title: str
    header: list[str]
    rows: list[list[str]]


@dataclass
class Outcome:
    """What one experiment found."""

    name: str
    about: str
    figures: list[Figure]
    scale: str
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    points: dict[str, Any] = field(default_factory=dict)
    """Raw values by key, from which plots are drawn."""
    versions: dict[str, str] = field(default_factory=dict)


def keep(outcome: Outcome, command: str) -> bool:
    """Writes an outcome with machine, commit and versions to its JSON file; true if every bar is met."""
    passed = all(figure.passed is not False for figure in outcome.figures)
    known = facts()
    document = {
        **asdict(outcome),
        "passed": passed,
        "command": command,
        "identity": identity(),
        **known,
        "versions": {**known["versions"], **outcome.versions},
    }
    for entry, figure in zip(document["figures"], outcome.figures, strict=True):
        entry["passed"] = figure.passed
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{outcome.name}.json").write_text(json.dumps(document, indent=1) + "\n")
    return passed


def is_known(name: str, scale: str) -> bool:
    """Whether an experiment has results of this scale of what would be measured now."""
    document = load(name)
    return bool(document) and (document.get("identity"), document["scale"]) == (identity(), scale)


def earlier(name: str) -> dict[str, Any]:
    """The points that an experiment's results tell of, whatever was measured."""
    points: dict[str, Any] = load(name).get("points", {})
    return points


def load(name: str) -> dict[str, Any]:
    """The results of an experiment; nothing if there are none."""
    try:
        document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    except (OSError, ValueError):
        return {}
    return document


def identity() -> str:
    """What a measurement belongs to: the commit, what was changed since, and the program that was measured."""
    others = ("--", ".", ":!benchmarks/results", ":!benchmarks/RESULTS.md")
    commit = output("git", "log", "-1", "--format=%h", "--abbrev=12", *others)
    changes = output("git", "diff", "HEAD", *others)
    return f"{commit} {digest(changes.encode() + program())}"


def program() -> bytes:
    """The program that is measured."""
    return EDT.read_bytes() if EDT.exists() else b""


def digest(content: bytes) -> str:
    """A short name for bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def facts() -> dict[str, Any]:
    """The machine, the commit and the versions behind a measurement."""
    changes = output(
        "git",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        ":!benchmarks/results",
        ":!benchmarks/RESULTS.md",
    )
    dirty = "+changes" if changes else ""
    return {
        "machine": {
            "cpu": processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": f"{platform.system()} {platform.release().split('-')[0]}",
        },
        "commit": output("git", "rev-parse", "--short=12", "HEAD") + dirty,
        "versions": {
            "edt": output(str(EDT), "--version"),
            "rustc": output("rustc", "--version"),
            "c++": output("c++", "--version").split("\n")[0],
            "python": platform.python_version(),
        },
    }


def processor() -> str:
    """The model of the CPU as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def output(*command: str) -> str:
    """What a command prints, or nothing where it cannot be run."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def number(value: float) -> str:
    """A figure with three significant digits, large ones whole with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"

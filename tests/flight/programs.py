"""Flight clients in other languages: where their sources are, how they are built, and how they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "target" / "flight"
JAVA = ("java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-Dslf4j.internal.verbosity=ERROR")
"""Java's library reads the address of direct buffers, and would say that there is no log."""


DEBIAN = {"mvn": ("maven", "openjdk-17-jdk-headless")}
"""What brings a tool that is missing, where packages may be installed. Debian's Go is too old for Arrow's library."""


@dataclass(frozen=True)
class Source:
    """A client's source: the tool that builds it, the command for that, and what tells that it is built."""

    tool: str
    build: tuple[str, ...]
    made: Path

    def newest(self, name: str) -> float:
        """When the source was last changed."""
        return max(path.stat().st_mtime for path in (HERE / name).rglob("*") if path.is_file())


SOURCES = {
    "java": Source(
        "mvn", ("mvn", "-q", "-B", f"-Dbuilt={FOLDER / 'java'}", "package"), FOLDER / "java" / "flight-client-1.jar"
    ),
    "go": Source(
        "go", ("go", "build", "-trimpath", "-o", str(FOLDER / "go" / "client"), "."), FOLDER / "go" / "client"
    ),
}


def absence(name: str) -> str | None:
    """Why a client cannot be run; `None` if it can."""
    source = SOURCES[name]
    if not source.made.exists():
        return "not built" if shutil.which(source.tool) else f"not built: `{source.tool}` is not installed"
    return "older than its source" if source.made.stat().st_mtime < source.newest(name) else None


def installable(name: str) -> bool:
    """Whether what builds a client is there, or is a package of the distribution."""
    return SOURCES[name].tool in DEBIAN or shutil.which(SOURCES[name].tool) is not None


class Program:
    """A client that is built."""

    def __init__(self, name: str) -> None:
        self.command: Sequence[str] = [str(SOURCES[name].made)]
        if name == "java":
            classes = f"{SOURCES[name].made}:{FOLDER / 'java' / 'libraries'}/*"
            self.command = [*JAVA, "-cp", classes, "edt.FlightClientProgram"]

    def run(self, *words: str | Path, secret: str) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        return subprocess.run(
            [*self.command, *map(str, words)],
            env={**os.environ, "EDT_TOKEN": secret},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

"""Workflows in directories of their own, run by real Snakemake processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from harness import Server

CORES = 4

# Whether this is a recent Snakemake, and not the older one that the plugin is tested with too.
CURRENT = tuple(map(int, version("snakemake").split(".")[:2])) >= (9, 19)

# A journal of this length, in bytes, tells of more than 16 MB.
ENOUGH = 2800


@dataclass(frozen=True)
class Outcome:
    """How a run of Snakemake ended."""

    code: int
    log: str

    def transfers(self, word: str = "edt: ") -> list[str]:
        """The lines in which the plugin tells of transfers that ended."""
        return [line for line in self.log.splitlines() if line.startswith(word) and " in " in line]

    def files(self) -> int:
        """Files that all transfers moved."""
        counts = [re.search(r"([\d,]+) files?\b", line) for line in self.transfers()]
        return sum(int(count[1].replace(",", "")) for count in counts if count)


class Workflow:
    """A Snakefile and its working directory. Whatever is no path of it lies on the server, below `data`."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        self.data = server.root / "data"
        self.data.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)

    def rules(self, text: str) -> None:
        """Writes the Snakefile."""
        (self.folder / "Snakefile").write_text(textwrap.dedent(text))

    def beside(self, name: str) -> Workflow:
        """Another working directory on the same server, with the same rules."""
        other = Workflow(self.folder.with_name(name), self.server)
        (other.folder / "Snakefile").write_text((self.folder / "Snakefile").read_text())
        return other

    def start(self, *options: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts Snakemake; the caller ends it."""
        command = [sys.executable, "-m", "snakemake", "--nocolor", "--cores", str(CORES)]
        command += [
            "--default-storage-provider",
            "edt",
            "--default-storage-prefix",
            self.server.url("data"),
        ]
        return subprocess.Popen(
            [*command, *options],
            cwd=self.folder,
            env={**os.environ, **self.server.edt.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def run(self, *options: str, expected: int = 0, environment: Mapping[str, str] | None = None) -> Outcome:
        """Runs Snakemake to its end, and holds it to its exit code."""
        outcome = ended(self.start(*options, environment=environment))
        assert outcome.code == expected, f"exit code {outcome.code}\n{outcome.log[-6000:]}"
        return outcome

    def put(self, name: str, content: bytes | str) -> Path:
        """Puts a file on the server."""
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


def ended(process: subprocess.Popen[str], timeout: float = 60) -> Outcome:
    """Waits for the end; one that does not come is brought about, and the test fails."""
    try:
        log, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill(process)
        log, _ = process.communicate()
        raise AssertionError(f"no end within {timeout} s\n{log[-6000:]}") from None
    return Outcome(process.returncode, log)


def kill(process: subprocess.Popen[str]) -> None:
    """Ends Snakemake and all its children by SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)


def journaled(lanes: Path) -> int:
    """Bytes of the journals of all that is under way: about 40 for each 256 KiB that are there."""
    return sum(path.stat().st_size for path in lanes.rglob("journal"))

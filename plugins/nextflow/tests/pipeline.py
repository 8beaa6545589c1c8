"""A folder with a pipeline that real Nextflow processes run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import programs
from harness import Edt


@dataclass(frozen=True)
class Run:
    """How a run of Nextflow ended."""

    code: int
    out: str
    log: str

    def lines(self, begin: str) -> list[str]:
        """The lines of its output that begin so, without that."""
        return [line.removeprefix(begin) for line in self.out.splitlines() if line.startswith(begin)]

    def submitted(self) -> int:
        """How many tasks it submitted."""
        return len(re.findall(r"Submitted process >", self.out))

    def cached(self) -> int:
        """How many tasks it found done."""
        return len(re.findall(r"Cached process >", self.out))

    def staged(self) -> int:
        """How many files the summary says were staged."""
        found = re.search(r"edt: staged (\d+) file", self.out)
        return int(found[1]) if found else 0


class Pipeline:
    """Runs scripts in a launch directory of its own."""

    def __init__(self, folder: Path, edt: Edt, version: programs.Version = programs.OLDEST, java: str = "java") -> None:
        self.folder = folder
        self.before: tuple[str, ...] = ()
        """What is put before the command that runs Nextflow."""
        self.version = version
        self.java = java
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {**edt.environment, **programs.environment(programs.home(folder.parent / "nextflow-home"))}
        for name in ("EDT_TOKEN", "EDT_CONFIG_DIR", "EDT_DATA_DIR"):
            self.environment[name] = edt.environment[name]

    @property
    def work(self) -> Path:
        """The work directory."""
        return self.folder / "work"

    def configure(self, text: str = "") -> None:
        """Writes the configuration."""
        (self.folder / "nextflow.config").write_text(f"plugins {{ id 'nf-edt@0.1.0' }}\n{text}\n")

    def start(self, script: str, *words: str) -> subprocess.Popen[bytes]:
        """Starts a run."""
        (self.folder / "main.nf").write_text(script)
        if not (self.folder / "nextflow.config").exists():
            self.configure()
        command = [
            *self.before,
            *programs.command(self.version, self.java),
            "-log",
            "nextflow.log",
            "run",
            "main.nf",
            *words,
        ]
        with (self.folder / "out").open("wb") as out:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def run(self, script: str, *words: str, expected: int | None = 0, timeout: float = 120) -> Run:
        """Runs a script to its end, and holds it to its exit code."""
        process = self.start(script, *words)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill(process)
            code = -1
        run = Run(code, (self.folder / "out").read_text(), (self.folder / "nextflow.log").read_text())
        assert expected is None or (code == expected if expected == 0 else code > 0), (
            f"{code}\n{run.out}\n{run.log[-6000:]}"
        )
        return run

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Ends a run and its tasks by SIGKILL."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def moved_mb(self) -> float:
        """Megabytes that the latest line of progress tells of."""
        told = re.findall(r"^edt: .* files, ([\d.]+) MB.* streams$", (self.folder / "out").read_text(), re.MULTILINE)
        return float(told[-1]) if told else 0.0

    def kept_mb(self, run: Run) -> float:
        """Megabytes that the summary of a run says were there from an earlier attempt."""
        found = re.search(r"([\d.]+) MB were there from an earlier attempt", run.out)
        return float(found[1]) if found else 0.0

    def staged(self) -> list[Path]:
        """The files that Nextflow has staged."""
        return [path for path in self.work.glob("stage-*/*/*/**/*") if path.is_file()]


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Waits for something that another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)

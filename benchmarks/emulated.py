"""A path of a given rate, delay and loss between two network namespaces: the Python face of `benchmarks/path`."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, Literal

ROOT = File(__file__).resolve().parent.parent
PROGRAM = File(os.environ.get("EDT_PATH_BINARY", ROOT / "target" / "release" / "edt-path"))
Side = Literal["near", "far"]


class Unavailable(RuntimeError):
    """No path can be made here, or it ended by itself."""


@dataclass(frozen=True)
class End:
    """One end of a path: the network namespace, and the IPv4 address in it."""

    namespace: str
    address: str


class Path:
    """A running path; as a context manager it is removed at the end of the block."""

    def __init__(self, command: Sequence[str | File], folder: File) -> None:
        self.folder = folder
        self.log = (folder / "log").open("w+b")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            said = (folder / "log").read_text(errors="replace").strip()
            self.stop()
            raise Unavailable(said or "the path emulator ended without a word")
        ready = json.loads(line)
        self.near = End(**ready["near"])
        self.far = End(**ready["far"])
        self.profile: dict[str, Any] = ready["profile"]
        """The parameters: rates in bits per second, times in milliseconds, sizes in bytes, loss as a share."""

    @classmethod
    def start(
        cls, profile: str = "cloudlab", *, schedule: Sequence[dict[str, Any]] | None = None, **overrides: str | float
    ) -> Path:
        """Starts a path and returns once it carries packets.

        `overrides` are the options of `edt-path run` with underscores: `rate="1G"`, `rtt="67ms"`, `stream_rate="none"`,
        `loss="0.1%"`, `queue=65536`, `mtu=1500`, `congestion="bbr"`. Times of the `schedule` are seconds from now.
        """
        program = build()
        folder = File(tempfile.mkdtemp(prefix="edt-path-"))
        command: list[str | File] = [program, "run", "--profile", profile, "--report", folder / "report"]
        if schedule is not None:
            (folder / "schedule").write_text(json.dumps(list(schedule)))
            command += ["--schedule", folder / "schedule"]
        for name, value in overrides.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        return cls(command, folder)

    def command(self, side: Side, argv: Sequence[str | File]) -> list[str]:
        """The command that runs another one at one end."""
        return ["ip", "netns", "exec", (self.near if side == "near" else self.far).namespace, *map(str, argv)]

    def samples(self) -> list[dict[str, Any]]:
        """What the path said of each second so far; see `benchmarks/path/README.md`."""
        # A last line without its end is still being written.
        lines = (self.folder / "report").read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Removes the path and its report; returns the exit code."""
        self.process.send_signal(number)
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code

    def __enter__(self) -> Path:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def build() -> File:
    """The program, compiled if it is not there yet."""
    if not PROGRAM.exists():
        command = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "edt-path"]
        command += ["--target-dir", str(ROOT / "target")]
        try:
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        except OSError as error:
            raise Unavailable(f"`{PROGRAM.name}` is not built, and cargo cannot be run: {error}") from error
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"`{PROGRAM.name}` cannot be built: {error.stderr[-500:]}") from error
    return PROGRAM


@functools.cache
def missing() -> str | None:
    """What is missing here for a path, in one sentence; `None` if a short-lived path showed that nothing is."""
    if sys.platform != "linux":
        return "network namespaces and TUN devices need Linux"
    if os.geteuid() != 0:
        return "network namespaces and TUN devices need the rights of root"
    if not os.path.exists("/dev/net/tun"):
        return "the device /dev/net/tun is not there"
    if not shutil.which("ip"):
        return "the command `ip` of iproute2 is not installed"
    try:
        program = build()
        trial = subprocess.run([program, "run", "--", "true"], capture_output=True, text=True, timeout=20, check=False)
    except (Unavailable, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if trial.returncode == 0 else (trial.stderr.strip().split("\n")[0] or f"exit code {trial.returncode}")

"""Starts edt and the programs it is compared with as real processes, and measures what each of them cost."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parent.parent
EDT = Path(os.environ.get("EDT_BINARY", ROOT / "target" / "release" / "edt"))
MIB = 1 << 20


@dataclass(frozen=True)
class Cost:
    """What a process and the descendants it waited for cost: wall time, CPU time, and the peak of resident memory."""

    wall_s: float
    user_s: float
    system_s: float
    peak_mib: float

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


class Failed(RuntimeError):
    """A process ended with another status than expected."""


class TooSlow(RuntimeError):
    """A process did not end within its limit, and was killed."""


class Measured:
    """A running process whose end is awaited through `wait4`, so that its own resource usage is known.

    Its peak of memory is read from `/proc` while it runs: `wait4` would tell that of the process it was forked from, if
    that was larger.
    """

    running: ClassVar[list[Measured]] = []
    look_s: ClassVar[float] = 0.02
    """How often the peak of memory is read: growth in the last such moment is missed."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], *, talks: bool = True) -> None:
        self.command = [str(word) for word in command]
        self.log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (closed by `end`)
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            # Nobody reads what a copy prints: a full pipe would stop it.
            stdout=subprocess.PIPE if talks else self.log,
            stderr=self.log,
            start_new_session=True,
        )
        self.running.append(self)
        self.peak_mib = 0.0
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def watch(self) -> None:
        """Keeps the peak of memory until the process is gone."""
        status = Path(f"/proc/{self.process.pid}/status")
        with suppress(OSError):
            while found := re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE):
                self.peak_mib = int(found[1]) / 1024
                time.sleep(self.look_s)

    def line(self) -> str:
        """The next line of its standard output; fails if there is none."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline().decode()
        if not text:
            raise Failed(f"`{self.command[0]}` ended early\n{self.errors()}")
        return text.rstrip("\n")

    def errors(self) -> str:
        """What it wrote to standard error so far."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]

    def end(self, *, expected: int = 0, limit_s: float | None = None) -> Cost:
        """Waits for its end; fails on another exit status than the expected one, and after `limit_s` seconds."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.kill()

        timer = threading.Timer(limit_s - (time.monotonic() - self.begin), give_up) if limit_s else None
        if timer:
            timer.start()
        _, status, usage = os.wait4(self.process.pid, 0)
        wall = time.monotonic() - self.begin
        if timer:
            timer.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.running.remove(self)
        if self.process.stdout:
            self.process.stdout.close()
        with self.log:
            if late.is_set():
                raise TooSlow(f"`{self.command[0]}` took longer than {limit_s} s")
            if self.process.returncode != expected:
                command = " ".join(self.command[:6])
                raise Failed(f"`{command} ...` ended with {self.process.returncode}\n{self.errors()}")
        self.watcher.join()
        return Cost(wall, usage.ru_utime, usage.ru_stime, self.peak_mib or usage.ru_maxrss / 1024)

    def stop(self, number: signal.Signals = signal.SIGTERM, *, expected: int = 0) -> Cost:
        """Ends it by a signal."""
        # Not `Popen.send_signal`: it may reap, and `wait4` would then find nothing.
        os.kill(self.process.pid, number)
        return self.end(expected=expected)

    def dismiss(self, limit_s: float = 5.0) -> None:
        """Ends it whatever it does: asks first, because a reaper then ends the servers that it stands for."""
        os.kill(self.process.pid, signal.SIGTERM)
        with suppress(Failed, TooSlow):
            self.end(limit_s=time.monotonic() - self.begin + limit_s)

    def kill(self) -> None:
        """Kills it and what it started in its own process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@dataclass
class Workplace:
    """A scratch directory, on tmpfs where there is one, with a secret and a configuration of its own."""

    path: Path
    secret: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def environment(self) -> dict[str, str]:
        """What edt processes need: the secret, directories that are not the user's, and no broker.

        Transfers that stand for those of different hosts must not know of each other, though they run on one. The
        history is another one each time: no transfer goes by those before it.
        """
        data = self.path / "edt-data" / secrets.token_hex(8)
        own = {"EDT_CONFIG_DIR": str(self.path / "config"), "EDT_DATA_DIR": str(data)}
        return {"EDT_TOKEN": self.secret, "EDT_BROKER": "off", **own}

    def empty(self, name: str) -> Path:
        """An empty directory of that name; what it held is removed."""
        directory = self.path / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def serve(
        self, directory: Path, *options: str, host: str = "127.0.0.1", within: Sequence[str] = ()
    ) -> tuple[Measured, int]:
        """Starts `edt serve` on a free port of `host`, and returns it with the port.

        `within` is put before the command, to run it in a network namespace.
        """
        command: list[str | Path] = [*within, EDT, "serve", "--listen", f"{host}:0", *options, directory]
        server = Measured(command, self.environment)
        return server, port_of(server.line())

    def copy(self, *words: str | Path, talks: bool = False) -> Measured:
        """Starts `edt cp`; with `talks` the caller reads what it prints."""
        return Measured([EDT, "cp", *words], self.environment, talks=talks)

    def report(self, *words: str | Path) -> tuple[Cost, dict[str, Any]]:
        """Runs `edt cp` to its end, and returns its cost and its report."""
        file = self.path / "report.json"
        cost = self.copy("--report", file, *words).end()
        report: dict[str, Any] = json.loads(file.read_text())
        return cost, report


@contextmanager
def workplace(directory: Path | None = None) -> Iterator[Workplace]:
    """A workplace that is removed at the end, with every process that is still running by then."""
    parent = directory or (Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None)
    path = Path(tempfile.mkdtemp(prefix="edt-bench-", dir=parent))
    try:
        yield Workplace(path)
    finally:
        for left in list(Measured.running):
            left.dismiss()
        shutil.rmtree(path, ignore_errors=True)


class Processors:
    """The processors of this machine from now on."""

    def __init__(self) -> None:
        self.begin = self.ticks()

    @staticmethod
    def ticks() -> tuple[int, int]:
        """Ticks of all processors until now, and those in which they had nothing to do [proc(5), `/proc/stat`]."""
        user, nice, system, idle, waiting, *others = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        )
        return user + nice + system + idle + waiting + sum(others), idle + waiting

    def idle(self) -> float:
        """The share of the time in which they had nothing to do, 0 to 1."""
        every, idle = (now - then for now, then in zip(self.ticks(), self.begin, strict=True))
        return idle / every if every else 1.0


def port_of(line: str) -> int:
    """The port in a line `listening on HOST:PORT`."""
    return int(line.rsplit(":", 1)[1])


def compiled(name: str) -> Path:
    """Compiles `benchmarks/NAME.cpp` if it is newer than its program, and returns the program."""
    source = ROOT / "benchmarks" / f"{name}.cpp"
    program = ROOT / "target" / "benchmarks" / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CXX", "c++")
        subprocess.run([compiler, "-std=c++20", "-O2", "-Wall", "-pthread", "-o", program, source], check=True)
    return program

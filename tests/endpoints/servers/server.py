"""What all servers have in common: a process on a free port, awaited until it answers, ended whatever happens."""

from __future__ import annotations

import getpass
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from endpoints.programs import missing
from servers import REAPER, free_port

HOST = "127.0.0.1"
USER = "edt"
PASSWORD = "edt-password"
ACCOUNT = getpass.getuser()
"""Who runs the tests; an sshd that is not root's lets in nobody else."""


@dataclass(frozen=True)
class Place:
    """A fresh, empty folder on a server: its URL, and what a client must find in its environment."""

    url: str
    environment: Mapping[str, str]
    root: Path | None = None
    """The same folder in the local file system, where the server keeps files as files."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(ABC):
    """A server of somebody else's, run in a scratch folder of its own."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    """Names in the table of `programs.py`."""
    greeting: ClassVar[bytes] = b""
    """What makes it answer; nothing where the server speaks first."""
    ready_s: ClassVar[float] = 30.0
    keeps_files: ClassVar[bool] = True
    """Whether files lie below the root as files."""

    def __init__(self, scratch: Path | None = None) -> None:
        """Files go below `scratch`, or into a folder for temporary files."""
        self.scratch = Path(tempfile.mkdtemp(prefix=f"edt-{self.name}-", dir=scratch))
        self.home = self.scratch / "home"
        """A home directory for clients: ssh and netrc files are here."""
        self.home.mkdir()
        self.root = self.scratch / "root" if self.keeps_files else None
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.numbers = itertools.count(1)

    @classmethod
    def missing(cls) -> str | None:
        """What is not installed, or `None`."""
        return ", ".join(filter(None, map(missing, cls.needs))) or None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it is, for clients of its protocol."""

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """What a client needs: credentials, addresses, certificates."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """The command that runs it in the foreground; configuration files are written first."""

    @abstractmethod
    def place(self) -> Place:
        """A fresh, empty folder."""

    def answers(self) -> bool:
        """Whether it serves already; asked until it does."""
        return speaks(self.port, self.greeting)

    def start(self) -> None:
        """Starts it, on the port and with the files it had before if it ran before; returns once it answers."""
        if self.root:
            self.root.mkdir(exist_ok=True)
        with (self.scratch / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, REAPER, self.scratch / "cost.json", *self.command()],
                env={**os.environ, **self.own_environment()},
                cwd=self.scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        limit = time.monotonic() + self.ready_s
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.kill()
                raise RuntimeError(f"`{self.name}` does not answer on port {self.port}\n{self.output()}")
            time.sleep(0.02)

    def own_environment(self) -> dict[str, str]:
        """What the server itself finds in its environment."""
        return {}

    def output(self) -> str:
        """The last of what it printed."""
        return (self.scratch / "log").read_text(errors="replace")[-6000:]

    def kill(self) -> None:
        """Ends it by SIGKILL; its files stay, and it can be started again."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
            self.process = None

    def stop(self) -> None:
        """Ends it, and removes its files."""
        if self.process:
            # The reaper passes this on, insists after a while, and ends what the server left behind.
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(8)
        self.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def fresh(self) -> str:
        """A name that no other place has."""
        return f"place-{next(self.numbers)}"

    def folder(self) -> str:
        """The name of a fresh folder below the root."""
        assert self.root
        name = self.fresh()
        (self.root / name).mkdir()
        return name


def speaks(port: int, greeting: bytes) -> bool:
    """Whether a server on this machine says anything, after a greeting if there is one."""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(greeting)
            return connection.recv(1) != b""
    except OSError:
        return False

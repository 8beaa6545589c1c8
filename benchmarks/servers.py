"""Servers of peers: awaited until they listen, and stopped with the CPU time of all that they forked."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from paths import End
from processes import Cost, Failed, Measured

REAPER = Path(__file__).resolve().parent / "reaper.py"
LISTENING = "0A"
"""The state of a listening socket in /proc/PID/net/tcp."""


class Server:
    """A running server of a peer, and everything that it forks."""

    def __init__(
        self, end: End, command: Sequence[str | Path], port: int, scratch: Path, environment: Mapping[str, str]
    ) -> None:
        self.cost_file = scratch / f"cost-{port}.json"
        self.begin = time.monotonic()
        self.reaper = Measured(
            [*end.prefix, sys.executable, REAPER, self.cost_file, *command], environment, talks=False
        )
        self.wait_until_listening(port)

    def wait_until_listening(self, port: int, limit_s: float = 10.0) -> None:
        """Watches the sockets of the server's network namespace: a connection on trial would disturb some servers."""
        limit = time.monotonic() + limit_s
        while not listens(self.reaper.process.pid, port):
            ended = os.waitid(os.P_PID, self.reaper.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended or time.monotonic() > limit:
                errors = self.reaper.errors()
                self.stop()
                raise Failed(f"`{' '.join(self.reaper.command[-4:])}` does not listen on port {port}\n{errors}")
            time.sleep(0.01)

    def stop(self) -> Cost:
        """Ends the server; what it cost covers all that it started, since it was started."""
        self.reaper.stop()
        found = json.loads(self.cost_file.read_text())
        return Cost(time.monotonic() - self.begin, found["user_s"], found["system_s"], found["peak_mib"])


def listens(pid: int, port: int) -> bool:
    """Whether a socket listens on a port in the network namespace of a process."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == LISTENING and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False


def free_port() -> int:
    """A port that nobody uses at this moment, below those that the system gives to whoever asks for any."""
    any_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Where the system gives all of them to anybody there are none below.
    any_from = any_from if any_from > 4096 else 32_768
    while True:
        port = random.SystemRandom().randrange(max(1024, any_from // 2), any_from)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port

"""What the end-to-end tests stand on: real edt processes, seeded trees, and snapshots taken without edt."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EDT = Path(os.environ.get("EDT_BINARY", ROOT / "target" / "release" / "edt"))
SECRET = "a shared secret for the tests, long enough"
MIB = 1 << 20
STAGING = ".edt"
Json = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a run of edt ended."""

    code: int
    out: str
    err: str

    def events(self) -> list[Json]:
        """The JSON events on standard output; the last is the report."""
        return [json.loads(line) for line in self.out.splitlines()]

    def totals(self) -> Json:
        """The last totals of a sample or of the report; zeros if the run ended before any."""
        found = [event["totals"] for event in self.events() if "totals" in event]
        totals: Json = found[-1] if found else {"bytes_verified": 0, "bytes_sent": 0}
        return totals


class Running:
    """A command at work. Its standard output can be followed line by line, and its end awaited afterwards."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        # Standard error goes to a file: a pipe that is read only at the end would stop the command once it is full.
        self.errors = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (closed by `end`)
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            errors="replace",
        )
        self.lines: list[str] = []

    def totals_until(self, enough: Callable[[Json], bool]) -> Json:
        """Follows JSON events until the totals of a sample satisfy `enough`, or the end; returns the last totals."""
        assert self.process.stdout is not None
        totals: Json = {"bytes_verified": 0, "bytes_sent": 0}
        for line in iter(self.process.stdout.readline, ""):
            self.lines.append(line)
            event = json.loads(line)
            if event["event"] == "sampled":
                totals = event["totals"]
                if enough(totals):
                    break
        return totals

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def end(self, timeout: float = 60) -> Outcome:
        """Waits for the end; one that does not come is brought about, and the test fails."""
        assert self.process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(timeout, give_up)
        timer.start()
        with self.process.stdout, self.errors:
            out = "".join(self.lines) + self.process.stdout.read()
            code = self.process.wait()
            timer.cancel()
            self.errors.seek(0)
            err = self.errors.read().decode(errors="replace")
        assert not late.is_set(), f"no end within {timeout} s\n{err}\n{out[-2000:]}"
        return Outcome(code, out, err)

    def kill(self) -> Outcome:
        """Ends it by SIGKILL, unless it was over before; returns how it ended."""
        self.process.kill()
        return self.end()


class Edt:
    """The command line, with an environment of its own: no test reads or writes what is the user's."""

    def __init__(self, home: Path) -> None:
        folders = {"EDT_CONFIG_DIR": "config", "EDT_DATA_DIR": "edt-data", "EDT_BROKER_DIR": "edt-broker"}
        own = {variable: str(home / folder) for variable, folder in folders.items()}
        self.environment = {**os.environ, "EDT_TOKEN": SECRET, **own}
        for name in ("EDT_LOG", "EDT_HISTORY", "EDT_HISTORY_DAYS", "EDT_BROKER"):
            self.environment.pop(name, None)

    def start(self, *words: str | Path, secret: str = SECRET) -> Running:
        """Starts a command; the caller waits for it."""
        return Running([str(EDT), *map(str, words)], {**self.environment, "EDT_TOKEN": secret})

    def run(self, *words: str | Path, secret: str = SECRET, timeout: float = 60) -> Outcome:
        """Runs a command to its end."""
        return self.start(*words, secret=secret).end(timeout)

    def copy(self, *words: str | Path, expected: int = 0, timeout: float = 60) -> Outcome:
        """Runs `edt cp --json`, and holds it to its exit code."""
        outcome = self.run("cp", "--json", *words, timeout=timeout)
        assert outcome.code == expected, f"exit code {outcome.code}\n{outcome.err}\n{outcome.out[-2000:]}"
        return outcome


class Server:
    """A real `edt serve` process that can be killed and started again on the same port."""

    def __init__(
        self, edt: Edt, root: Path, *options: str, host: str = "127.0.0.1", within: Sequence[str] = ()
    ) -> None:
        """`host` is the address to listen on; `within` is put before the command, to run it in a network namespace."""
        self.edt = edt
        self.root = root
        self.host = host
        self.within = within
        self.options = options
        self.port = 0
        self.start()

    def start(self) -> None:
        """Starts the process, on the port it had before if it had one."""
        self.log = (self.root.parent / f"{self.root.name}.log").open("ab")
        listen = f"{self.host}:{self.port}"
        command = [*self.within, str(EDT), "serve", "--listen", listen, *self.options, str(self.root)]
        self.process = subprocess.Popen(
            command, env=self.edt.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("listening on "), f"the server said {line!r}\n{self.errors()}"
        self.port = int(line.rsplit(":", 1)[1])

    def url(self, path: str = "", *, port: int | None = None) -> str:
        """The URL of a path below the root."""
        return f"edt://{self.host}:{port or self.port}/{path}"

    def errors(self) -> str:
        """What it wrote to standard error."""
        return (self.root.parent / f"{self.root.name}.log").read_text(errors="replace")

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        self.process.kill()
        self.close()

    def stop(self, timeout: float = 40) -> int:
        """Asks it to end by SIGTERM, and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout)
        return self.close()

    def close(self) -> int:
        """Waits for a process that is ending, and frees what was held for it."""
        code = self.process.wait(10)
        if self.process.stdout:
            self.process.stdout.close()
        self.log.close()
        return code

    def peak_mib(self) -> float:
        """The peak of its resident memory so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024


def at_least(bytes_verified: int) -> Callable[[Json], bool]:
    """Whether that many bytes are verified at the destination."""
    return lambda totals: bool(totals["bytes_verified"] >= bytes_verified)


def fill(path: Path, size: int, seed: object) -> None:
    """Makes a file of seeded bytes that do not compress."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(str(seed)).randbytes(size))


def mixed_tree(root: Path, seed: object, *, large: int = 8 * MIB, small: int = 60) -> int:
    """Makes one large file, two medium and many small ones in some directories; returns their size."""
    sizes = random.Random(f"sizes {seed}")
    fill(root / "large.bin", large, f"{seed} large")
    for number in range(2):
        fill(root / "medium" / f"{number}.bin", sizes.randint(300_000, MIB), f"{seed} medium {number}")
    for number in range(small):
        fill(root / "small" / str(number % 5) / f"{number}.bin", sizes.randint(0, 16_384), f"{seed} small {number}")
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Node:
    """One entry of a tree, as the operating system tells it."""

    kind: str
    content: str
    mode: int
    modified_ns: int


def walk(root: Path) -> Iterator[str]:
    """The relative names of everything below a root, without what edt keeps there for resuming."""
    for folder, directories, files in os.walk(root):
        here = Path(folder)
        if here == root and STAGING in directories:
            directories.remove(STAGING)
        for name in [*directories, *files]:
            yield str((here / name).relative_to(root))


def snapshot(root: Path) -> dict[str, Node]:
    """The whole tree: kinds, SHA-256 of contents, link targets, modes, and modification times in nanoseconds."""
    return {name: node(root / name) for name in walk(root)}


def node(path: Path) -> Node:
    """Describes one entry."""
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Node("link", str(path.readlink()), 0, 0)
    if stat.S_ISDIR(status.st_mode):
        return Node("directory", "", mode, status.st_mtime_ns)
    return Node("file", hashlib.sha256(path.read_bytes()).hexdigest(), mode, status.st_mtime_ns)


def contents(root: Path) -> dict[str, str]:
    """The SHA-256 of every file of a tree."""
    return {name: node.content for name, node in snapshot(root).items() if node.kind == "file"}


def assert_no_wrong_file(source: Path, destination: Path) -> None:
    """Holds every file under a final name to its source: some may be missing, none may be wrong."""
    expected = contents(source)
    for name, digest in contents(destination).items():
        assert expected.get(name) == digest, f"{name!r} stands under its final name with wrong or partial content"


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 20) -> None:
    """Waits for something that another process does."""
    limit = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < limit, f"{what} did not happen within {timeout} s"
        time.sleep(0.01)


def connected(port: int) -> socket.socket:
    """A plain TCP connection to a port of this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=10)

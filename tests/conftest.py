"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from emulated import Path as EmulatedPath
from emulated import missing
from harness import Edt, Server


@pytest.fixture(scope="session", autouse=True)
def _history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Transfers of this process, and of those that it starts, keep no record among the user's, and share nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDT_DATA_DIR", str(tmp_path_factory.mktemp("edt-data")))
        patch.setenv("EDT_BROKER_DIR", str(tmp_path_factory.mktemp("edt-broker")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> Iterator[None]:
    """Ctrl-C reaches this process and those that it starts, even if a shell began the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory, on tmpfs where there is one."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="edt-test-", dir=parent))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def edt(scratch: Path) -> Edt:
    """The command line, with a configuration directory of its own."""
    return Edt(scratch)


@pytest.fixture
def database(edt: Edt) -> Path:
    """Where the history of the test lies."""
    return Path(edt.environment["EDT_DATA_DIR"]) / "history.db"


@pytest.fixture
def serve(edt: Edt, scratch: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers; those that still run are killed at the end."""
    servers: list[Server] = []

    def start(root: Path | None = None, *options: str) -> Server:
        root = root or scratch / "served"
        root.mkdir(parents=True, exist_ok=True)
        servers.append(Server(edt, root, *options))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    """A server whose root is `served` in the scratch directory."""
    return serve()


@pytest.fixture
def emulated_path() -> Iterator[Callable[..., EmulatedPath]]:
    """Starts emulated paths, by profile and overrides; the test is skipped where there can be none."""
    if reason := missing():
        pytest.skip(f"no path can be emulated here: {reason}")
    with ExitStack() as paths:
        yield lambda *profile, **overrides: paths.enter_context(EmulatedPath.start(*profile, **overrides))


@pytest.fixture
def source(scratch: Path) -> Path:
    """An empty directory to copy from."""
    path = scratch / "source"
    path.mkdir()
    return path


@pytest.fixture
def mount(scratch: Path) -> Iterator[Callable[[Path, str], None]]:
    """Mounts a tmpfs with options; the test is skipped where that is not permitted."""
    mounted: list[Path] = []

    def make(path: Path, options: str) -> None:
        path.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("mounting a small file system is not permitted here")
        mounted.append(path)

    yield make
    for path in reversed(mounted):
        with suppress(OSError):
            subprocess.run(["umount", "-l", str(path)], check=False)

"""Fixtures of the plugin's tests: real servers of edt, and workflows that real Snakemake processes run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Edt, Server
from workflow import Workflow


@pytest.fixture(scope="session", autouse=True)
def _history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Transfers of this process leave no record among the user's, and share nothing with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDT_DATA_DIR", str(tmp_path_factory.mktemp("edt-data")))
        patch.setenv("EDT_BROKER_DIR", str(tmp_path_factory.mktemp("edt-broker")))
        yield


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory, on tmpfs where there is one."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="edt-test-", dir=parent))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def edt(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Edt:
    """The command line; this process shares its secret and its directories."""
    edt = Edt(scratch)
    for name in ("EDT_TOKEN", "EDT_CONFIG_DIR", "EDT_DATA_DIR", "EDT_BROKER_DIR"):
        monkeypatch.setenv(name, edt.environment[name])
    return edt


@pytest.fixture
def serve(edt: Edt, scratch: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers; those that still run are killed at the end."""
    servers: list[Server] = []

    def start(*options: str) -> Server:
        root = scratch / "served"
        root.mkdir(exist_ok=True)
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
def workflow(scratch: Path, server: Server) -> Workflow:
    """A workflow whose default storage is the server."""
    return Workflow(scratch / "work", server)

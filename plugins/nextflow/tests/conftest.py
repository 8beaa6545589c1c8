"""Fixtures of the plugin's tests: real servers of edt, and pipelines that real Nextflow processes run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import programs
from endpoints.servers.server import Server as OtherServer
from harness import Edt, Server
from pipeline import Pipeline


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory, on tmpfs where there is one."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="edt-test-", dir=parent))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def edt(scratch: Path) -> Edt:
    """The command line; pipelines share its secret and its configuration directory."""
    return Edt(scratch)


@pytest.fixture
def server(edt: Edt, scratch: Path) -> Iterator[Server]:
    """A server whose root is `served` in the scratch directory."""
    (scratch / "served").mkdir()
    server = Server(edt, scratch / "served")
    yield server
    if server.process.poll() is None:
        server.kill()


@pytest.fixture
def pipeline(scratch: Path, edt: Edt) -> Pipeline:
    """A pipeline in the oldest Nextflow."""
    if why := programs.absence():
        pytest.skip(why)
    return Pipeline(scratch / "launch", edt)


@pytest.fixture
def serving(scratch: Path) -> Iterator[Callable[[type[OtherServer]], OtherServer]]:
    """Starts servers of others; where one is not installed, skips the test, or fails it (`EDT_ENDPOINTS=all`)."""
    with ExitStack() as stack:

        def start(kind: type[OtherServer]) -> OtherServer:
            if why := kind.missing():
                message = f"{kind.name}: not installed: {why}; run `python tests/endpoints/install.py`"
                if os.environ.get("EDT_ENDPOINTS") == "all":
                    pytest.fail(message, pytrace=False)
                pytest.skip(message)
            return stack.enter_context(kind(scratch))

        yield start

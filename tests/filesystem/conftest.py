"""A real server for the tests of the file system, one for all of them: each test has a directory of its own there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from edt.fsspec import EdtFileSystem
from harness import Edt, Server

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose secret and configuration this process shares."""
    home = tmp_path_factory.mktemp("home")
    edt = Edt(home)
    (home / "served").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("EDT_TOKEN", "EDT_CONFIG_DIR", "EDT_DATA_DIR"):
            patch.setenv(name, edt.environment[name])
        server = Server(edt, home / "served")
        yield server
        server.kill()
        EdtFileSystem.clear_instance_cache()


@pytest.fixture
def fs(world: Server) -> EdtFileSystem:
    """The file system of the server, without what other tests have seen of it."""
    fs = EdtFileSystem("127.0.0.1", world.port)
    fs.invalidate_cache()
    return fs


@pytest.fixture
def place(world: Server) -> Path:
    """A directory of the test's own at the server, as this machine sees it."""
    path = world.root / f"test-{next(_NUMBERS)}"
    path.mkdir()
    return path


@pytest.fixture
def fs_path(place: Path) -> str:
    """The same directory as the file system names it."""
    return f"/{place.name}"


@pytest.fixture
def url(world: Server, place: Path) -> str:
    """The same directory as a URL, with a slash at its end."""
    return world.url(f"{place.name}/")

"""Fixtures of the tests of the Python package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import edt

FILES = {"a.txt": b"alpha", "empty": b"", "sub/b.bin": os.urandom(3_000_000), "sub/deep/c": b"c" * 70_000}


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret and a configuration directory of the test's own, for this process and those that it starts."""
    monkeypatch.setenv("EDT_TOKEN", "a secret for tests only, 0123456789")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setenv("EDT_DATA_DIR", str(tmp_path / "edt-data"))
    monkeypatch.setenv("EDT_BROKER_DIR", str(tmp_path / "edt-broker"))
    for name in ("EDT_HISTORY", "EDT_BROKER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory to copy from, with the content of `FILES`."""
    for name, content in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "tree"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where to copy to; nothing is there."""
    return tmp_path / "target"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[edt.Server, Path]]:
    """A server in this process, and its root."""
    root = tmp_path / "served"
    root.mkdir()
    with edt.serve(root) as server:
        yield server, root

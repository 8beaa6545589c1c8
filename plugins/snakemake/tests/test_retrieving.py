"""What becomes of local copies: directories that jobs read, and what earlier batches have left."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from harness import Server
from snakemake_storage_plugin_edt import StorageObject, StorageProvider, StorageProviderSettings
from snakemake_storage_plugin_edt.lanes import lane
from snakemake_storage_plugin_edt.locks import lock


def storage(scratch: Path, **settings: Any) -> StorageProvider:
    """A provider with settings."""
    return StorageProvider(
        local_prefix=scratch / "local", logger=logging.getLogger("edt"), settings=StorageProviderSettings(**settings)
    )


@pytest.mark.parametrize("cache", [False, True])
def test_a_directory_that_is_here_already_is_not_taken_from_those_who_read_it(
    scratch: Path, server: Server, cache: bool
) -> None:
    (server.root / "d/empty").mkdir(parents=True)
    (server.root / "d/f").write_text("x")
    provider = storage(scratch, cache_dir=str(scratch / "cache") if cache else None)
    found: StorageObject = provider.object(server.url("d"))
    asyncio.run(found.managed_retrieve())
    brought = found.local_path().stat().st_ino
    # As a second job that waited while the first one fetched it.
    asyncio.run(found.managed_retrieve())
    assert found.local_path().stat().st_ino == brought
    (server.root / "d/empty").rmdir()
    (server.root / "d/g").write_text("x")
    asyncio.run(found.managed_retrieve())
    assert {path.name: path.read_text() for path in found.local_path().iterdir()} == {"f": "x", "g": "x"}
    # The time alone tells of it.
    (server.root / "d/f").write_text("y")
    os.utime(server.root / "d/f", ns=(1, 1))
    asyncio.run(found.managed_retrieve())
    assert {path.name: path.read_text() for path in found.local_path().iterdir()} == {"f": "y", "g": "x"}


def test_what_an_earlier_batch_has_left_of_another_object_is_not_thrown_away(scratch: Path, server: Server) -> None:
    (server.root / "small").write_text("x")
    provider = storage(scratch)
    found: StorageObject = provider.object(server.url("small"))
    root, lanes = found.place.root, scratch / "local/.edt/lanes"
    with lane(lanes, root, ["large", "small"]) as interrupted:
        interrupted.begin(root, ["large", "small"])
        (interrupted.data / "large").write_text("nearly all of it")
    asyncio.run(found.managed_retrieve())
    assert found.local_path().read_text() == "x"
    # The batch leaves its lane after the file was handed over.
    free = None
    while free is None:
        free = lock(interrupted.path / "lock")
    os.close(free)
    assert (interrupted.data / "large").read_text() == "nearly all of it"
    with lane(lanes, root, ["large"]) as again:
        assert again.path == interrupted.path


@pytest.mark.parametrize("cache", [False, True])
def test_a_name_may_have_as_many_bytes_as_file_systems_allow(scratch: Path, server: Server, cache: bool) -> None:
    name = "ä" * 127
    for path in (f"{name}/f", f"d/{name}"):
        (server.root / path).parent.mkdir()
        (server.root / path).write_text("x")
    provider = storage(scratch, cache_dir=str(scratch / "cache") if cache else None)
    directory: StorageObject = provider.object(server.url(name))
    file: StorageObject = provider.object(server.url(f"d/{name}"))
    for found in (directory, file):
        asyncio.run(found.managed_retrieve())
    assert (directory.local_path() / "f").read_text() == file.local_path().read_text() == "x"

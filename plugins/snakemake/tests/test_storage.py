"""Snakemake's own suite for storage plugins, on an edt server and on S3, and what it leaves out."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import edt
import pytest
from snakemake.io import IOCache

from harness import Server, wait_until
from snakemake_storage_plugin_edt import StorageObject, StorageProvider, StorageProviderSettings
from snakemake_storage_plugin_edt.lanes import lane
from snakemake_storage_plugin_edt.query import Place
from snakemake_storage_plugin_edt.questions import Questions

Base: Any = importlib.import_module("snakemake_interface_storage_plugins.tests").TestStorageBase


class OfServer(Base):  # type: ignore[misc]
    """The suite on an edt server."""

    touch = True

    @pytest.fixture(autouse=True)
    def _served(self, server: Server) -> None:
        self.url = server.url()

    def get_query(self, tmp_path: Path) -> str:
        return f"{self.url}some dir/test.txt"

    def get_query_not_existing(self, tmp_path: Path) -> str:
        return f"{self.url}nothing/here.txt"

    def get_storage_provider_cls(self) -> type[StorageProvider]:
        return StorageProvider

    def get_storage_provider_settings(self) -> StorageProviderSettings:
        return StorageProviderSettings()


class TestFiles(OfServer):
    __test__ = True
    files_only = True


class TestDirectories(OfServer):
    __test__ = True
    files_only = False


class TestCached(OfServer):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _cache(self, scratch: Path) -> None:
        self.cache = scratch / "cache"

    def get_storage_provider_settings(self) -> StorageProviderSettings:
        return StorageProviderSettings(cache_dir=str(self.cache))


class TestS3(OfServer):
    __test__ = True
    files_only = False

    @pytest.fixture(autouse=True)
    def _served(self, s3: str) -> None:
        self.url = s3

    def get_query(self, tmp_path: Path) -> str:
        return f"{self.url}dir/test.txt"


@pytest.fixture
def s3(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The query of a bucket of VersityGW."""
    programs = importlib.import_module("endpoints.programs")
    if reason := programs.missing("versitygw") or programs.missing("clients"):
        absent = pytest.fail if os.environ.get("EDT_ENDPOINTS") == "all" else pytest.skip
        absent(f"versitygw: not installed: {reason}; run `python tests/endpoints/install.py`")
    server = importlib.import_module("endpoints.servers.versitygw").VersityGw(scratch)
    server.start()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield "edt+s3://edt-test/"
    server.stop()


@pytest.fixture
def provider(scratch: Path, server: Server) -> StorageProvider:
    return StorageProvider(
        local_prefix=scratch / "local", logger=logging.getLogger("edt"), settings=StorageProviderSettings()
    )


def object_at(provider: StorageProvider, server: Server, name: str) -> StorageObject:
    found: StorageObject = provider.object(server.url(name))
    return found


def test_thousands_of_questions_are_a_few_listings(
    provider: StorageProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server.root / "many").mkdir()
    for number in range(2000):
        (server.root / "many" / f"{number}").write_text("x")
    calls = counted(monkeypatch)
    objects = [object_at(provider, server, f"many/{number}") for number in range(2100)]

    async def ask() -> list[bool]:
        return [await found.managed_exists() for found in objects]

    assert asyncio.run(ask()) == [True] * 2000 + [False] * 100
    assert len(calls) <= 4, calls


def test_directories_side_by_side_are_listed_together(
    provider: StorageProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        (server.root / f"runs/{number}").mkdir(parents=True)
        (server.root / f"runs/{number}/out").write_text("xy")
        (server.root / f"runs/{number}/log").write_text("x")
    calls = counted(monkeypatch)
    for number in range(200):
        assert object_at(provider, server, f"runs/{number}/out").size() == 2
        assert object_at(provider, server, f"runs/{number}/log").exists()
        assert not object_at(provider, server, f"runs/{number}/missing").exists()
    assert len(calls) <= 40, len(calls)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Counts the questions that are asked of a storage."""
    calls: list[str] = []
    for name in ("list", "stat"):
        real = getattr(Questions, name)
        monkeypatch.setattr(Questions, name, partialmethod(_noted, calls, real))
    return calls


def _noted(questions: Questions, calls: list[str], real: Callable[..., Any], place: Place, **options: Any) -> Any:
    calls.append(place.query)
    return real(questions, place, **options)


def test_a_session_with_a_server_is_kept_for_a_while_only(
    provider: StorageProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snakemake_storage_plugin_edt.questions._KEPT", 2.0)
    (server.root / "f").write_text("x")
    before = len(established(server))
    assert object_at(provider, server, "f").exists() and not object_at(provider, server, "g").exists()
    assert len(established(server)) - before == 1
    wait_until(lambda: len(established(server)) == before, "the session was closed")
    provider.listings.forget(object_at(provider, server, "f").place)
    assert object_at(provider, server, "f").exists()


def established(server: Server) -> list[str]:
    """The connections to the server that are open."""
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return [line for line in lines if line.split()[2].endswith(f":{server.port:04X}") and line.split()[3] == "01"]


def test_times_are_those_of_the_storage_to_the_nanosecond(provider: StorageProvider, server: Server) -> None:
    (server.root / "f").write_text("x")
    os.utime(server.root / "f", ns=(0, 1_700_000_000_123_456_789))
    found = object_at(provider, server, "f")
    asyncio.run(found.managed_retrieve())
    described = found.local_path().stat()
    assert described.st_mtime_ns == 1_700_000_000_123_456_789
    assert described.st_mtime == found.mtime()


def test_all_retrievals_of_a_round_are_one_transfer(
    provider: StorageProvider, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    (server.root / "d").mkdir()
    for number in range(50):
        (server.root / f"d/{number}").write_text(f"{number}")
    objects = [object_at(provider, server, f"d/{number}") for number in range(50)]

    async def retrieve() -> None:
        async with asyncio.TaskGroup() as group:
            for found in objects:
                group.create_task(found.managed_retrieve())

    with caplog.at_level(logging.INFO, "edt"):
        asyncio.run(retrieve())
    assert [found.local_path().read_text() for found in objects] == [f"{number}" for number in range(50)]
    assert len([record for record in caplog.records if " in " in record.message]) == 1


def test_a_missing_object_is_named_and_the_others_arrive(provider: StorageProvider, server: Server) -> None:
    (server.root / "there").write_text("x")
    there, gone = (object_at(provider, server, name) for name in ("there", "gone"))
    # As if it went after Snakemake had looked.
    (server.root / "gone").write_text("x")
    assert gone.exists() and there.exists()
    (server.root / "gone").unlink()

    async def both() -> Any:
        return await asyncio.gather(there.managed_retrieve(), gone.managed_retrieve(), return_exceptions=True)

    first, second = asyncio.run(both())
    assert first is None and there.local_path().read_text() == "x"
    assert "gone" in str(second) and "attempt 1 of" in str(second)
    assert not gone.local_path().exists()


def test_a_directory_holds_nothing_that_an_earlier_attempt_brought_and_is_gone(
    provider: StorageProvider, server: Server, scratch: Path
) -> None:
    (server.root / "d").mkdir()
    (server.root / "d/kept").write_text("x")
    found = object_at(provider, server, "d")
    with lane(scratch / "local/.edt/lanes", found.place.root, ["d"]) as earlier:
        earlier.begin(found.place.root, ["d"])
        (earlier.data / "d").mkdir()
        (earlier.data / "d/gone").write_text("x")
    asyncio.run(found.managed_retrieve())
    assert [path.name for path in found.local_path().iterdir()] == ["kept"]
    assert [path.name for path in found.local_path().parent.iterdir()] == ["d"]


@pytest.mark.parametrize("cache", [False, True])
def test_a_touched_file_keeps_its_mode(scratch: Path, server: Server, cache: bool) -> None:
    settings = StorageProviderSettings(cache_dir=str(scratch / "cache") if cache else None)
    provider = StorageProvider(local_prefix=scratch / "local", logger=logging.getLogger("edt"), settings=settings)
    for mode in (0o755, 0o600, 0o440):
        file = server.root / f"{mode:o}"
        file.write_text("x")
        file.chmod(mode)
        os.utime(file, ns=(0, 1))
        asyncio.run(object_at(provider, server, file.name).managed_touch())
        assert (stat.S_IMODE(file.stat().st_mode), file.read_text()) == (mode, "x")
        assert file.stat().st_mtime > time.time() - 100


def test_what_the_node_has_is_held_to_the_present_state(scratch: Path, server: Server) -> None:
    settings = StorageProviderSettings(cache_dir=str(scratch / "cache"), stat_ttl=600)
    provider = StorageProvider(local_prefix=scratch / "local", logger=logging.getLogger("edt"), settings=settings)
    (server.root / "f").write_text("old")
    found = object_at(provider, server, "f")
    asyncio.run(found.managed_retrieve())
    assert found.exists()
    (server.root / "f").write_text("newer")
    asyncio.run(found.managed_retrieve())
    assert found.local_path().read_text() == "newer"


def test_a_mounted_object_is_linked_and_not_fetched(scratch: Path, server: Server) -> None:
    provider = mounting(scratch, server)
    (server.root / "exp/f").write_text("x")
    found = object_at(provider, server, "exp/f")
    server.kill()
    assert found.exists() and found.size() == 1 and found.local_footprint() == 0
    asyncio.run(found.managed_retrieve())
    assert found.local_path().is_symlink() and found.local_path().read_text() == "x"


def test_a_mounted_directory_takes_the_place_of_a_local_one(scratch: Path, server: Server) -> None:
    found = object_at(mounting(scratch, server), server, "exp/d")
    (server.root / "exp/d").mkdir()
    (found.local_path() / "old").mkdir(parents=True)
    for _ in range(2):
        asyncio.run(found.managed_retrieve())
        assert found.local_path().readlink() == server.root / "exp/d"
        assert [path.name for path in found.local_path().parent.iterdir()] == ["d"]


def mounting(scratch: Path, server: Server) -> StorageProvider:
    """A provider for which a directory of the server is mounted."""
    (server.root / "exp").mkdir()
    settings = StorageProviderSettings(mounts=f"{server.url('exp')}={server.root / 'exp'}")
    return StorageProvider(local_prefix=scratch / "local", logger=logging.getLogger("edt"), settings=settings)


def test_a_link_is_the_file_that_it_leads_to_with_the_later_time(provider: StorageProvider, server: Server) -> None:
    root = server.root
    (root / "content").write_text("content")
    os.utime(root / "content", ns=(0, 1_700_000_000_000_000_001))
    for name, target, time_ns in (("old", "content", 1_600_000_000), ("new", "content", 1_800_000_000), ("no", "x", 1)):
        (root / name).symlink_to(target)
        os.utime(root / name, ns=(0, time_ns * 10**9), follow_symlinks=False)
    for name in ("old", "new"):
        found = object_at(provider, server, name)
        # What Snakemake takes as the time of an input that is a link of this machine.
        later = max((root / name).lstat().st_mtime, (root / name).stat().st_mtime)
        for _ in range(2):
            assert found.exists() and found.size() == 7 and found.mtime() == later
            asyncio.run(found.managed_retrieve())
            assert found.local_path().read_text() == "content" and not found.local_path().is_symlink()
            assert found.local_path().stat().st_mtime == later
    assert not object_at(provider, server, "no").exists()


def test_a_link_that_leads_nowhere_is_missing_whatever_is_asked_for_first(
    provider: StorageProvider, server: Server
) -> None:
    for name in ("a", "b"):
        (server.root / name).write_text("x")
    (server.root / "dangling").symlink_to("nowhere")
    (server.root / "link").symlink_to("a")
    for order in (("dangling", "a", "link", "b", "none"), ("a", "none", "link", "b", "dangling")):
        cache, told = IOCache(0), {}
        for name in order:
            found = object_at(provider, server, name)
            asyncio.run(found.inventory(cache))
            told[name] = cache.exists_in_storage.get(found.cache_key())
        assert told == {"a": True, "b": True, "dangling": False, "link": True, "none": False}
        assert cache.size[object_at(provider, server, "b").cache_key()] == 1


def test_a_link_that_changed_is_looked_at_anew(scratch: Path, server: Server) -> None:
    settings = StorageProviderSettings(stat_ttl=600, cache_dir=str(scratch / "cache"))
    provider = StorageProvider(local_prefix=scratch / "local", logger=logging.getLogger("edt"), settings=settings)
    for name in ("short", "longer"):
        (server.root / name).write_text(name)
    (server.root / "link").symlink_to("short")
    found = object_at(provider, server, "link")
    asyncio.run(found.managed_retrieve())
    assert found.size() == 5
    (server.root / "link").unlink()
    (server.root / "link").symlink_to("longer")
    asyncio.run(found.managed_retrieve())
    assert found.local_path().read_text() == "longer" and found.size() == 6


def test_questions_wait_for_a_server_that_is_away_for_a_moment(provider: StorageProvider, server: Server) -> None:
    (server.root / "f").write_text("x")
    server.kill()
    back = threading.Timer(0.5, server.start)
    back.start()
    assert object_at(provider, server, "f").exists()
    back.join()


def test_a_removal_waits_for_a_server_that_is_away_for_a_moment(provider: StorageProvider, server: Server) -> None:
    (server.root / "d").mkdir()
    (server.root / "d/f").write_text("x")
    found = object_at(provider, server, "d")
    assert found.exists()
    server.kill()
    back = threading.Timer(0.5, server.start)
    back.start()
    asyncio.run(found.managed_remove())
    back.join()
    assert not (server.root / "d").exists() and not found.exists()


def test_removals_may_be_made_twice(provider: StorageProvider, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (server.root / "f").write_text("x")
    real = edt.remove

    def remove(url: str, **options: Any) -> None:
        real(url, **options)
        raise edt.ConnectionLostError("the answer was lost")

    monkeypatch.setattr(edt, "remove", remove)
    asyncio.run(object_at(provider, server, "f").managed_remove())
    assert not (server.root / "f").exists()


def test_candidates_are_queries_of_the_same_form(provider: StorageProvider, server: Server) -> None:
    for name in ("a", "b"):
        (server.root / f"g/{name}").mkdir(parents=True)
        (server.root / f"g/{name}/x.txt").write_text("x")
    found = object_at(provider, server, "g/{name}/x.txt")
    assert {server.url(f"g/{name}/x.txt") for name in ("a", "b")} <= set(found.list_candidate_matches())
    root = object_at(provider, server, "{name}/a/x.txt")
    assert server.url("g/a/x.txt") in set(root.list_candidate_matches())


def test_names_that_are_not_text_are_found_and_fetched(provider: StorageProvider, server: Server) -> None:
    (server.root / "d").mkdir()
    for name in (b"l\xe9", "lé".encode(), b"plain"):
        (server.root / "d" / os.fsdecode(name)).write_bytes(name)
    matches = object_at(provider, server, "d/{name}").list_candidate_matches()
    assert set(matches) == {server.url(f"d/{name}") for name in ("l%E9", "l%C3%A9", "plain")}
    found = object_at(provider, server, "d/l%E9")
    assert found.exists() and found.size() == 2
    asyncio.run(found.managed_retrieve())
    assert found.local_path().read_bytes() == b"l\xe9"
    (server.root / "d" / os.fsdecode(b"l\xe9")).unlink()
    asyncio.run(found.managed_store())
    assert (server.root / "d" / os.fsdecode(b"l\xe9")).read_bytes() == b"l\xe9"

"""The parts of the plugin, each alone."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake_interface_common.exceptions import WorkflowError

from snakemake_storage_plugin_edt import settings
from snakemake_storage_plugin_edt.cache import Cache, share
from snakemake_storage_plugin_edt.lanes import lane
from snakemake_storage_plugin_edt.locks import Ground, Locks, ground
from snakemake_storage_plugin_edt.query import QueryError, place_of
from snakemake_storage_plugin_edt.settings import mounts_of


def test_importing_the_plugin_loads_neither_edt_nor_threads() -> None:
    code = (
        "import snakemake_interface_storage_plugins.storage_object, sys, threading\n"
        "before = set(sys.modules)\n"
        "import snakemake_storage_plugin_edt\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert 'edt' not in new and threading.active_count() == 1, new\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("query", "url", "suffix"),
    [
        ("edt://h:7632/a//b/", "edt://h/a/b", "edt/h/a/b"),
        ("edt://h:9/a b%20c", "edt://h:9/a%20b%20c", "edt/h_9/a b c"),
        ("edts://[::1]:9/{sample}.txt", "edts://[::1]:9/{sample}.txt", "edts/[__1]_9/{sample}.txt"),
        ("edt+s3://bucket/50%25?x", "s3://bucket/50%25?x", "s3/bucket/50%25?x"),
        ("edt+https://me:secret@h/f?sig=a/b", "https://me:secret@h/f?sig=a/b", "https/me-@h/query-985918eb1661ea7d/f"),
        (r"edt://h/{s,[a-z]+\d{2}}.t t", r"edt://h/{s,[a-z]+\d{2}}.t%20t", r"edt/h/{s,[a-z]+\d{2}}.t t"),
        ("edt+file:///data/x", "file:///data/x", "file/local/data/x"),
        ("edt://h/l%E9/{s}", "edt://h/l%E9/{s}", "edt/h/l\udce9/{s}"),
    ],
)
def test_a_query_names_a_place_and_a_local_path(query: str, url: str, suffix: str) -> None:
    place = place_of(query)
    assert (place.url, place.suffix) == (url, suffix)
    assert place_of(place.query) == place


def test_what_people_see_holds_no_secret() -> None:
    shown = place_of("edt+https://me:secret@h/f?sig=abc").shown()
    assert shown == "edt+https://me:...@h/f?..."


@pytest.mark.parametrize(
    "query",
    [
        *("s3://b/x", "/local", "edt://", "edt:///x", "edt+s3:///x", "edt://h/"),
        *("edt://h/../x", "edt://h/%2e%2e/x", "edt://h/a%2f..%2fx", "edt://h/a%00", "edt+s3://../x"),
    ],
)
def test_what_edt_cannot_reach_is_no_query(query: str) -> None:
    with pytest.raises(QueryError):
        place_of(query)


def test_the_longest_mount_counts() -> None:
    mounts = mounts_of("edt://h/a=/mnt/a, edt://h/a/b/=/mnt/b")
    assert [(mount.url, str(mount.path)) for mount in mounts] == [("edt://h/a/b", "/mnt/b"), ("edt://h/a", "/mnt/a")]


def test_a_mount_that_names_no_directory_is_refused() -> None:
    assert mounts_of("edt://h:7632/a=/mnt/a")[0].url == "edt://h/a"
    with pytest.raises(WorkflowError, match="below the root"):
        mounts_of("edt://h=/mnt")


def test_windows_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the module alone: paths are made by the name of the system too.
    monkeypatch.setattr(settings, "os", SimpleNamespace(name="nt"))
    with pytest.raises(WorkflowError, match="Windows"):
        settings.check(settings.StorageProviderSettings())


def test_two_signatures_of_one_file_have_local_paths_of_their_own() -> None:
    suffixes = {place_of(f"edt+https://h/d/f?{tail}").suffix for tail in ("a/b", "a_b", "a" * 300)}
    assert len(suffixes) == 3 and all(suffix.endswith("/d/f") and len(suffix) < 60 for suffix in suffixes)


@pytest.mark.parametrize("linux", [True, False])
def test_a_name_is_locked_by_one_batch_at_a_time(scratch: Path, monkeypatch: pytest.MonkeyPatch, linux: bool) -> None:
    if not linux:
        monkeypatch.delattr(fcntl, "F_OFD_SETLK", raising=False)
    with Locks(scratch / "locks") as first, Locks(scratch / "locks") as second:
        assert first.take("a") and first.take("a") and second.take("b")
        assert not second.take("a") and not first.take("b")
        first.close()
        assert second.take("a")
    with Locks(scratch / "locks") as third:
        assert third.take("a") and third.take("b")


def test_a_file_system_without_locks_is_used_by_each_node_alone(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home, logger = scratch / "shared", logging.getLogger("edt")
    real, refused = fcntl.flock, errno.ENOLCK

    def flock(file: int, operation: int) -> None:
        if str(home) in os.readlink(f"/proc/self/fd/{file}"):
            raise OSError(refused, os.strerror(refused))
        real(file, operation)

    assert ground(home, logger) == Ground(home, home / "lanes") and not caplog.records
    monkeypatch.setattr(fcntl, "flock", flock)
    found = ground(home, logger)
    assert found == ground(home, logger)
    assert found.lanes.parent == home and found.lanes.name.startswith("lanes-")
    assert home not in found.locks.parents
    assert "no locks" in caplog.text
    assert list(home.glob("probe-*")) == []
    shutil.rmtree(found.locks)
    assert ground(home, logger).lanes != found.lanes, "those who do not see the same locks must not share lanes"
    refused = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        ground(home, logger)


def test_a_batch_goes_on_in_the_lane_where_it_was_interrupted(scratch: Path) -> None:
    with lane(scratch, "edt://h/", ["a", "b"]) as one:
        assert not one.begin("edt://h/", ["a", "b"])
        (one.data / "a").write_text("x")
        with lane(scratch, "edt://h/", ["a"]) as other:
            assert other.path != one.path
    with lane(scratch, "edt://h/", ["c"]) as unrelated:
        assert unrelated.path != one.path
    with lane(scratch, "edt://h/", ["b", "c"]) as again:
        assert again.begin("edt://h/", ["b", "c"])
        assert again.path == one.path and (again.data / "a").exists()
        again.clear()
    with lane(scratch, "edt://other/", ["a"]) as free:
        free.begin("edt://other/", ["a"])
        assert list(free.data.iterdir()) == []


def test_a_batch_that_ends_keeps_what_an_earlier_one_has_left_of_others(scratch: Path) -> None:
    root = "edt://h/"
    with lane(scratch, root, ["a", "b", "c"]) as one:
        one.begin(root, ["a", "b", "c"])
        for name in ("a", "b"):
            (one.data / name).write_text(name)
    with lane(scratch, root, ["b"]) as again:
        assert again.begin(root, ["b"])
        again.end(root, ["b"])
    assert [path.name for path in one.data.iterdir()] == ["a"]
    # Of `c` nothing is there, unless a part of it is.
    with lane(scratch, root, ["c"]) as other:
        assert other.path != one.path
    with lane(scratch, root, ["a"]) as last:
        assert last.begin(root, ["a"]) and last.path == one.path
        last.end(root, ["a"])
    assert [path.name for path in one.path.iterdir()] == ["lock"]
    with lane(scratch, root, ["d", "e"]) as begun:
        begun.begin(root, ["d", "e"])
        (begun.path / ".edt").mkdir()
    with lane(scratch, root, ["d"]) as ended:
        ended.begin(root, ["d"])
        ended.end(root, ["d"])
    assert ended.unfinished(root) == {"e"}
    with lane(scratch, root, ["f", "f/x"]) as nested:
        nested.begin(root, ["f", "f/x"])
        (nested.data / "f").mkdir()
        (nested.data / "f/x").write_text("x")
        # What lies inside of it goes with it.
        nested.end(root, ["f"])
    assert nested.unfinished(root) is None


def test_the_cache_finds_a_file_by_its_state_and_shares_it(scratch: Path) -> None:
    cache = Cache(scratch / "cache", 1000)
    fetched = scratch / "fetched"
    fetched.write_text("content")
    os.utime(fetched, ns=(5, 1_234_567_890_123_456_789))
    cache.add("edt://h/f", fetched, "ab" * 32)
    assert cache.find("edt://h/f", 7, 1) is None and cache.find("edt://h/f", 7, None) is None
    found = cache.find("edt://h/f", 7, 1_234_567_890_123_456_789)
    assert found is not None and not found.stat().st_mode & 0o222
    share(found, scratch / "own", mode=0o640)
    assert (scratch / "own").stat().st_mode & 0o777 == 0o640 and not found.stat().st_mode & 0o222
    assert (scratch / "own").stat().st_ino != found.stat().st_ino
    share(found, scratch / "local")
    assert (scratch / "local").read_text() == "content"
    assert (scratch / "local").stat().st_mtime_ns == 1_234_567_890_123_456_789


def test_the_cache_drops_what_was_not_used_for_longest(scratch: Path) -> None:
    cache = Cache(scratch / "cache", 1000)
    for number in range(4):
        fetched = scratch / "fetched"
        fetched.write_bytes(bytes([number]) * 400)
        os.utime(fetched, ns=(number, number))
        added = cache.add(f"edt://h/{number}", fetched, f"{number:064}")
        os.utime(added.with_name(f"{added.name}.used"), ns=(number, number))
    assert cache.find("edt://h/0", 400, 0) is not None
    cache.trim()
    kept = [number for number in range(4) if cache.find(f"edt://h/{number}", 400, number) is not None]
    assert kept == [0, 3]
    assert len([path for path in (scratch / "cache/index").rglob("*") if path.is_file()]) == 2

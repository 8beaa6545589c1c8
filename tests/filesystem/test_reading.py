"""Reading: ranges, rows of reads, lines, files that change, servers that go away."""

from __future__ import annotations

import gzip
import hashlib
import multiprocessing
import os
import pickle
import random
import threading
import time
from pathlib import Path
from typing import Any

import fsspec
import pytest

import edt
from edt.fsspec import EdtFileSystem
from harness import MIB, Edt, Server, fill


@pytest.fixture
def large(place: Path) -> bytes:
    """The content of `large.bin`, longer than a first window."""
    fill(place / "large.bin", 9 * MIB + 17, "large")
    return (place / "large.bin").read_bytes()


def test_a_url_is_opened_without_any_import(world: Server, place: Path, url: str) -> None:
    (place / "a b.txt").write_text("alpha")
    with fsspec.open(f"{url}a%20b.txt", "r") as file:
        assert file.read() == "alpha"
    fs, path = fsspec.url_to_fs(f"{url}a%20b.txt")
    assert isinstance(fs, EdtFileSystem) and path == f"/{place.name}/a b.txt"
    assert fs.unstrip_protocol(path) == f"{url}a%20b.txt"
    encrypted, _ = fsspec.url_to_fs(f"{url}a%20b.txt".replace("edt://", "edts://"))
    assert encrypted.unstrip_protocol(path).startswith("edts://") and encrypted.cat(path) == b"alpha"


def test_a_name_that_is_not_text_has_a_url(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    (place / os.fsdecode(b"l\xe9")).write_text("latin")
    [path] = fs.ls(fs_path, detail=False)
    url = fs.unstrip_protocol(path)
    assert url.endswith("/l%E9") and fs._strip_protocol(url) == path
    with fsspec.open(url, "r") as file:
        assert file.read() == "latin"


@pytest.mark.parametrize("url", ["edt:///x", "edts:///x", "edt+s3:///x"])
def test_a_url_without_a_host_says_so(url: str) -> None:
    with pytest.raises(ValueError, match="no server is named"):
        fsspec.url_to_fs(url)


def test_ranges_seeks_and_steps_give_the_bytes_of_the_file(fs: EdtFileSystem, fs_path: str, large: bytes) -> None:
    with fs.open(f"{fs_path}/large.bin") as file:
        assert file.size == len(large)
        assert b"".join(iter(lambda: file.read(100_000), b"")) == large
        chance = random.Random(7)
        for _ in range(30):
            start = chance.randrange(len(large))
            length = chance.choice([1, 500, 70_000, 3 * MIB])
            file.seek(start)
            assert file.read(length) == large[start : start + length]
        file.seek(-10, os.SEEK_END)
        assert file.read() == large[-10:] and file.read() == b""
    with pytest.raises(ValueError, match="closed"):
        file.read(1)


@pytest.mark.parametrize("cache_type", ["none", "readahead", "bytes", "blockcache", "all", "background"])
def test_caches_of_fsspec_can_stand_above(fs: EdtFileSystem, fs_path: str, large: bytes, cache_type: str) -> None:
    with fs.open(f"{fs_path}/large.bin", cache_type=cache_type, block_size=MIB) as file:
        assert file.read(10) == large[:10]
        file.seek(5 * MIB)
        assert file.read(2 * MIB) == large[5 * MIB : 7 * MIB]


def test_contents_and_ranges_come_at_once(fs: EdtFileSystem, fs_path: str, large: bytes) -> None:
    path = f"{fs_path}/large.bin"
    fs.pipe({f"{fs_path}/{number}": str(number).encode() for number in range(20)})
    assert fs.cat([f"{fs_path}/{number}" for number in range(20)])[f"{fs_path}/7"] == b"7"
    assert fs.cat_file(path) == large
    assert [fs.cat_file(path, *ends) for ends in [(-5, None), (None, -len(large) + 2), (3, 8), (8, 3)]] == [
        large[-5:],
        large[:2],
        large[3:8],
        b"",
    ]
    ranges = fs.cat_ranges([path, path, f"{fs_path}/none"], [0, 5 * MIB, 0], [10, 9 * MIB, 1])
    assert ranges[:2] == [large[:10], large[5 * MIB : 9 * MIB]] and isinstance(ranges[2], FileNotFoundError)
    assert fs.head(path, 5) == large[:5] and fs.tail(path, 5) == large[-5:]


def test_lines_are_those_of_the_file(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    text = "".join(f"{number} " + "x" * (number % 300) + "\n" for number in range(3000)) + "end"
    (place / "lines.txt").write_text(text)
    (place / "lines.gz").write_bytes(gzip.compress(text.encode()))
    with fs.open(f"{fs_path}/lines.txt") as file:
        assert list(file) == text.encode().splitlines(keepends=True)
        file.seek(5)
        assert file.readline() == text.encode()[5:].split(b"\n")[0] + b"\n"
    parts = [b"x" * 65_535, b"y" * 10, b"\r" * 131_072, b"end"]
    (place / "parts").write_bytes(b"\r\n".join(parts))
    with fs.open(f"{fs_path}/parts") as file:
        # Also where a block ends within what divides them.
        assert [file.readuntil(b"\r\n") for _ in range(5)] == [*(part + b"\r\n" for part in parts[:3]), b"end", b""]
    with fs.open(f"{fs_path}/lines.gz", "r", compression="infer") as file:
        assert file.read() == text


def test_what_cannot_be_read_says_why(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    (place / "directory").mkdir()
    with pytest.raises(FileNotFoundError):
        fs.open(f"{fs_path}/none")
    with pytest.raises(IsADirectoryError):
        fs.open(f"{fs_path}/directory")
    with pytest.raises(IsADirectoryError):
        fs.cat_file(f"{fs_path}/directory")
    with pytest.raises(edt.InvalidInputError):
        fs.cat_file(f"{fs_path}/../outside")


def test_a_file_that_changed_since_it_was_opened_is_an_error(
    fs: EdtFileSystem, fs_path: str, large: bytes, place: Path
) -> None:
    with fs.open(f"{fs_path}/large.bin") as file:
        file.read(10)
        (place / "large.bin").write_bytes(bytes(len(large)))
        file.seek(6 * MIB)
        with pytest.raises(edt.SourceChangedError):
            file.read(10)
    assert fs.cat_file(f"{fs_path}/large.bin", 0, 10) == bytes(10)


def test_links_lead_to_files_below_the_root(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    (place / "a.txt").write_text("alpha")
    (place / "link").symlink_to("a.txt")
    (place / "broken").symlink_to("nowhere")
    (place / "long/roken").parent.mkdir()
    (place / "long/roken").symlink_to("x" * 300)
    info = fs.info(f"{fs_path}/link")
    assert (info["type"], info["size"], info["islink"], info["destination"]) == ("file", 5, True, "a.txt")
    assert fs.cat_file(f"{fs_path}/link") == b"alpha"
    assert {each["name"][-4:]: each["type"] for each in fs.ls(fs_path)} == {
        ".txt": "file",
        "link": "file",
        "oken": "link",
        "long": "directory",
    }
    assert [each["type"] for each in fs.ls(f"{fs_path}/long")] == ["link"]


def test_a_reader_goes_on_when_the_server_comes_back(serve: Any, edt: Edt, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EDT_TOKEN", "EDT_CONFIG_DIR"):
        monkeypatch.setenv(name, edt.environment[name])
    server = serve()
    fill(server.root / "a.bin", 2 * MIB, "a")
    content = (server.root / "a.bin").read_bytes()
    fs = EdtFileSystem("127.0.0.1", server.port, skip_instance_cache=True)
    with fs.open("/a.bin") as file:
        assert file.read(10) == content[:10]
        server.kill()
        server.start()
        assert file.read() == content[10:]
        server.kill()
        file.seek(0)
        fs.invalidate_cache()
        with pytest.raises(ConnectionError):
            fs.cat_file("/a.bin")
        with pytest.raises(ConnectionError):
            fs.exists("/a.bin")


def test_a_server_that_does_not_answer_is_no_empty_directory(
    serve: Any, edt: Edt, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EDT_TOKEN", "EDT_CONFIG_DIR"):
        monkeypatch.setenv(name, edt.environment[name])
    server = serve()
    fill(server.root / "d/e/a.bin", 10, "a")
    fs = EdtFileSystem("127.0.0.1", server.port, skip_instance_cache=True)
    # What is above is known, and what is below is to be asked for.
    fs.ls("/")
    fs.ls("/d")
    server.kill()
    with pytest.raises(ConnectionError):
        fs.glob("/d/*/*.bin")
    with pytest.raises(ConnectionError):
        list(fs.walk("/d"))
    told: list[OSError] = []
    assert [directories for _, directories, _ in fs.walk("/d/e", on_error=told.append)] == []
    assert isinstance(told[0], ConnectionError)


def test_file_systems_and_files_are_pickled(fs: EdtFileSystem, fs_path: str, large: bytes) -> None:
    other = pickle.loads(pickle.dumps(fs))
    assert other == fs
    with fs.open(f"{fs_path}/large.bin") as file:
        file.read(100)
        with pickle.loads(pickle.dumps(file)) as copy:
            assert copy.read(100) == large[100:200]


def _read_in_child(fs: EdtFileSystem, path: str, answer: Any) -> None:
    answer.put(fs.cat_file(path, 0, 10))


def test_a_forked_process_has_connections_of_its_own(fs: EdtFileSystem, fs_path: str, large: bytes) -> None:
    assert fs.cat_file(f"{fs_path}/large.bin", 0, 5) == large[:5]
    fork = multiprocessing.get_context("fork")
    answer = fork.Queue()
    child = fork.Process(target=_read_in_child, args=(fs, f"{fs_path}/large.bin", answer))
    child.start()
    assert answer.get(timeout=20) == large[:10]
    child.join(20)
    assert fs.cat_file(f"{fs_path}/large.bin", 5, 10) == large[5:10]


def test_a_process_that_was_forked_while_a_thread_connected_connects_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def connect(*_: Any) -> object:
        if not begun.is_set():
            begun.set()
            go_on.wait(60)
        return object()

    monkeypatch.setattr("edt._edt.Files", connect)
    fs = EdtFileSystem("127.0.0.1", 1, skip_instance_cache=True)
    connecting = threading.Thread(target=lambda: fs.native)
    connecting.start()
    assert begun.wait(20)
    child = multiprocessing.get_context("fork").Process(target=_connect_in_child, args=(fs,))
    child.start()
    child.join(20)
    child.kill()
    go_on.set()
    connecting.join()
    child.join()
    assert child.exitcode == 0


def _connect_in_child(fs: EdtFileSystem) -> None:
    assert fs.native is not None


def test_a_file_that_was_open_before_a_fork_is_read_in_both_processes(
    fs: EdtFileSystem, fs_path: str, large: bytes
) -> None:
    fork = multiprocessing.get_context("fork")
    answer = fork.Queue()
    with fs.open(f"{fs_path}/large.bin", "rb") as file:
        # In order, so that threads read ahead.
        begin = file.read(1 << 20) + file.read(1 << 20)
        child = fork.Process(target=_go_on_in_child, args=(file, answer))
        child.start()
        assert answer.get(timeout=20) == large[2 << 20 : (2 << 20) + 10]
        child.join(20)
        assert begin + file.read(10) == large[: (2 << 20) + 10]


def test_many_processes_that_were_forked_read_all_of_a_file_again_and_again(
    fs: EdtFileSystem, fs_path: str, large: bytes
) -> None:
    fork = multiprocessing.get_context("fork")
    answer = fork.Queue()
    with fs.open(f"{fs_path}/large.bin", "rb") as file:
        # Threads that read ahead, and rest by now.
        file.read(3 * MIB)
        time.sleep(1)
        children = [fork.Process(target=_read_all_in_child, args=(file, answer)) for _ in range(4)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        assert [child.exitcode for child in children] == [0] * 4
    assert [answer.get(timeout=5) for _ in range(12)] == [hashlib.sha256(large).hexdigest()] * 12


def _read_all_in_child(file: Any, answer: Any) -> None:
    for _ in range(3):
        file.seek(0)
        answer.put(hashlib.sha256(file.read()).hexdigest())


def _go_on_in_child(file: Any, answer: Any) -> None:
    answer.put(file.read(10))

"""Files of other services through fsspec: a bucket of S3, and a web server."""

from __future__ import annotations

import functools
import http.server
import importlib
import os
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fsspec
import pandas
import pytest

from edt.fsspec import EdtHttpFileSystem, EdtS3FileSystem
from harness import MIB, fill


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket of VersityGW."""
    programs = importlib.import_module("endpoints.programs")
    if reason := programs.missing("versitygw") or programs.missing("clients"):
        absent = pytest.fail if os.environ.get("EDT_ENDPOINTS") == "all" else pytest.skip
        absent(f"versitygw: not installed: {reason}; run `python tests/endpoints/install.py`")
    server = importlib.import_module("endpoints.servers.versitygw").VersityGw(tmp_path)
    server.start()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    EdtS3FileSystem.clear_instance_cache()
    yield "edt+s3://edt-test"
    server.stop()


class Pages(http.server.SimpleHTTPRequestHandler):
    """Serves files whole, whatever range of them is asked for, and counts how often."""

    gets = 0

    def do_GET(self) -> None:
        Pages.gets += 1
        with suppress(ConnectionError):
            super().do_GET()

    def log_message(self, format: str, *words: object) -> None:
        """Says nothing."""


@contextmanager
def served(folder: Path, kind: type[http.server.HTTPServer]) -> Iterator[str]:
    """The URL of a web server without ranges that serves a new folder."""
    folder.mkdir()
    Pages.gets = 0
    with kind(("127.0.0.1", 0), functools.partial(Pages, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"edt+http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The URL of a web server that serves `site`."""
    with served(tmp_path / "site", http.server.ThreadingHTTPServer) as url:
        yield url


def test_objects_are_written_read_listed_moved_and_removed(bucket: str, tmp_path: Path) -> None:
    fs, path = fsspec.url_to_fs(f"{bucket}/dir/a%20b.txt")
    assert isinstance(fs, EdtS3FileSystem) and path == "/dir/a%20b.txt", "keys are taken as written"
    assert fs.unstrip_protocol(path) == f"{bucket}/dir/a%20b.txt"
    large = os.urandom(6 * MIB)
    fs.pipe({path: b"small", "/dir/large.bin": large})
    assert fs.ls("/dir", detail=False) == [path, "/dir/large.bin"] and fs.isdir("/dir")
    with fsspec.open(f"{bucket}/dir/large.bin") as file:
        file.seek(5 * MIB)
        assert file.read(10) == large[5 * MIB : 5 * MIB + 10]
    fs.get("/dir", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got/large.bin").read_bytes() == large and (tmp_path / "got/a%20b.txt").read_bytes() == b"small"
    fs.mv(path, "/other/c.txt")
    assert fs.find("/") == ["/dir/large.bin", "/other/c.txt"]
    fs.mv("/dir", "/moved", recursive=True)
    assert fs.find("/") == ["/moved/large.bin", "/other/c.txt"]
    for below in ("/moved/new", "/moved/large.bin"):
        with pytest.raises(ValueError, match="lies in it"):
            fs.mv("/moved", below, recursive=True)
    with pytest.raises(ValueError, match="maxdepth"):
        fs.mv("/moved", "/again", maxdepth=1)
    assert fs.find("/moved") == ["/moved/large.bin"]
    fs.rm("/moved", recursive=True)
    assert not fs.exists("/moved/large.bin") and fs.cat("/other/c.txt") == b"small"


def test_pandas_keeps_frames_in_a_bucket(bucket: str) -> None:
    frame = pandas.DataFrame({"number": range(1000)})
    frame.to_parquet(f"{bucket}/frame.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(f"{bucket}/frame.parquet"), frame)


def test_pages_are_read_and_not_written(site: str, tmp_path: Path) -> None:
    (tmp_path / "site/d").mkdir()
    (tmp_path / "site/d/a b.csv").write_text("x,y\n1,2\n")
    fill(tmp_path / "site/d/large.bin", 3 * MIB, 3)
    assert pandas.read_csv(f"{site}/d/a%20b.csv").to_dict("list") == {"x": [1], "y": [2]}
    fs, path = fsspec.url_to_fs(f"{site}/d/large.bin", connections=1)
    assert isinstance(pickle.loads(pickle.dumps(fs)), EdtHttpFileSystem)
    assert fs.cat(path) == (tmp_path / "site/d/large.bin").read_bytes()
    assert fs.size(path) == 3 * MIB and not fs.exists("/d/none")
    with pytest.raises(OSError, match="web server"):
        fs.pipe("/d/new", b"x")
    with pytest.raises(ValueError, match=r"edt\.copy"):
        fsspec.url_to_fs(f"{site}/d/large.bin?signature=1")


@pytest.mark.parametrize("size", [3 * MIB, 20 * MIB])
def test_a_server_without_ranges_is_read_in_order_once_and_keeps_nobody_waiting(
    site: str, tmp_path: Path, size: int
) -> None:
    fill(tmp_path / "site/large.bin", size, "large")
    content = (tmp_path / "site/large.bin").read_bytes()
    fs, path = fsspec.url_to_fs(f"{site}/large.bin", skip_instance_cache=True)
    begin = time.monotonic()
    with fs.open(path) as file:
        assert b"".join(iter(lambda: file.read(300_000), b"")) == content
    assert time.monotonic() - begin < 4.0, "a reader that waits in vain does so for 5 s"
    # One for what is asked for first, one by which it is seen that there are no ranges.
    assert Pages.gets <= 3
    begin = time.monotonic()
    with fs.open(path) as file:
        for place in (9, 0, 3, 1, 6, 5):
            file.seek(place * size // 10)
            assert file.read(100_000) == content[place * size // 10 :][:100_000]
    assert time.monotonic() - begin < 4.0
    assert fs.cat_ranges([path] * 3, [5, MIB, 0], [10, 2 * MIB, size]) == [
        content[5:10],
        content[MIB : 2 * MIB],
        content,
    ]


def test_a_server_that_takes_one_connection_at_a_time_is_read_to_and_fro(tmp_path: Path) -> None:
    with served(tmp_path / "site", http.server.HTTPServer) as url:
        fill(tmp_path / "site/large.bin", 12 * MIB, "large")
        content = (tmp_path / "site/large.bin").read_bytes()
        fs, path = fsspec.url_to_fs(f"{url}/large.bin", skip_instance_cache=True)
        begin = time.monotonic()
        with fs.open(path) as file:
            assert b"".join(iter(lambda: file.read(MIB), b"")) == content
        with fs.open(path) as file:
            for place in (6 * MIB, MIB, 9 * MIB):
                file.seek(place)
                assert file.read(70_000) == content[place:][:70_000]
        assert time.monotonic() - begin < 4.0

"""A server in this process, and looking at its files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import edt


def test_a_server_says_where_it_is(served: tuple[edt.Server, Path]) -> None:
    server, _ = served
    host, port = server.address
    assert host == "127.0.0.1"
    assert port > 0
    assert server.url == f"edt://127.0.0.1:{port}/"
    assert server.fingerprint
    assert server.secret is None


def test_a_closed_server_is_gone(tmp_path: Path) -> None:
    with edt.serve(tmp_path) as server:
        assert edt.list(server.url) is not None
    server.close()
    with pytest.raises(edt.UnreachableError):
        edt.list(server.url)


def test_a_root_that_is_not_there_is_a_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        edt.serve(tmp_path / "missing")


def test_an_address_that_is_taken_is_an_os_error(served: tuple[edt.Server, Path], tmp_path: Path) -> None:
    with pytest.raises(edt.Error) as raised:
        edt.serve(tmp_path, listen=f"127.0.0.1:{served[0].address[1]}")
    assert isinstance(raised.value, (OSError, ValueError))


def test_a_read_only_server_changes_nothing(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "kept").write_bytes(b"kept")
    with edt.serve(tmp_path / "root", read_only=True, grace=1, max_sessions=4, buffer="8MiB") as server:
        with pytest.raises(PermissionError):
            edt.copy(tree, server.url)
        with pytest.raises(PermissionError):
            edt.remove(server.url + "kept")
        edt.copy(server.url, tmp_path / "copy")
    assert os.listdir(tmp_path / "root") == ["kept"]
    assert (tmp_path / "copy" / "kept").read_bytes() == b"kept"


def test_an_unknown_option_of_a_server_is_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        edt.serve(tmp_path, no_such_option=1)  # type: ignore[call-arg]


def test_a_server_that_would_refuse_everybody_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sessions at once must be at least 1"):
        edt.serve(tmp_path, max_sessions=0)


@pytest.mark.parametrize("remote", [True, False])
def test_entries_are_listed_described_and_removed(served: tuple[edt.Server, Path], tree: Path, remote: bool) -> None:
    server, root = served
    edt.copy(tree, server.url)
    os.symlink("a.txt", root / "link")
    url = server.url if remote else f"{root}/"
    assert {entry.path for entry in edt.list(url)} == {"a.txt", "empty", "link", "sub"}
    everything = {entry.path: entry for entry in edt.list(url, recursive=True)}
    assert set(everything) == {"a.txt", "empty", "link", "sub", "sub/b.bin", "sub/deep", "sub/deep/c"}
    assert (everything["link"].kind, everything["link"].target) == ("symlink", "a.txt")
    assert everything["sub"].kind == "directory"

    entry = edt.stat(url + "sub/deep/c")
    assert (entry.kind, entry.size) == ("file", 70_000)
    assert entry.modified_ns == (tree / "sub" / "deep" / "c").stat().st_mtime_ns
    assert entry.modified is not None
    assert entry.modified.timestamp() == pytest.approx(entry.modified_ns / 1e9, abs=1e-5)

    edt.remove(url + "a.txt")
    with pytest.raises(FileExistsError):
        edt.remove(url + "sub")
    edt.remove(url + "sub", recursive=True)
    # The server removes what it staged once it has heard that the caller knows of the end, which may be later than now.
    limit = time.monotonic() + 20
    while ".edt" in os.listdir(root) and time.monotonic() < limit:
        time.sleep(0.01)
    assert sorted(os.listdir(root)) == ["empty", "link"]
    with pytest.raises(FileNotFoundError):
        edt.stat(url + "sub")


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_a_name_that_is_no_text_is_listed_as_the_system_lists_it(tmp_path: Path) -> None:
    name = b"caf\xe9"
    try:
        (tmp_path / os.fsdecode(name)).touch()
    except OSError:
        pytest.skip("this file system takes text only")
    assert [os.fsencode(entry.path) for entry in edt.list(tmp_path) if entry.kind == "file"] == [name]

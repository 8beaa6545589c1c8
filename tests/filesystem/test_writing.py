"""Writing: whole or not at all; names, directories and listings."""

from __future__ import annotations

import errno
import gc
import gzip
import multiprocessing
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.callbacks import Callback

import edt
from edt.fsspec import EdtFileSystem
from harness import MIB, contents, fill, mixed_tree

LARGE = bytes(range(256)) * (6 * MIB // 256)


def write_and_fail(file: Any, content: Any) -> None:
    """Leaves the block of a file by an exception."""
    with file:
        file.write(content)
        raise RuntimeError


def fail_in_transaction(fs: EdtFileSystem, path: str, content: bytes) -> None:
    """Leaves a transaction by an exception, with a file closed in it."""
    with fs.transaction:
        with fs.open(path, "wb") as file:
            file.write(content)
        raise RuntimeError


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["nothing", "small", "large"])
def test_a_file_appears_whole_when_it_is_closed(fs: EdtFileSystem, fs_path: str, place: Path, content: bytes) -> None:
    with fs.open(f"{fs_path}/new/a.bin", "wb") as file:
        for begin in range(0, len(content), MIB):
            file.write(content[begin : begin + MIB])
        assert not (place / "new").exists()
    assert (place / "new/a.bin").read_bytes() == content
    assert stat.S_IMODE((place / "new/a.bin").stat().st_mode) & 0o600 == 0o600
    assert fs.info(f"{fs_path}/new/a.bin")["size"] == len(content)


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_file_that_is_written_again_keeps_its_mode(
    fs: EdtFileSystem, fs_path: str, place: Path, content: bytes, mode: int
) -> None:
    (place / "a").write_bytes(b"before")
    assert fs.ls(fs_path, detail=False) == [f"{fs_path}/a"]
    # Behind the back of the listing that is kept.
    (place / "a").chmod(mode)
    for how in ("wb", "ab"):
        with fs.open(f"{fs_path}/a", how) as file:
            file.write(content)
        assert stat.S_IMODE((place / "a").stat().st_mode) == mode
    assert (place / "a").read_bytes() == content * 2


def test_a_file_in_the_place_of_a_link_has_the_usual_mode(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    (place / "a").write_bytes(b"before")
    (place / "a").chmod(0o600)
    modes = set()
    for content in (b"small", LARGE):
        (place / "link").unlink(missing_ok=True)
        (place / "link").symlink_to("a")
        fs.pipe_file(f"{fs_path}/link", content)
        modes.add(stat.S_IMODE((place / "link").lstat().st_mode))
    assert modes == {0o666 & ~umask()} and (place / "a").read_bytes() == b"before"


def umask() -> int:
    """The bits that new files of this machine lack."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_full_temporary_directory_is_named(fs: EdtFileSystem, fs_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = fs.open(f"{fs_path}/a.bin", "wb")
    file.write(LARGE[: 2 * MIB])
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match=r"could not gather .*/a\.bin.*TMPDIR"):
        file.write(LARGE)
    file.abort()
    assert not fs.exists(f"{fs_path}/a.bin")


def test_a_temporary_directory_that_is_not_there_is_named(
    fs: EdtFileSystem, fs_path: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "b.bin").write_bytes(b"before")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    said = r"could not gather `.*/{}\.bin`: No such file.*TMPDIR.*/missing/"
    file = fs.open(f"{fs_path}/a.bin", "wb")
    with pytest.raises(OSError, match=said.format("a")):
        file.write(LARGE)
    file.abort()
    with pytest.raises(OSError, match=said.format("b")):
        fs.open(f"{fs_path}/b.bin", "ab")
    assert contents(place).keys() == {"b.bin"}


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("size", [10, len(LARGE)])
def test_an_exception_throws_what_was_written_away(
    fs: EdtFileSystem, fs_path: str, place: Path, mode: str, size: int
) -> None:
    (place / "a.txt").write_text("before")
    content = "x" * size if mode == "w" else b"x" * size
    with pytest.raises(RuntimeError):
        write_and_fail(fs.open(f"{fs_path}/a.txt", mode), content)
    with pytest.raises(RuntimeError):
        write_and_fail(fs.open(f"{fs_path}/b.gz", mode, compression="gzip"), content)
    file = fs.open(f"{fs_path}/c", "wb")
    file.write(b"x")
    del file
    assert contents(place).keys() == {"a.txt"} and (place / "a.txt").read_text() == "before"


def test_what_is_dropped_without_being_closed_is_thrown_away(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    fs.pipe_file(f"{fs_path}/kept", b"before")
    for mode in ("w", "wb"):
        file = fs.open(f"{fs_path}/kept", mode)
        file.write("half" if mode == "w" else b"half")
        del file
        gc.collect()
        assert (place / "kept").read_bytes() == b"before"


def test_text_and_compression_are_written(fs: EdtFileSystem, fs_path: str, url: str, place: Path) -> None:
    with fs.open(f"{fs_path}/a.txt", "w", encoding="latin-1") as file:
        file.write("größer")
    assert (place / "a.txt").read_text(encoding="latin-1") == "größer"
    with fs.open(f"{fs_path}/a.gz", "wb", compression="infer") as file:
        file.write(LARGE)
    assert gzip.decompress((place / "a.gz").read_bytes()) == LARGE
    with fsspec.open(f"{url}b.gz", "wt", compression="gzip") as file:
        file.write("alpha")
    assert gzip.decompress((place / "b.gz").read_bytes()) == b"alpha"


@pytest.mark.parametrize("content", [b"behind", LARGE], ids=["small", "large"])
def test_what_is_appended_stands_behind_what_was_there(
    fs: EdtFileSystem, fs_path: str, place: Path, content: bytes
) -> None:
    for _ in range(2):
        with fs.open(f"{fs_path}/a", "ab") as file:
            file.write(content)
    assert (place / "a").read_bytes() == content * 2


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_transaction_brings_all_files_or_none(fs: EdtFileSystem, fs_path: str, place: Path, content: bytes) -> None:
    with fs.transaction:
        fs.pipe_file(f"{fs_path}/at once", b"a content of this size is written without a file")
        with fs.open(f"{fs_path}/a", "wb") as file:
            file.write(content)
        assert not (place / "a").exists()
    assert (place / "a").read_bytes() == content
    with pytest.raises(RuntimeError):
        fail_in_transaction(fs, f"{fs_path}/b", content)
    assert not (place / "b").exists()


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_transaction_goes_on_without_a_file_that_was_left_by_an_exception(
    fs: EdtFileSystem, fs_path: str, place: Path, content: bytes
) -> None:
    with fs.transaction:
        with pytest.raises(RuntimeError):
            write_and_fail(fs.open(f"{fs_path}/a", "wb"), content)
        fs.pipe_file(f"{fs_path}/b", LARGE)
        fs.pipe_file(f"{fs_path}/b", content)
        assert contents(place) == {}
    assert contents(place).keys() == {"b"} and (place / "b").read_bytes() == content


def test_a_file_of_which_a_block_was_interrupted_is_thrown_away(
    fs: EdtFileSystem, fs_path: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    file = fs.open(f"{fs_path}/a", "wb")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            file.write(LARGE)
    file.close()
    assert contents(place) == {}


def test_a_process_that_was_forked_takes_nothing_from_a_file_that_its_parent_writes(
    fs: EdtFileSystem, fs_path: str, place: Path
) -> None:
    with fs.open(f"{fs_path}/a", "wb") as file:
        file.write(LARGE)
        # As at the end of a process that leaves the block by `sys.exit`.
        child = multiprocessing.get_context("fork").Process(target=file.abort)
        child.start()
        child.join(20)
        assert child.exitcode == 0
        file.write(b"end")
    assert (place / "a").read_bytes() == LARGE + b"end"


def test_files_that_are_links_arrive_with_their_content(
    fs: EdtFileSystem, fs_path: str, place: Path, tmp_path: Path
) -> None:
    here, blobs = tmp_path / "here", tmp_path / "blobs"
    here.mkdir()
    blobs.mkdir()
    for name in ("a", "b"):
        (blobs / name).write_text(f"content of {name}")
        (here / name).symlink_to(blobs / name)
    (here / "c").symlink_to("nowhere")
    (here / "d").write_text("no link")
    fs.put(f"{here}/*", f"{fs_path}/there/")
    assert (place / "there/a").read_text() == "content of a" and not (place / "there/b").is_symlink()
    assert (place / "there/d").read_text() == "no link" and (place / "there/c").is_symlink()
    (place / "there/link").symlink_to("a")
    names, out = ("link", "b", "c"), tmp_path / "out"
    fs.get([f"{fs_path}/there/{name}" for name in names], [str(out / name) for name in names])
    assert (out / "link").read_text() == "content of a" and not (out / "link").is_symlink()
    assert (out / "b").read_text() == "content of b" and (out / "c").is_symlink()


def test_only_what_is_not_there_is_created_exclusively(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    for content in (b"small", LARGE):
        file = fs.open(f"{fs_path}/a", "xb")
        file.write(content)
        (place / "a").write_text("meanwhile")
        with pytest.raises(FileExistsError):
            file.close()
        assert (place / "a").read_text() == "meanwhile"
        (place / "a").unlink()
        fs.invalidate_cache()
    (place / "directory").mkdir()
    for content in (b"small", LARGE):
        file = fs.open(f"{fs_path}/directory", "wb")
        file.write(content)
        with pytest.raises((edt.WrongTypeError, IsADirectoryError)):
            file.close()
    assert list((place / "directory").iterdir()) == []


def test_directories_are_made_moved_and_removed(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    fs.mkdir(f"{fs_path}/a/b")
    for make in (fs.mkdir, fs.makedirs):
        with pytest.raises(FileExistsError):
            make(f"{fs_path}/a")
    with pytest.raises(FileNotFoundError):
        fs.mkdir(f"{fs_path}/x/y", create_parents=False)
    fs.makedirs(f"{fs_path}/a", exist_ok=True)
    fs.touch(f"{fs_path}/a/b/c")
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{fs_path}/a/b/c", exist_ok=True)
    fs.mv(f"{fs_path}/a/b/c", f"{fs_path}/d")
    fs.mv(f"{fs_path}/d", f"{fs_path}/a")
    fs.cp_file(f"{fs_path}/a/d", f"{fs_path}/e")
    assert fs.find(fs_path, withdirs=True) == [fs_path, *(f"{fs_path}/{name}" for name in ("a", "a/b", "a/d", "e"))]
    with pytest.raises(FileExistsError):
        fs.rmdir(f"{fs_path}/a")
    with pytest.raises(NotADirectoryError):
        fs.rmdir(f"{fs_path}/e")
    fs.rmdir(f"{fs_path}/a/b")
    fs.rm([f"{fs_path}/a", f"{fs_path}/e"], recursive=True)
    assert fs.ls(fs_path) == [] and list(place.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{fs_path}/a")
    with pytest.raises(edt.InvalidInputError):
        fs.rm("/", recursive=True)


def test_listings_are_kept_until_something_changes(fs: EdtFileSystem, fs_path: str, place: Path) -> None:
    fill(place / "a/b/c.bin", 100, "c")
    assert fs.find(fs_path) == [f"{fs_path}/a/b/c.bin"]
    (place / "a/b/d.bin").touch()
    assert fs.ls(f"{fs_path}/a/b", detail=False) == [f"{fs_path}/a/b/c.bin"]
    assert len(fs.ls(f"{fs_path}/a/b", refresh=True)) == 2
    fs.touch(f"{fs_path}/a/b/e.bin")
    assert fs.glob(f"{fs_path}/**/*.bin") == [f"{fs_path}/a/b/{name}.bin" for name in "cde"]
    assert fs.glob(f"{fs_path}/a/?/[cd].bin") == [f"{fs_path}/a/b/{name}.bin" for name in "cd"]
    assert [files for _, _, files in fs.walk(fs_path)] == [[], [], ["c.bin", "d.bin", "e.bin"]]
    assert fs.du(fs_path) == 100 and fs.info(f"{fs_path}/a/b")["type"] == "directory"
    assert fs.modified(f"{fs_path}/a/b/c.bin").timestamp() == pytest.approx(
        (place / "a/b/c.bin").stat().st_mtime, abs=1e-5
    )
    assert fs.find(f"{fs_path}/none") == [] and fs.find(f"{fs_path}/a/b/c.bin") == [f"{fs_path}/a/b/c.bin"]


def test_a_name_that_is_not_there_is_no_pattern(fs: EdtFileSystem, fs_path: str, place: Path, tmp_path: Path) -> None:
    for folder in (place, tmp_path):
        (folder / "a1").write_text("another file")
    missing, here = f"{fs_path}/a[1]", str(tmp_path / "a[1]")
    with pytest.raises(FileNotFoundError):
        fs.get_file(missing, str(tmp_path / "out"))
    with pytest.raises(FileNotFoundError):
        fs.get([missing], [str(tmp_path / "out")])
    with pytest.raises(FileNotFoundError):
        fs.put_file(here, f"{fs_path}/out")
    with pytest.raises(FileNotFoundError):
        fs.put([here], [f"{fs_path}/out"])
    assert contents(place).keys() == contents(tmp_path).keys() == {"a1"}


def test_what_a_single_file_fails_with_is_an_error_of_the_system(
    fs: EdtFileSystem, fs_path: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe") as raised:
        fs.put_file(str(tmp_path / "pipe"), f"{fs_path}/pipe")
    assert isinstance(raised.value.__cause__, edt.TransferFailed)
    (tmp_path / "two").mkdir()
    for name in ("a", "b"):
        os.mkfifo(tmp_path / "two" / name)
    with pytest.raises(edt.TransferFailed) as several:
        fs.put(str(tmp_path / "two"), f"{fs_path}/two", recursive=True)
    assert sorted(failure.path for failure in several.value.report.failures) == ["a", "b"]


def test_paths_of_this_machine_need_not_be_text(fs: EdtFileSystem, fs_path: str, place: Path, tmp_path: Path) -> None:
    here = tmp_path / os.fsdecode(b"caf\xe9")
    fill(here / "tree/a", 100, "a")
    fs.put(str(here / "tree/a"), f"{fs_path}/alone")
    fs.put(str(here / "tree"), f"{fs_path}/tree", recursive=True)
    assert contents(place / "tree") == contents(here / "tree")
    fs.get(f"{fs_path}/alone", str(here / "back"))
    fs.get(f"{fs_path}/tree", str(here / "again"), recursive=True)
    assert contents(here / "again") == contents(here / "tree")
    assert (here / "back").read_bytes() == (here / "tree/a").read_bytes()


@pytest.mark.parametrize("look", ["ls", "find"])
def test_a_listing_that_another_thread_has_overtaken_is_not_kept(
    fs: EdtFileSystem, fs_path: str, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    fs.pipe_file(f"{fs_path}/a", b"before")
    real = EdtFileSystem._described

    def overtaken(self: EdtFileSystem, *words: Any) -> Any:
        infos = real(self, *words)
        # As another thread does while the server's answer is under way.
        self.pipe_file(f"{fs_path}/a", b"written meanwhile")
        return infos

    with monkeypatch.context() as patch:
        patch.setattr(EdtFileSystem, "_described", overtaken)
        getattr(fs, look)(fs_path)
    assert fs.info(f"{fs_path}/a")["size"] == len(b"written meanwhile")
    assert [info["size"] for info in fs.ls(fs_path)] == [len(b"written meanwhile")]


def test_what_a_change_that_failed_has_brought_is_seen(
    fs: EdtFileSystem, fs_path: str, place: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "tree/a", 100, "a")
    os.mkfifo(tmp_path / "tree/pipe")
    assert fs.ls(fs_path) == []
    with pytest.raises(edt.Error, match="pipe"):
        fs.put(str(tmp_path / "tree"), f"{fs_path}/tree", recursive=True)
    assert (place / "tree/a").stat().st_size == 100
    assert fs.ls(fs_path, detail=False) == [f"{fs_path}/tree"]


def test_a_tree_goes_there_and_back_in_one_transfer(
    fs: EdtFileSystem, fs_path: str, place: Path, tmp_path: Path
) -> None:
    size = mixed_tree(tmp_path / "tree", "tree", large=2 * MIB, small=40)
    (tmp_path / "tree/empty").mkdir()
    callback = Callback()
    fs.put(str(tmp_path / "tree"), f"{fs_path}/tree", recursive=True, callback=callback)
    assert contents(place / "tree") == contents(tmp_path / "tree") and (place / "tree/empty").is_dir()
    assert callback.value == 43 and fs.du(f"{fs_path}/tree") == size
    fs.get(f"{fs_path}/tree/", str(tmp_path / "back"), recursive=True)
    assert contents(tmp_path / "back") == contents(tmp_path / "tree")
    fs.get(f"{fs_path}/tree/small/1/*", str(tmp_path / "some/"))
    assert contents(tmp_path / "some") == contents(tmp_path / "tree/small/1")
    with pytest.raises(FileNotFoundError):
        fs.get(f"{fs_path}/none", str(tmp_path / "none"))

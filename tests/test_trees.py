"""What is copied is what was there: contents, names, kinds, modes, times."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import MIB, STAGING, Edt, Server, contents, fill, mixed_tree, snapshot, wait_until


def furnish(root: Path) -> None:
    """A tree with everything that a file system can hold and edt keeps."""
    mixed_tree(root, "furnish")
    (root / "empty file").touch()
    (root / "empty directory" / "inner").mkdir(parents=True)
    fill(root / "odd" / "new\nline and 'quotes' \"double\" \\ back * ? [x] {y} %41 ünï ☃", 5000, "odd")
    fill(root / os.fsdecode(b"not \xff\xfe utf-8"), 700, "bytes")
    fill(root / "-leading dash", 10, "dash")
    fill(root / ("n" * 255), 10, "long")
    fill(root / "/".join("deep" for _ in range(40)) / "file", 10, "deep")
    (root / "link to file").symlink_to("large.bin")
    (root / "link to nothing").symlink_to("no such file")
    (root / "link out").symlink_to("/etc/hostname")
    for number, mode in enumerate((0o400, 0o600, 0o644, 0o755, 0o777)):
        path = root / "modes" / f"{mode:o}"
        fill(path, 100, number)
        path.chmod(mode)
    (root / "medium").chmod(0o750)
    times = [path for path in sorted(root.rglob("*"), reverse=True) if not path.is_symlink()]
    for number, path in enumerate(times):
        os.utime(path, ns=(1, 1_500_000_000_123_456_789 + number * 1_000_000_007))


def test_a_tree_arrives_as_it_was_and_comes_back_as_it_was(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    furnish(source)
    edt.copy(source, server.url("tree/"))
    assert snapshot(server.root / "tree") == snapshot(source)
    edt.copy(server.url("tree/"), scratch / "back")
    assert snapshot(scratch / "back") == snapshot(source)
    wait_until(lambda: not (server.root / STAGING).exists(), "the end of what was staged")
    assert not (scratch / "back" / STAGING).exists()


def test_a_tree_is_copied_between_two_local_directories(edt: Edt, source: Path, scratch: Path) -> None:
    furnish(source)
    edt.copy(source, scratch / "target")
    assert snapshot(scratch / "target") == snapshot(source)


def test_sources_and_destinations_may_have_names_that_are_not_utf_8(edt: Edt, source: Path, scratch: Path) -> None:
    name, single, target = (os.fsdecode(raw) for raw in (b"caf\xe9 *", b"100%\xff", b"to\xff"))
    fill(source / name / "b.bin", 1000, "b")
    fill(scratch / single, 500, "single")
    edt.copy(source / name, scratch / single, scratch / target)
    assert set(contents(scratch / target)) == {single, f"{name}/b.bin"}
    edt.copy(source / "caf*", scratch / "matched")
    assert set(contents(scratch / "matched")) == {f"{name}/b.bin"}
    wrong = edt.run("cp", source, "s3://bucket/" + name)
    assert wrong.code == 2 and "a URL holds nothing but UTF-8" in wrong.err


@pytest.mark.parametrize("scheme", ["edt", "edts"])
@pytest.mark.parametrize("size", [0, 1, 262_143, 262_144, 262_145, MIB, 3 * MIB + 1])
def test_a_file_of_any_size_is_copied_to_a_file(
    edt: Edt, server: Server, scratch: Path, size: int, scheme: str
) -> None:
    fill(scratch / "a.bin", size, size)
    url = server.url("b.bin").replace("edt://", f"{scheme}://")
    edt.copy(scratch / "a.bin", url)
    edt.copy(url, scratch / "c.bin")
    assert (server.root / "b.bin").read_bytes() == (scratch / "a.bin").read_bytes()
    assert (scratch / "c.bin").read_bytes() == (scratch / "a.bin").read_bytes()


def test_several_sources_go_into_a_directory_under_their_own_names(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    fill(source / "inner" / "x.bin", 1000, "x")
    fill(scratch / "single.bin", 1000, "single")
    edt.copy(source, scratch / "single.bin", server.url("into/"))
    assert set(contents(server.root / "into")) == {"source/inner/x.bin", "single.bin"}


def test_files_of_two_patterns_do_not_take_the_place_of_one_another(edt: Edt, scratch: Path) -> None:
    for directory, names in {"d1": ("a.csv", "b.csv"), "d2": ("a.csv", "c.csv")}.items():
        for name in names:
            fill(scratch / directory / name, 300_000, f"{directory}/{name}")
    target = scratch / "target"
    # The shell leaves these patterns alone, and so does the command line.
    met = edt.run("cp", scratch / "d1" / "{a,b}.csv", scratch / "d2" / "{a,c}.csv", f"{target}/")
    assert met.code == 1 and "another source would be `a.csv`" in met.err and "one after the other" in met.err
    assert contents(target) == {
        name: contents(scratch / where)[name] for where, name in (("d1", "a.csv"), ("d1", "b.csv"), ("d2", "c.csv"))
    }
    # One that both patterns match is the same file.
    edt.copy(scratch / "d1" / "{a,b}.csv", scratch / "d1" / "{a,x}.csv", f"{scratch}/again/")
    assert set(contents(scratch / "again")) == {"a.csv", "b.csv"}


def test_a_file_that_stands_at_the_destination_is_replaced(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 100_000, "new")
    fill(server.root / "a.bin", 200_000, "old")
    edt.copy(source, server.url())
    assert contents(server.root) == contents(source)


def test_a_link_at_the_destination_is_replaced_and_not_written_through(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    fill(source / "a.bin", 1000, "new")
    fill(scratch / "outside.bin", 1000, "outside")
    (server.root / "a.bin").symlink_to(scratch / "outside.bin")
    before = (scratch / "outside.bin").read_bytes()
    edt.copy(source / "a.bin", server.url("a.bin"))
    assert (scratch / "outside.bin").read_bytes() == before
    assert (server.root / "a.bin").read_bytes() == (source / "a.bin").read_bytes()


def test_a_sparse_file_stays_sparse(edt: Edt, server: Server, source: Path, scratch: Path) -> None:
    path = source / "sparse.bin"
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(64 * MIB)
        file.write(b"end")
    if path.stat().st_blocks * 512 > 8 * MIB:
        pytest.skip("this file system keeps no holes")
    outcome = edt.copy(source, server.url())
    edt.copy(server.url("sparse.bin"), scratch / "back.bin")
    for copy in (server.root / "sparse.bin", scratch / "back.bin"):
        assert copy.stat().st_size == path.stat().st_size
        assert copy.stat().st_blocks * 512 < 8 * MIB
        assert copy.read_bytes() == path.read_bytes()
    assert outcome.totals()["bytes_sent"] < 8 * MIB, "holes were sent as bytes"


def test_sha256sum_agrees_with_what_the_manifest_verified(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    mixed_tree(source, "manifest")
    manifest = scratch / "manifest.jsonl"
    edt.copy("--manifest", manifest, source, server.url("tree/"))
    assert edt.run("verify", manifest, server.url("tree/")).code == 0
    for root in (source, server.root / "tree"):
        listing = subprocess.run(
            "find . -type f -print0 | sort -z | xargs -0 sha256sum",
            shell=True,
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout
        (scratch / f"{root.name}.sums").write_bytes(listing)
    assert (scratch / "source.sums").read_bytes() == (scratch / "tree.sums").read_bytes()
    (server.root / "tree" / "large.bin").write_bytes(b"damaged")
    assert edt.run("verify", manifest, server.url("tree/")).code == 1

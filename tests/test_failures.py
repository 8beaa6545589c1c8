"""Bad input and bad places: each error names the place, the cause and a hint, and the other files go on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import MIB, SECRET, Edt, Server, assert_no_wrong_file, contents, fill, mixed_tree


def hang_a_link(source: Path, served: Path) -> tuple[str, ...]:
    """A link to nothing, to be followed."""
    (source / "bad").symlink_to("no such file")
    return ("--symlinks", "follow")


def put_a_pipe(source: Path, served: Path) -> tuple[str, ...]:
    """A named pipe, which is no file."""
    os.mkfifo(source / "bad")
    return ()


def block_by_a_directory(source: Path, served: Path) -> tuple[str, ...]:
    """A directory with content where the file should go."""
    fill(source / "bad", 1000, "bad")
    fill(served / "tree" / "bad" / "inside", 10, "inside")
    return ()


def forbid_replacing(source: Path, served: Path) -> tuple[str, ...]:
    """A file that must not be replaced."""
    fill(source / "bad", 1000, "bad")
    fill(served / "tree" / "bad", 10, "precious")
    return ("--no-overwrite",)


@pytest.mark.parametrize("spoil", [hang_a_link, put_a_pipe, block_by_a_directory, forbid_replacing])
def test_one_bad_file_does_not_stop_the_others(
    edt: Edt, server: Server, source: Path, spoil: Callable[[Path, Path], tuple[str, ...]]
) -> None:
    mixed_tree(source, "bad")
    good = contents(source)
    options = spoil(source, server.root)
    before = contents(server.root / "tree")
    outcome = edt.copy(*options, source, server.url("tree/"), expected=1)
    after = contents(server.root / "tree")
    assert {name: after.get(name) for name in good} == good
    assert before.items() <= after.items(), "what stood at the destination was lost"
    assert "bad" in outcome.err
    failures = outcome.events()[-1]["failures"]
    assert [failure["path"] for failure in failures] == ["bad"]
    assert failures[0]["cause"] or failures[0]["hint"]


def test_a_full_disk_fails_with_its_name_and_a_hint_and_is_resumed_with_more_space(
    edt: Edt, serve: Callable[..., Server], source: Path, scratch: Path, mount: Callable[[Path, str], None]
) -> None:
    disk = scratch / "disk"
    mount(disk, "size=16m")
    server = serve(disk)
    mixed_tree(source, "full", large=24 * MIB)
    outcome = edt.copy(source, server.url("tree/"), expected=1)
    assert "no space" in outcome.err.lower() or "no-space" in outcome.err
    assert "hint" in outcome.err
    assert_no_wrong_file(source, disk / "tree")
    subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
    edt.copy(source, server.url("tree/"))
    assert contents(disk / "tree") == contents(source)


def test_an_unwritable_target_is_named_with_cause_and_hint(
    edt: Edt, serve: Callable[..., Server], source: Path, scratch: Path, mount: Callable[[Path, str], None]
) -> None:
    disk = scratch / "disk"
    if os.geteuid() == 0:
        mount(disk, "size=1m,ro")
    else:
        disk.mkdir(mode=0o555)
    server = serve(disk)
    fill(source / "a.bin", 1000, "a")
    outcome = edt.run("cp", source, server.url())
    assert outcome.code in (1, 3)
    assert "hint" in outcome.err
    assert "read-only" in outcome.err.lower() or "denied" in outcome.err.lower()
    assert contents(disk) == {}


def test_a_wrong_secret_is_refused_with_3(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    outcome = edt.run("cp", source, server.url(), secret="another secret that is as long as the first")
    assert outcome.code == 3
    assert "hint" in outcome.err
    assert SECRET not in outcome.err + server.errors()
    assert contents(server.root) == {}


def test_a_port_where_nobody_listens_is_unreachable_with_4(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    url = server.url()
    server.kill()
    outcome = edt.run("cp", source, url)
    assert outcome.code == 4
    assert "hint" in outcome.err


def test_a_missing_source_is_unreachable_with_4(edt: Edt, server: Server, scratch: Path) -> None:
    for missing in (str(scratch / "no such file"), server.url("no such file")):
        outcome = edt.run("cp", missing, scratch / "target")
        assert outcome.code == 4, outcome.err
        assert "no such file" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ("cp", "only-one-argument"),
        ("cp", "--chunk-size", "lots", "a", "b"),
        ("cp", "--optimizer", "magic", "a", "b"),
        ("cp", "--delete", "a", "b"),
        ("cp", "gopher://x/y", "b"),
        ("cp", "a", "edt://user:secret@host/"),
        ("fly",),
    ],
)
def test_a_command_that_makes_no_sense_ends_with_2(edt: Edt, words: tuple[str, ...]) -> None:
    outcome = edt.run(*words)
    assert outcome.code == 2, outcome.err
    assert outcome.err


def test_a_read_only_server_gives_but_does_not_take(
    edt: Edt, serve: Callable[..., Server], source: Path, scratch: Path
) -> None:
    server = serve(scratch / "served", "--read-only")
    fill(server.root / "theirs.bin", 1000, "theirs")
    fill(source / "ours.bin", 1000, "ours")
    assert edt.run("cp", source, server.url()).code == 3
    assert edt.run("rm", server.url("theirs.bin")).code == 3
    edt.copy(server.url(), scratch / "back")
    assert contents(scratch / "back") == contents(server.root)
    assert set(contents(server.root)) == {"theirs.bin"}


def test_a_peer_that_accepts_and_stays_silent_does_not_hold_the_client_for_ever(
    edt: Edt, server: Server, source: Path
) -> None:
    fill(source / "a.bin", 1000, "a")
    server.process.send_signal(signal.SIGSTOP)
    try:
        outcome = edt.run("cp", source, server.url(), timeout=90)
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert outcome.code == 4, outcome.err
    assert str(server.port) in outcome.err


def test_a_large_file_whose_name_is_taken_is_refused_before_it_is_sent(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "large", 64 * MIB, "large")
    fill(server.root / "tree" / "large", 10, "precious")
    before = contents(server.root / "tree")
    options = ("--no-overwrite", "--limit-rate", "40MB")
    outcome = edt.copy(*options, source, server.url("tree/"), expected=1)
    report = outcome.events()[-1]
    assert [failure["path"] for failure in report["failures"]] == ["large"]
    assert report["totals"]["bytes_sent"] < 32 * MIB
    assert contents(server.root / "tree") == before

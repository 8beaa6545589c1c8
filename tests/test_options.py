"""What the options of `edt cp` promise."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness import EDT, MIB, Edt, Server, at_least, contents, fill, mixed_tree, snapshot
from reset_proxy import ResetProxy


def test_every_line_of_json_is_an_event_and_the_last_is_the_report(edt: Edt, server: Server, source: Path) -> None:
    size = mixed_tree(source, "json")
    outcome = edt.copy("--interval", "0.05", "--limit-rate", "20MB", source, server.url("tree/"))
    events = outcome.events()
    names = {event["event"] for event in events}
    assert {"planned", "sampled", "tuned", "file_done", "finished"} <= names
    report = events[-1]
    assert report["event"] == "report"
    assert report["totals"]["bytes_done"] == size
    assert report["totals"]["files_done"] == len(contents(source))
    assert report["failures"] == []
    assert all(tuned["decision"]["reason"] for tuned in report["decisions"])


def test_the_report_file_is_the_report(edt: Edt, server: Server, source: Path, scratch: Path) -> None:
    mixed_tree(source, "report")
    assert edt.run("cp", "--report", scratch / "report.json", source, server.url()).code == 0
    report = json.loads((scratch / "report.json").read_text())
    assert report["totals"]["failed"] == 0
    assert report["optimizer"]


@pytest.mark.parametrize("files", ["many", "one"])
@pytest.mark.parametrize("upload", [True, False], ids=["up", "down"])
def test_a_short_transfer_counts_all_bytes_that_were_sent(
    edt: Edt, server: Server, source: Path, scratch: Path, upload: bool, files: str
) -> None:
    root, size = source if upload else server.root, 4 * MIB + 1
    if files == "many":
        size = mixed_tree(root, "short")
    else:
        fill(root / "one.bin", size, "short")
    arguments = (source, server.url("tree/")) if upload else (server.url(), scratch / "back")
    assert edt.copy(*arguments).totals()["bytes_sent"] == size


def test_without_a_terminal_standard_output_is_empty(edt: Edt, server: Server, source: Path) -> None:
    mixed_tree(source, "quiet")
    outcome = edt.run("cp", source, server.url())
    assert outcome.code == 0
    assert outcome.out == ""
    assert "\x1b" not in outcome.err


def test_a_dry_run_changes_nothing(edt: Edt, server: Server, source: Path) -> None:
    mixed_tree(source, "dry")
    fill(server.root / "tree" / "extra.bin", 10, "extra")
    before = snapshot(server.root)
    outcome = edt.copy("--dry-run", "--sync", "--delete", source, server.url("tree/"))
    assert snapshot(server.root) == before
    assert outcome.events()[-1]["dry_run"] is True
    planned = {event["path"]: event["size"] for event in outcome.events() if event["event"] == "file_planned"}
    assert planned == {name: (source / name).stat().st_size for name in contents(source)}


def test_sync_sends_only_what_changed(edt: Edt, server: Server, source: Path) -> None:
    mixed_tree(source, "sync")
    edt.copy(source, server.url("tree/"))
    again = edt.copy("--sync", source, server.url("tree/")).totals()
    assert (again["files_done"], again["bytes_sent"]) == (0, 0)
    assert again["files_skipped"] == len(contents(source))
    fill(source / "medium" / "0.bin", 5000, "changed")
    fill(source / "new.bin", 500, "new")
    third = edt.copy("--sync", source, server.url("tree/")).totals()
    assert third["files_done"] == 2
    assert contents(server.root / "tree") == contents(source)


def test_sync_sees_a_change_of_the_same_size(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 5000, "before")
    edt.copy(source, server.url("tree/"))
    fill(source / "a.bin", 5000, "after")
    status = (source / "a.bin").stat()
    os.utime(source / "a.bin", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert edt.copy("--sync", source, server.url("tree/")).totals()["files_done"] == 1
    assert contents(server.root / "tree") == contents(source)


def test_without_delete_nothing_is_removed_and_with_it_the_trees_are_equal(
    edt: Edt, server: Server, source: Path
) -> None:
    mixed_tree(source, "mirror")
    fill(server.root / "tree" / "old" / "extra.bin", 10, "extra")
    edt.copy("--sync", source, server.url("tree/"))
    assert (server.root / "tree" / "old" / "extra.bin").exists()
    totals = edt.copy("--sync", "--delete", source, server.url("tree/")).totals()
    assert totals["removed"] >= 1
    assert snapshot(server.root / "tree") == snapshot(source)


def test_patterns_choose_what_is_copied(edt: Edt, server: Server, source: Path) -> None:
    for name in ("a.txt", "b.bin", "keep/c.txt", "skip/d.txt", "keep/e.tmp"):
        fill(source / name, 100, name)
    edt.copy("--include", "*.txt", "--exclude", "skip/", source, server.url("one/"))
    assert set(contents(server.root / "one")) == {"a.txt", "keep/c.txt"}
    edt.copy("--exclude", "*.tmp", "--exclude", "/skip/**", source, server.url("two/"))
    assert set(contents(server.root / "two")) == {"a.txt", "b.bin", "keep/c.txt"}


def test_links_are_kept_followed_or_skipped(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    (source / "link").symlink_to("a.bin")
    for mode in ("keep", "follow", "skip"):
        edt.copy("--symlinks", mode, source, server.url(f"{mode}/"))
    assert (server.root / "keep" / "link").is_symlink()
    followed = server.root / "follow" / "link"
    assert not followed.is_symlink() and followed.read_bytes() == (source / "a.bin").read_bytes()
    assert not os.path.lexists(server.root / "skip" / "link")


@pytest.mark.parametrize("optimizer", ["auto", "fixed", "falcon"])
def test_every_optimizer_copies_the_same_bytes(edt: Edt, server: Server, source: Path, optimizer: str) -> None:
    mixed_tree(source, optimizer, large=24 * MIB)
    edt.copy("--optimizer", optimizer, "--interval", "0.05", "--max-streams", "6", source, server.url("tree/"))
    assert snapshot(server.root / "tree") == snapshot(source)


@pytest.mark.parametrize("fsync", ["none", "file", "full"])
def test_every_fsync_policy_copies_the_same_bytes(edt: Edt, server: Server, source: Path, fsync: str) -> None:
    mixed_tree(source, fsync)
    edt.copy("--fsync", fsync, source, server.url("tree/"))
    assert snapshot(server.root / "tree") == snapshot(source)


def test_memory_endpoints_move_bytes_without_files(edt: Edt, server: Server) -> None:
    assert edt.copy("zero:3x1MiB", "null:").totals()["bytes_done"] == 3 * MIB
    assert edt.copy("zero:3x1MiB", server.url("zeros/")).totals()["bytes_done"] == 3 * MIB
    assert len(contents(server.root / "zeros")) == 3
    assert edt.copy(server.url("zeros/"), "null:").totals()["bytes_done"] == 3 * MIB


def test_file_urls_are_paths(edt: Edt, source: Path, scratch: Path) -> None:
    mixed_tree(source, "urls")
    edt.copy(f"file://{source}/", f"file://{scratch}/target/")
    assert snapshot(scratch / "target") == snapshot(source)


def test_a_secret_can_come_from_a_file(edt: Edt, server: Server, source: Path, scratch: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    token = scratch / "token"
    token.write_text(edt.environment["EDT_TOKEN"] + "\n")
    token.chmod(0o600)
    environment = {**edt.environment}
    del environment["EDT_TOKEN"]
    command = [str(EDT), "cp", "--token-file", str(token), str(source), server.url()]
    assert subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False).returncode == 0
    assert contents(server.root) == contents(source)


@pytest.mark.parametrize(
    ("pipelining", "connections"), [([], (1 + 2, 1 + 2)), (["--pipelining", "0"], (1 + 26, 1 + 26 + 4))]
)
def test_without_pipelining_each_file_has_a_connection(
    edt: Edt, server: Server, source: Path, pipelining: list[str], connections: tuple[int, int]
) -> None:
    for number in range(6):
        fill(source / f"large-{number}", 2 * MIB, number)
    for number in range(20):
        fill(source / f"small-{number}", 4096, number)
    with ResetProxy(server.port, seed=0, resets=0, after_bytes=(1, 1)) as proxy:
        url = server.url("tree/").replace(str(server.port), str(proxy.port))
        edt.copy("--concurrency", "2", "--parallelism", "1", *pipelining, source, url)
        assert connections[0] <= proxy.connections <= connections[1]
    assert contents(server.root / "tree") == contents(source)


@pytest.mark.skipif(not Path("/proc/sys/net/ipv4/tcp_congestion_control").exists(), reason="needs Linux")
def test_a_congestion_control_is_chosen_or_refused_at_either_end(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    mixed_tree(source, "congestion")
    edt.copy("--congestion", "reno", source, server.url("tree/"))
    edt.copy("--congestion", "reno", server.url("tree/"), scratch / "back")
    assert contents(scratch / "back") == contents(source)
    for ends in ((source, server.url("other/")), (server.url("tree/"), scratch / "other")):
        refused = edt.run("cp", "--congestion", "none-such", *ends)
        assert refused.code == 2
        assert "could not choose the congestion control `none-such`" in refused.err


@pytest.mark.parametrize("direction", ["up", "down"])
def test_only_listed_files_are_copied_and_a_missing_one_is_named(
    edt: Edt, server: Server, source: Path, scratch: Path, direction: str
) -> None:
    origin = source if direction == "up" else server.root
    ends = (source, server.url("to")) if direction == "up" else (server.url(), scratch / "to")
    for name in ("a", "sub/b", "sub/deep/c", "other/d", "e*"):
        fill(origin / name, 200_000, name)
    (scratch / "list").write_text("a\nsub/\nnothing\n./e*\n")
    outcome = edt.copy("--files-from", scratch / "list", *ends, expected=1)
    there = (server.root if direction == "up" else scratch) / "to"
    assert contents(there) == {name: digest for name, digest in contents(origin).items() if name[0] in "ase"}
    failures = outcome.events()[-1]["failures"]
    assert [(failure["path"], failure["kind"]) for failure in failures] == [("nothing", "not-found")]


def test_with_sync_only_listed_files_that_changed_are_sent(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    for name in ("a", "b", "c"):
        fill(source / name, 1000, name)
    (scratch / "list").write_text("a\nb\n")
    edt.copy("--sync", "--files-from", scratch / "list", source, server.url())
    fill(source / "a", 2000, "new")
    fill(source / "c", 2000, "new")
    totals = edt.copy("--sync", "--files-from", scratch / "list", source, server.url()).totals()
    assert (totals["files_done"], totals["files_skipped"]) == (1, 1)
    assert sorted(contents(server.root)) == ["a", "b"]


def test_thousands_of_files_are_listed_in_as_many_messages_as_it_takes(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    names = [f"{'long name ' * 20}{number}" for number in range(6000)]
    for name in names:
        (server.root / name).write_text("x")
    (scratch / "list").write_text("\n".join(names))
    totals = edt.copy("--files-from", scratch / "list", "--fsync", "none", server.url(), scratch / "to").totals()
    assert totals["files_done"] == len(names)


def test_a_mirror_of_listed_files_and_files_of_a_file_are_refused(edt: Edt, source: Path, scratch: Path) -> None:
    fill(source / "a", 10, "a")
    (scratch / "list").write_text("a\n")
    mirror = edt.run("cp", "--sync", "--delete", "--files-from", scratch / "list", source, scratch / "to")
    assert mirror.code == 2 and "mirror" in mirror.err
    of_a_file = edt.run("cp", "--files-from", scratch / "list", source / "a", scratch / "to")
    assert of_a_file.code == 2 and "no directory" in of_a_file.err


def test_a_named_transfer_is_resumed_whatever_files_it_is_of(edt: Edt, server: Server, scratch: Path) -> None:
    fill(server.root / "large", 40 * MIB, "large")
    fill(server.root / "other", MIB, "other")
    for number, names in enumerate(("large\n", "other\nlarge\n")):
        (scratch / f"list-{number}").write_text(names)
    words = ("--name", "one", server.url(), scratch / "to")
    first = edt.start("cp", "--json", "--limit-rate", "20MB", "--files-from", scratch / "list-0", *words)
    first.totals_until(at_least(16 * MIB))
    first.kill()
    totals = edt.copy("--files-from", scratch / "list-1", *words).totals()
    assert totals["bytes_resumed"] > 4 * MIB
    assert contents(scratch / "to") == contents(server.root)


def test_what_a_named_transfer_published_is_not_sent_again_after_another_choice_was_done(
    edt: Edt, server: Server, scratch: Path
) -> None:
    for name in ("a", "b", "c"):
        fill(server.root / name, MIB, name)
    for number, names in enumerate(("a\nb\nc\nmissing\n", "a\n", "b\nc\n")):
        (scratch / f"list-{number}").write_text(names)
    words = ("--name", "one", server.url(), scratch / "to")
    # What fails leaves all else to be gone on with.
    assert edt.run("cp", "--files-from", scratch / "list-0", *words).code == 1
    assert contents(scratch / "to") == contents(server.root)
    for number in (1, 2):
        totals = edt.copy("--files-from", scratch / f"list-{number}", *words).totals()
        assert (totals["files_done"], totals["files_skipped"]) == (0, number)

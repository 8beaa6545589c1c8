"""The record that transfers leave, with real processes: what is kept, what is not, and what it may not do."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from harness import MIB, Edt, Server, fill, mixed_tree, snapshot, wait_until
from kept import ok, rows, transfers


def test_a_transfer_is_kept_with_its_intervals_and_decisions_and_without_names(
    edt: Edt, server: Server, source: Path, database: Path
) -> None:
    mixed_tree(source, "kept", large=8 * MIB)
    words = ["--optimizer", "falcon", "--interval", "0.1", "--limit-rate", "12MB", "--policy", "low"]
    report = edt.copy(*words, source, server.url("secret-place/")).events()[-1]
    (kept,) = transfers(edt)
    assert kept["source"] == "local"
    assert kept["destination"] == f"127.0.0.1_{server.port}"
    assert (kept["optimizer"], kept["policy"], kept["outcome"]) == ("falcon", "low", "complete")
    assert (kept["options"]["limit_rate"], kept["options"]["interval_s"]) == (12e6, 0.1)
    assert (kept["source_name"], kept["error"]) == (None, None)
    assert 0 < kept["rtt_s"] < 1
    assert kept["began_s"] < kept["ended_s"] <= time.time()
    for name in ("files_done", "bytes_done", "bytes_sent", "elapsed_s", "retries"):
        assert kept[name] == report["totals"][name], name
    sizes = [path.stat().st_size for path in source.rglob("*") if path.is_file()]
    assert (kept["listed_files"], kept["listed_bytes"], kept["listed_complete"]) == (len(sizes), sum(sizes), True)
    classes = {exponent: (files, total) for exponent, files, total in kept["size_classes"]}
    assert classes[23] == (1, 8 * MIB)
    assert sum(files for files, _ in classes.values()) == len(sizes)

    shown = json.loads(ok(edt.run("history", "show", "--json", kept["id"])))
    assert shown["transfer"] == kept
    assert len(shown["intervals"]) == len(report["timeline"])
    for interval, sampled in zip(shown["intervals"], report["timeline"], strict=True):
        assert interval["elapsed_s"] == pytest.approx(sampled["elapsed_s"])
        assert interval["network_concurrency"] == pytest.approx(sampled["concurrency"]["network"])
        assert interval["write_throughput"] == pytest.approx(sampled["throughput"]["write"])
        assert interval["bytes_verified"] == sampled["totals"]["bytes_verified"]
        assert interval["judged"] in (True, False)
    # What comes after the last whole interval says nothing.
    assert shown["intervals"][-1]["judged"] is False
    reasons = [decision["decision"]["reason"] for decision in report["decisions"]]
    assert [decision["reason"] for decision in shown["decisions"]] == reasons

    told = ok(edt.run("history", "show", kept["id"]))
    assert "complete" in told and reasons[0] in told
    files = [database, *database.parent.glob("history.db-*")]
    for word in (b"secret-place", bytes(source), b"large", b".bin"):
        assert not any(word in file.read_bytes() for file in files), word
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_a_download_and_a_copy_of_this_machine_are_kept_too(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    for number in range(4):
        fill(server.root / f"{number}.bin", MIB, number)
        fill(source / f"{number}.bin", MIB, number)
    edt.copy("--limit-rate", "4MB", server.url(), scratch / "down")
    edt.copy(source, scratch / "beside")
    down, beside = transfers(edt)
    assert (down["source"], down["destination"]) == (f"127.0.0.1_{server.port}", "local")
    assert (beside["source"], beside["destination"], beside["rtt_s"]) == ("local", "local", None)
    for kept in (down, beside):
        assert (kept["listed_files"], kept["size_classes"]) == (4, [[20, 4, 4 * MIB]])


def test_nothing_is_kept_of_who_wants_nothing_kept_and_of_dry_runs(
    edt: Edt, source: Path, scratch: Path, database: Path
) -> None:
    fill(source / "a.bin", 1000, "a")
    edt.copy("--dry-run", source, scratch / "copy")
    edt.copy("--no-history", source, scratch / "copy")
    for word in ("off", "OFF", "flase"):
        edt.environment["EDT_HISTORY"] = word
        edt.copy(source, scratch / "copy")
    assert not database.exists()
    edt.environment["EDT_HISTORY"] = "names"
    edt.copy(source, scratch / "copy")
    (kept,) = transfers(edt)
    assert (kept["source_name"], kept["destination_name"]) == (str(source), str(scratch / "copy"))
    edt.copy("--no-history", source, scratch / "copy")
    assert len(transfers(edt)) == 1


def test_a_transfer_that_was_killed_is_unfinished_and_keeps_what_was_measured(
    edt: Edt, server: Server, source: Path, database: Path
) -> None:
    fill(source / "a.bin", 64 * MIB, "a")
    words = ["--json", "--optimizer", "falcon", "--interval", "0.1", "--limit-rate", "2MB"]
    running = edt.start("cp", *words, source, server.url("copy/"))
    wait_until(database.exists, "the history")
    wait_until(lambda: bool(written(database)), "the first batch")
    running.kill()
    (kept,) = transfers(edt)
    assert (kept["outcome"], kept["ended_s"], kept["listed_files"]) == ("unfinished", None, None)
    assert len(written(database)) >= 10
    listed = ok(edt.run("history", "list"))
    assert "unfinished" in listed
    edt.copy("--limit-rate", "100MB", source, server.url("copy/"))
    assert [kept["outcome"] for kept in transfers(edt)] == ["unfinished", "complete"]


def written(database: Path) -> list[tuple[Any, ...]]:
    """The intervals that are kept, if the tables are there yet."""
    try:
        return rows(database, "SELECT elapsed_s FROM intervals")
    except sqlite3.OperationalError:
        return []


def test_each_way_to_end_has_its_word(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 64 * MIB, "a")
    (server.root / "taken" / "a.bin").mkdir(parents=True)
    edt.copy(source, server.url("taken/"), expected=1)
    running = edt.start("cp", "--json", "--limit-rate", "2MB", source, server.url("copy/"))
    running.totals_until(lambda totals: totals["bytes_verified"] > 0)
    running.signal(signal.SIGINT)
    assert running.end().code == 130
    running = edt.start("cp", "--json", "--limit-rate", "2MB", source, server.url("copy/"))
    running.totals_until(lambda totals: totals["bytes_verified"] > 3 * MIB)
    server.kill()
    assert running.end().code == 4
    kept = [(kept["outcome"], kept["error"]) for kept in transfers(edt)]
    assert kept[:2] == [("incomplete", None), ("cancelled", None)]
    assert kept[2] in [("failed", "unreachable"), ("failed", "connection-lost")]


def test_many_processes_write_at_once(edt: Edt, source: Path, scratch: Path, database: Path) -> None:
    fill(source / "a.bin", MIB, "a")
    words = ["cp", "--interval", "0.05", "--limit-rate", "2MB", str(source)]
    running = [edt.start(*words, scratch / f"copy-{number}") for number in range(12)]
    for each in running:
        ended = each.end()
        assert (ended.code, "history" in ended.err) == (0, False), ended.err
    assert [kept["outcome"] for kept in transfers(edt)] == ["complete"] * 12
    assert rows(database, "PRAGMA integrity_check") == [("ok",)]
    assert rows(database, "SELECT count(DISTINCT transfer) FROM intervals") == [(12,)]


@pytest.mark.parametrize("trouble", ["broken", "below a file", "newer"])
def test_a_history_that_cannot_be_written_is_said_once_and_harms_nothing(
    edt: Edt, source: Path, scratch: Path, database: Path, trouble: str
) -> None:
    mixed_tree(source, trouble)
    database.parent.mkdir()
    hint = {"broken": "move", "below a file": "EDT_DATA_DIR", "newer": "newer edt"}[trouble]
    if trouble == "broken":
        database.write_bytes(b"no database " * 1000)
    elif trouble == "newer":
        edt.copy(source, scratch / "first")
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA user_version = 999")
    else:
        edt.environment["EDT_DATA_DIR"] = str(source / "large.bin" / "data")
    outcome = edt.run("cp", source, scratch / "copy")
    assert outcome.code == 0
    assert snapshot(scratch / "copy") == snapshot(source)
    assert outcome.err.count("the history of transfers is not kept") == 1, outcome.err
    assert hint in outcome.err
    if trouble != "below a file":
        told = edt.run("history", "list")
        assert told.code in (1, 2)
        assert hint in told.err
    assert "history" not in edt.run("cp", "--no-history", source, scratch / "copy").err


def test_a_lock_that_is_held_keeps_nobody_for_long(edt: Edt, source: Path, scratch: Path, database: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    edt.copy(source, scratch / "first")
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        outcome = edt.run("cp", source, scratch / "copy")
        assert (outcome.code, time.monotonic() - begun < 10) == (0, True), outcome.err
        assert "too slow" in outcome.err
        assert len(ok(edt.run("history", "list")).splitlines()) == 1


def test_a_history_that_cannot_be_written_can_be_read(edt: Edt, source: Path, scratch: Path, database: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    edt.copy(source, scratch / "first")
    # Whoever looks puts all of it into one file.
    expected = transfers(edt)
    before = database.read_bytes()
    assert [path.name for path in database.parent.glob("history.db*")] == ["history.db"]
    # Nobody can make the log of changes then, whatever the permissions.
    database.with_name("history.db-wal").mkdir()
    assert transfers(edt) == expected
    assert "1 transfer kept" in edt.run("history", "list").err
    assert json.loads(ok(edt.run("history", "show", "--json", "1")))["transfer"] == expected[0]
    outcome = edt.run("cp", source, scratch / "second")
    assert (outcome.code, outcome.err.count("the history of transfers is not kept")) == (0, 1), outcome.err
    pruned = edt.run("history", "prune")
    assert (pruned.code, "EDT_DATA_DIR" in pruned.err) == (3, True), pruned.err
    assert database.read_bytes() == before


def test_tables_of_an_older_edt_are_brought_up_to_date(edt: Edt, source: Path, scratch: Path, database: Path) -> None:
    fill(source / "a.bin", 2 * MIB, "a")
    edt.copy("--interval", "0.1", "--limit-rate", "4MB", source, scratch / "first")
    transfers(edt)
    with closing(sqlite3.connect(database)) as connection, connection:
        for index in ("transfers_by_pair", "imported_by_pair"):
            connection.execute(f"DROP INDEX {index}")
        connection.execute("ALTER TABLE intervals DROP COLUMN judged")
        connection.execute("PRAGMA user_version = 2")
    edt.copy("--interval", "0.1", "--limit-rate", "4MB", source, scratch / "second")
    of = {number: json.loads(ok(edt.run("history", "show", "--json", number)))["intervals"] for number in ("1", "2")}
    assert {interval["judged"] for interval in of["1"]} == {None}
    assert {interval["judged"] for interval in of["2"]} <= {True, False}
    assert of["1"] and of["2"]
    assert rows(database, "PRAGMA user_version") == [(4,)]


def test_old_transfers_are_removed_by_age(edt: Edt, source: Path, scratch: Path, database: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    for number in range(3):
        edt.copy(source, scratch / f"copy-{number}")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE transfers SET began_s = began_s - 86400 * 40 * id")
    assert "removed 0 transfers, 3 left" in ok(edt.run("history", "prune"))
    assert "removed 2 transfers, 1 left" in ok(edt.run("history", "prune", "--older-than", "60d"))
    edt.environment["EDT_HISTORY_DAYS"] = "30"
    edt.copy(source, scratch / "copy-3")
    assert [kept["id"] for kept in transfers(edt)] == [4]


def test_days_that_are_no_number_are_told_and_remove_nothing(
    edt: Edt, source: Path, scratch: Path, database: Path
) -> None:
    fill(source / "a.bin", 1000, "a")
    edt.environment["EDT_HISTORY_DAYS"] = "abc"
    told = "`EDT_HISTORY_DAYS` is no whole number of days"
    assert told in edt.copy(source, scratch / "copy").err
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE transfers SET began_s = began_s - 86400 * 400")
    pruned = edt.run("history", "prune")
    assert "removed 0 transfers, 1 left" in ok(pruned)
    assert told in pruned.err


def test_without_a_transfer_there_is_nothing_to_tell(edt: Edt, database: Path) -> None:
    assert ok(edt.run("history", "path")).strip() == str(database)
    listed = edt.run("history", "list")
    assert (listed.code, listed.out) == (0, "")
    assert "no transfer" in listed.err
    shown = edt.run("history", "show", "7")
    assert shown.code == 2
    assert "`7`" in shown.err
    assert ok(edt.run("history", "export", "--format", "json")) == ""
    assert "no history" in ok(edt.run("history", "prune"))
    assert not database.exists()


def test_the_newest_are_listed_first(edt: Edt, source: Path, scratch: Path) -> None:
    fill(source / "a.bin", 1000, "a")
    for number in range(3):
        edt.copy(source, scratch / f"copy-{number}")
    listed = edt.run("history", "list", "--limit", "2")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["3", "2"]
    assert "3 transfers kept" in listed.err
    lines = ok(edt.run("history", "list", "--json")).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [3, 2, 1]


def test_the_history_of_a_full_disk_can_be_read(
    edt: Edt, source: Path, scratch: Path, mount: Callable[[Path, str], None]
) -> None:
    disk = scratch / "disk"
    disk.mkdir()
    mount(disk, "size=300k")
    edt.environment["EDT_DATA_DIR"] = str(disk)
    fill(source / "a.bin", 10, "a")
    edt.copy(source, scratch / "copy")
    # Whoever reads last takes the log of changes away, for whose files there is no room any more.
    assert len(transfers(edt)) == 1 and [path.name for path in disk.iterdir()] == ["history.db"]
    with suppress(OSError), (disk / "rest").open("wb", buffering=0) as rest:
        while rest.write(bytes(4096)):
            pass
    (kept,) = transfers(edt)
    assert kept["outcome"] == "complete"
    pruned = edt.run("history", "prune", "--older-than", "0s")
    assert pruned.code == 1 and "free space" in pruned.err

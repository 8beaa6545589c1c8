"""The record that transfers leave, with real processes: what is kept, what is not, and what it may not do."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from harness import EDT, MIB, Edt, Outcome, Server, fill, mixed_tree, snapshot, wait_until

LOG = """\
start_s,source,destination,bandwidth_bytes_per_s,rtt_s,tcp_buffer_bytes,files,mean_file_bytes,concurrency,parallelism,pipelining,throughput_bytes_per_s
1412121600,a,b,1.25e9,0.04,33554432,100,1e6,4,8,16,5e8
1412121700,a,b,1.25e9,,,100,1e6,8,8,16,6e8
"""


@pytest.fixture
def database(edt: Edt) -> Path:
    """Where the history of the test lies."""
    return Path(edt.environment["EDT_DATA_DIR"]) / "history.db"


def ok(outcome: Outcome) -> str:
    assert outcome.code == 0, outcome.err
    return outcome.out


def transfers(edt: Edt) -> list[dict[str, Any]]:
    """The transfers that are kept, oldest first."""
    lines = ok(edt.run("history", "export", "--format", "json")).splitlines()
    return [json.loads(line) for line in lines]


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Looks into the database without edt."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


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


def exported(edt: Edt, scratch: Path, table: str) -> Iterator[list[dict[str, Any]]]:
    """A table in each of the forms, as Python has its values."""
    lines = ok(edt.run("history", "export", "--format", "json", "--table", table)).splitlines()
    yield [json.loads(line) for line in lines]
    file = scratch / f"{table}.parquet"
    ok(edt.run("history", "export", "--format", "parquet", "--table", table, "--output", file))
    yield pa.parquet.read_table(file).to_pylist()
    text = ok(edt.run("history", "export", "--format", "csv", "--table", table))
    yield list(csv.DictReader(io.StringIO(text)))


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the JSON in it as text of one form."""
    texts = {name: row[name] for name in ("options", "size_classes") if name in row}
    values = {name: json.loads(text) if isinstance(text, str) else text for name, text in texts.items()}
    return {**row, **{name: json.dumps(value, sort_keys=True) for name, value in values.items()}}


def parsed(text: str, like: object) -> object:
    """What a CSV file has, as a value of the same kind as another."""
    if isinstance(like, bool):
        return {"true": True, "false": False}[text]
    return type(like)(text) if isinstance(like, (int, float)) else text or None


@pytest.mark.parametrize("table", ["transfers", "intervals", "decisions", "imported"])
def test_every_form_of_an_export_says_the_same(edt: Edt, source: Path, scratch: Path, table: str) -> None:
    fill(source / "a.bin", 2 * MIB, "a")
    for number in range(2):
        edt.copy("--interval", "0.1", "--limit-rate", "4MB", source, scratch / f"copy-{number}")
    (scratch / "log.csv").write_text(LOG)
    ok(edt.run("history", "import", scratch / "log.csv"))
    objects, arrow, text = exported(edt, scratch, table)
    expected = [plain(row) for row in objects]
    assert len(expected) >= 2
    assert [plain(row) for row in arrow] == expected
    found = [
        plain(
            {name: row[name] if name in ("options", "size_classes") else parsed(row[name], one[name]) for name in row}
        )
        for row, one in zip(text, objects, strict=True)
    ]
    assert found == expected
    if table == "intervals":
        of_one = ok(edt.run("history", "export", "--format", "json", "--table", table, "--id", "2")).splitlines()
        assert {json.loads(line)["transfer"] for line in of_one} == {2}


def test_logs_of_other_tools_are_imported_once_and_refused_with_a_reason(edt: Edt, scratch: Path) -> None:
    log = scratch / "gridftp.csv"
    log.write_text(LOG)
    assert "imported 2 transfers" in ok(edt.run("history", "import", log))
    assert "before" in ok(edt.run("history", "import", "--label", "again", log))
    found = ok(edt.run("history", "export", "--format", "json", "--table", "imported")).splitlines()
    first, second = map(json.loads, found)
    expected = {"source": "a", "destination": "b", "bytes": 10**8, "concurrency": 4, "throughput": 5e8, "rtt_s": 0.04}
    assert expected.items() <= first.items()
    assert [first["label"], second["label"]] == ["gridftp.csv"] * 2
    assert "2 transfers of other tools imported as `gridftp.csv`" in edt.run("history", "list").err
    assert (second["rtt_s"], second["number"]) == (None, 1)
    log.write_text(LOG.replace("rtt_s", "rtt_ms"))
    outcome = edt.run("history", "import", log)
    assert (outcome.code, outcome.out) == (2, "")
    assert "rtt_ms" in outcome.err and "docs/history.md" in outcome.err
    log.write_text(LOG.replace("5e8", "fast"))
    assert "line 2" in edt.run("history", "import", log).err
    log.write_text(LOG.replace("1e6", "1e19"))
    outcome = edt.run("history", "import", log)
    assert (outcome.code, "line 2" in outcome.err, "too large" in outcome.err) == (2, True, True), outcome.err
    assert "removed 2 transfers of other tools" in ok(edt.run("history", "prune", "--imported"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_log_may_come_through_a_pipe(edt: Edt, scratch: Path) -> None:
    pipe = scratch / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(LOG,))
    writer.start()
    assert "imported 2 transfers" in ok(edt.run("history", "import", "--label", "piped", pipe))
    writer.join()
    command = [str(EDT), "history", "import", "-"]
    same = subprocess.run(
        command, env=edt.environment, input=LOG, text=True, capture_output=True, timeout=60, check=True
    )
    assert "standard input was imported before" in same.stdout
    other = LOG.replace("5e8", "7e8")
    subprocess.run([*command, "--label", "two"], env=edt.environment, input=other, text=True, timeout=60, check=True)
    lines = ok(edt.run("history", "export", "--format", "json", "--table", "imported")).splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["piped", "piped", "two", "two"]


def exporting(edt: Edt, form: str) -> subprocess.Popen[bytes]:
    """An export whose reader decides when it goes on."""
    command = [str(EDT), "history", "export", "--format", form, "--table", "imported"]
    return subprocess.Popen(command, env=edt.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def import_many(edt: Edt, scratch: Path, count: int) -> None:
    """Imports so many transfers, each different from the others."""
    header, row = LOG.splitlines()[:2]
    lines = [row.replace("5e8", str(10**8 + 7919 * number % 10**8)) for number in range(count)]
    (scratch / "many.csv").write_text("\n".join([header, *lines]))
    ok(edt.run("history", "import", scratch / "many.csv"))


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_reader_that_went_away_ends_an_export_quietly(edt: Edt, scratch: Path, form: str) -> None:
    import_many(edt, scratch, 20_000)
    with exporting(edt, form) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        err = running.stderr.read()
        assert (running.wait(60), err) == (0, b"")


def test_a_reader_that_waits_holds_nobody_up(edt: Edt, scratch: Path, database: Path) -> None:
    import_many(edt, scratch, 20_000)
    with exporting(edt, "json") as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        # It has more to say than fits into a pipe, and waits now.
        time.sleep(0.2)
        with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as connection:
            connection.execute("UPDATE imports SET label = 'other'")
            assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        found = [json.loads(line) for line in [first, *running.stdout]]
        assert running.wait(60) == 0
    assert [row["number"] for row in found] == list(range(20_000))
    assert (found[0]["label"], found[-1]["label"]) == ("many.csv", "other")


def test_a_file_is_exported_as_a_whole_or_not_at_all(edt: Edt, scratch: Path, database: Path) -> None:
    import_many(edt, scratch, 100)
    file = scratch / "out" / "rows.csv"
    words: list[str | Path] = ["history", "export", "--format", "csv", "--table", "imported", "--output", file]
    assert edt.run(*words).code == 2
    file.parent.mkdir()
    ok(edt.run(*words))
    whole = file.read_text()
    assert whole.count("\n") == 101
    database.write_bytes(b"no database " * 1000)
    assert edt.run(*words).code != 0
    assert file.read_text() == whole
    assert [path.name for path in file.parent.iterdir()] == ["rows.csv"]


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
    assert rows(database, "PRAGMA user_version") == [(3,)]


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

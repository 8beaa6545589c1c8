"""The tables of the history: exports in every form, and logs of other tools that are imported."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
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

from harness import EDT, MIB, Edt, fill
from kept import ok

LOG = """\
start_s,source,destination,bandwidth_bytes_per_s,rtt_s,tcp_buffer_bytes,files,mean_file_bytes,concurrency,parallelism,pipelining,throughput_bytes_per_s
1412121600,a,b,1.25e9,0.04,33554432,100,1e6,4,8,16,5e8
1412121700,a,b,1.25e9,,,100,1e6,8,8,16,6e8
"""


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

"""The real GridFTP logs that were published with HARP, imported into the history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gridftp_csv
import gridftp_logs
from harness import Edt

GRID = gridftp_logs.FOLDER / gridftp_logs.FILE
OTHERS = gridftp_logs.FOLDER / "old_misc.csv.gz"


@pytest.mark.parametrize(("logs", "expected"), [(GRID, 43_150), (OTHERS, 16_900)], ids=["grid", "misc"])
def test_real_logs_are_imported_whole(edt: Edt, scratch: Path, logs: Path, expected: int) -> None:
    if not logs.exists():
        pytest.skip(f"`{logs.name}`, logs published with HARP, is not there (EDT_GRIDFTP_LOGS names the folder)")
    file = scratch / "logs.csv"
    count = gridftp_csv.convert(logs, file)
    assert count > expected
    outcome = edt.run("history", "import", "--label", "harp", file)
    assert (outcome.code, f"imported {count} transfers" in outcome.out) == (0, True), outcome.err
    text = edt.run("history", "export", "--format", "json", "--table", "imported").out
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) == count
    assert all(row["throughput"] > 0 and row["concurrency"] >= 1 and row["files"] >= 1 for row in rows)
    starts = [row["began_s"] for row in rows]
    assert starts == sorted(starts)
    if logs == GRID:
        assert {(row["parallelism"], row["concurrency"], row["pipelining"]) for row in rows} >= {
            (32, 32, 32),
            (1, 1, 1),
        }
        assert {row["bandwidth"] for row in rows} == {1.25e9}

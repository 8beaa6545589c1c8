"""The GridFTP logs that were published with HARP, made into CSV files and imported into the history."""

from __future__ import annotations

import gzip
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


LOG = """date,src,dst,fast,bw_bps,rtt_s,buf_B,file_size_B,file_count,cc,p,pp,thr_mibps
2015-03-01,a,b,ON,1e10,0.04,4194304,104857600,32,4,2,8,800
2015-03-01,a,b,OFF,1e10,0.04,4194304,104857600,32,4,2,0,99999
"""


def test_a_folder_of_logs_is_converted(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (scratch / "logs").mkdir()
    (scratch / "logs" / "one.csv.gz").write_bytes(gzip.compress(LOG.encode()))
    gridftp_csv.main([str(scratch / "made"), "--logs", str(scratch / "logs")])
    header, row = (scratch / "made" / "one.csv").read_text().splitlines()
    assert header.split(",") == list(gridftp_csv.COLUMNS)
    assert row.split(",")[1:3] == ["a", "b (fast)"], "and the one that is too fast to be true is left out"
    assert f"1 transfers in {scratch / 'made' / 'one.csv'}" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["made", "--logs", "none"], 2), ([], 2)])
def test_help_and_mistakes_write_nothing(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    monkeypatch.chdir(scratch)
    with pytest.raises(SystemExit) as ended:
        gridftp_csv.main(words)
    assert ended.value.code == code
    told = capsys.readouterr()
    assert "--logs FOLDER" in told.out + told.err
    assert list(scratch.iterdir()) == []

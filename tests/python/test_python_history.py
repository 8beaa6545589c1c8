"""Past transfers as Arrow tables."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import edt
from edt import history

LOG = """\
start_s,source,destination,files,bytes,concurrency,parallelism,pipelining,throughput_bytes_per_s
1412121600,local,127.0.0.1_7632,100,100000000,4,8,16,5e8
"""


def test_the_tables_tell_what_the_reports_told(tree: Path, target: Path, served: tuple[edt.Server, Path]) -> None:
    server, _root = served
    reports = [
        edt.copy(tree, server.url + "a", limit_rate="8MB", interval=0.1),
        edt.copy(tree, target, optimizer="fixed", concurrency=3),
    ]
    transfers = history.transfers()
    assert isinstance(transfers, pa.Table)
    assert transfers["optimizer"].to_pylist() == [report.optimizer for report in reports]
    assert transfers["bytes_done"].to_pylist() == [report.totals.bytes_done for report in reports]
    assert transfers["listed_complete"].to_pylist() == [True, True]
    assert transfers.schema.field("began_s").type == pa.float64()
    first = transfers["id"].to_pylist()[0]
    intervals, decisions = history.intervals(first), history.decisions(first)
    assert intervals["network_throughput"].to_pylist() == [each.throughput.network for each in reports[0].timeline]
    assert decisions["reason"].to_pylist() == [each.decision.reason for each in reports[0].decisions]
    assert history.intervals().num_rows == sum(len(report.timeline) for report in reports)
    assert set(history.decisions()["transfer"].to_pylist()) == set(transfers["id"].to_pylist())


def test_without_any_transfer_the_tables_are_empty_and_have_their_columns(tmp_path: Path) -> None:
    for table in (history.transfers(), history.intervals(), history.decisions(), history.imported()):
        assert (table.num_rows, table.num_columns > 5) == (0, True)
    assert history.pasts(".", "edt://host/").num_rows == 0
    assert history.path() == tmp_path / "edt-data" / "history.db"
    assert not history.path().exists()


def test_the_option_decides_what_is_kept(tree: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edt.copy(tree, target, history=False)
    assert not history.path().exists()
    monkeypatch.setenv("EDT_HISTORY", "off")
    edt.copy(tree, target)
    edt.copy(tree, target, history=None)
    assert not history.path().exists()
    edt.copy(tree, target, history=True)
    edt.copy(tree, target, history="names")
    names = history.transfers()["destination_name"].to_pylist()
    assert names == [None, str(target)]
    with pytest.raises(edt.InvalidInputError, match="history"):
        edt.copy(tree, target, history="paths")  # type: ignore[arg-type]


def test_logs_are_imported_once_and_are_pasts_of_their_pair(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    assert history.import_csv(log) == 1
    assert history.import_csv(log, label="again") is None
    imported = history.imported().to_pylist()
    assert (imported[0]["bytes"], imported[0]["throughput"], imported[0]["bandwidth"]) == (10**8, 5e8, None)
    assert imported[0]["label"] == "log.csv"
    (past,) = history.pasts("data/", "edt://127.0.0.1/").to_pylist()
    assert (past["concurrency"], past["parallelism"], past["pipelining"], past["throughput"]) == (4, 8, 16, 5e8)
    log.write_text(LOG.replace("files", "count"))
    with pytest.raises(edt.InvalidInputError, match="count"):
        history.import_csv(log)


def test_large_tables_come_in_batches(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    header, row = LOG.splitlines()
    for label, count in (("one", 8192), ("two", 12_000)):
        lines = [row.replace("5e8", str(10**8 + number)) for number in range(count)]
        log.write_text("\n".join([header, *lines]))
        assert history.import_csv(log, label=label) == count
    table = history.imported()
    assert table["number"].num_chunks > 2
    assert table["label"].to_pylist() == ["one"] * 8192 + ["two"] * 12_000
    assert table["throughput"].to_pylist() == [10**8 + number for count in (8192, 12_000) for number in range(count)]
    table.validate(full=True)


def test_what_is_judged_is_kept_of_each_interval(tree: Path, served: tuple[edt.Server, Path]) -> None:
    server, _root = served
    edt.copy(tree, server.url + "a", limit_rate="8MB", interval=0.1)
    edt.copy("zero:4x1MiB", server.url + "b/", limit_rate="8MB", interval=0.1)
    intervals, transfers = history.intervals(), history.transfers()
    assert intervals.schema.field("judged").type == pa.bool_()
    last = {row["transfer"]: row["judged"] for row in intervals.to_pylist()}
    assert set(last.values()) == {False}, "after the last whole interval the work runs dry"
    assert transfers["source"].to_pylist() == ["local", "zero"]


def test_an_observation_tells_the_sizes_of_the_files(served: tuple[edt.Server, Path]) -> None:
    seen: list[edt.Observation] = []

    class Watching:
        def decide(self, observation: edt.Observation) -> edt.Decision:
            seen.append(observation)
            return edt.Decision.uniform(2)

    server, _root = served
    edt.copy("zero:16x1MiB", server.url + "a/", optimizer=Watching(), limit_rate="8MB", interval=0.05)
    assert seen
    listed = seen[-1].listed
    assert (listed.complete, listed.files, listed.bytes) == (True, 16, 16 << 20)
    assert listed.classes == (edt.SizeClass(exponent=20, files=16, bytes=16 << 20),)


def test_a_transfer_of_a_process_that_was_killed_is_unfinished(tree: Path) -> None:
    code = (
        "import edt, os, sys, time\n"
        "running = edt.Transfer(sys.argv[1], 'null:', limit_rate='1MB').start()\n"
        "while not (edt.history.path().exists() and edt.history.transfers().num_rows): time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    outcome = subprocess.run([sys.executable, "-c", code, str(tree)], timeout=60, check=False)
    assert outcome.returncode == -9
    assert history.transfers()["outcome"].to_pylist() == ["unfinished"]


def test_a_table_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(edt.UnsupportedError, match=r"pip install 'edt\[history\]'"):
        history.transfers()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
def test_a_process_that_was_forked_off_during_a_transfer_leaves_the_history_alone(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(4_000_000))
    transfer = edt.Transfer(source, tmp_path / "target", limit_rate=1e6).start()
    limit = time.monotonic() + 3
    while history.transfers().num_rows == 0:
        assert time.monotonic() < limit, "the transfer keeps no record"
        time.sleep(0.01)
    child = os.fork()
    if child == 0:
        try:
            edt.history.transfers()
        except edt.UnsupportedError as error:
            os._exit(7 if "forked" in f"{error} {error.cause}" else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    transfer.cancel()


def test_a_setting_that_cannot_be_used_is_told_once_on_standard_error(tree: Path) -> None:
    code = "import edt, sys; [edt.copy(sys.argv[1], 'null:') for _ in range(2)]"
    words = [sys.executable, "-c", code, str(tree)]
    environment = {**os.environ, "EDT_HISTORY": "bogus"}
    outcome = subprocess.run(words, timeout=60, check=True, capture_output=True, text=True, env=environment)
    assert outcome.stderr.count("EDT_HISTORY") == 1

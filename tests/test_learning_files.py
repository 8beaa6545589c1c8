"""What was learned, as files: what may be read, what the core makes of it, and `edt learn`."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="learning needs scikit-learn: pip install 'edt[learn]'")

import numpy as np

import bench
import edt
import gridftp_logs
from edt._edt import AsmSearch
from edt.learning import NO_LIMIT, Knowledge, learn, logs, own
from edt.learning.entries import Floats, Ints
from edt.learning.knowledge import Log
from experiments import logs_asm
from learning_logs import DAY_S, THREE_LOADS, entries, features, hill, log


def test_learning_in_two_steps_is_learning_at_once(tmp_path: Path) -> None:
    other = log(size=1e9, began_s=5 * DAY_S)
    at_once = learn(entries(*THREE_LOADS, other), log=Log("all"))
    first = learn(entries(*THREE_LOADS[:2]), log=Log("one"))
    first.write(tmp_path / "knowledge.json")
    both = learn(entries(THREE_LOADS[2], other), base=Knowledge.read(tmp_path / "knowledge.json"), log=Log("two"))
    assert len(both.clusters) == len(at_once.clusters) == 2
    for one, two in zip(at_once.surfaces(), both.surfaces(), strict=True):
        assert [surface.load for surface in one.surfaces] == pytest.approx([surface.load for surface in two.surfaces])
        for a, b in zip(one.surfaces, two.surfaces, strict=True):
            assert np.allclose(a.throughput[0], b.throughput[0])
    assert [(each.name, each.entries) for each in both.logs] == [("one", 250), ("two", 250)]


def test_the_same_logs_give_the_same_file() -> None:
    contents = {learn(entries(*THREE_LOADS, log(size=1e9))).to_bytes() for _ in range(2)}
    assert len(contents) == 1


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "knowledge.json"
    good = learn(entries(log(values=(1, 2)))).to_dict()
    load: dict[str, Any] = {
        "settings": [[1, 2, 3]],
        "count": [1],
        "mean": [1e6],
        "squares": [0.0],
        "first_s": 1.0,
        "last_s": 2.0,
    }

    def changed(cluster: dict[str, Any], **load_class: Any) -> dict[str, Any]:
        one = {**good["learned"]["clusters"][0], "classes": [{**load, **load_class}], **cluster}
        return {"learned": {**good["learned"], "clusters": [one]}}

    file.write_text(json.dumps({**good, **changed({})}))
    assert Knowledge.read(file).clusters[0].entries == 1
    both = {name: [*load[name], *load[name]] for name in ("settings", "count", "mean", "squares")}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"kind": "harp"}, "kind 'harp'"),
        ({"format": 9}, "format 9, and this edt knows format 2\nhint: update edt, or learn anew"),
        ({"format": 1}, "format 1, and this edt knows format 2\nhint: learn anew with `edt learn --fresh`"),
        ({"features": []}, "features"),
        ({"learned": {}}, "no 'options'"),
        (
            {"learned": {**good["learned"], "clusters": [{"mean": [], "known": [], "reach": 0, "classes": []}]}},
            "centroid",
        ),
        (changed({"reach": -1.0}), "centroid"),
        (changed({"mean": [1e308 * 10, None, None, None]}), "Infinity"),
        *((changed({}, settings=[[1, 2, pp]]), "from 1 to 65535") for pp in (0, -1, 70_000, 1.5)),
        (changed({}, settings=[[1, 2, 10**400]]), "too large"),
        (changed({}, **both), "each setting once"),
        (changed({}, count=[0]), "impossible"),
        (changed({}, count=[1.5]), "impossible"),
        (changed({}, mean=[0.0]), "impossible"),
        (changed({}, squares=[-1.0]), "impossible"),
        (changed({}, squares=[math.nan]), "NaN"),
        (changed({}, last_s=math.inf), "Infinity"),
        ({"learned": {**good["learned"], "logs": [{"name": "a", "entries": 1, "until_s": -math.inf}]}}, "Infinity"),
    ]
    for change, expected in cases:
        file.write_text(json.dumps({**good, **change}))
        with pytest.raises(ValueError, match=r"knowledge\.json") as raised:
            Knowledge.read(file)
        assert expected in str(raised.value)
    for text in ("{", "[" * 100_000, json.dumps({**good, **changed({})}).replace("1000000.0", "1e999")):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"knowledge\.json"):
            Knowledge.read(file)


def test_what_is_too_large_to_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "knowledge.json"
    knowledge = learn(entries(log(values=(1, 2))))
    knowledge.write(file)
    monkeypatch.setattr("edt.learning.knowledge.MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="no more than 1000 are read"):
        Knowledge.read(file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match="more than 1000\nhint: learn anew"):
        knowledge.write(file)
    assert file.read_bytes() == before


def test_the_core_reads_what_python_writes_and_predicts_the_same() -> None:
    jagged = np.random.default_rng(4)
    kinds = [
        [
            log(lambda *setting: hill(*setting) * jagged.uniform(0.6, 1.4), began_s=day * DAY_S, size=size)
            for day in range(5)
        ]
        for size in (1e6, 1e9)
    ]
    knowledge = learn(entries(*kinds[0], *kinds[1]))
    content = knowledge.to_bytes()
    known = knowledge.surfaces()
    searches = [AsmSearch(content, features(size)) for size in (1e6, 1e9)]
    assert {search.cluster for search in searches} == {0, 1}
    for search in searches:
        drawn = known[search.cluster]
        assert search.distance < 0.5
        assert search.loads == pytest.approx([surface.load for surface in drawn.surfaces], abs=1e-4)
        assert search.surface == (len(drawn.surfaces) - 1) // 2
        settings = drawn.grids[0].settings
        for index, surface in enumerate(drawn.surfaces):
            assert search.best(index) == best(settings, surface.throughput[0].reshape(-1))
            for place in range(0, len(settings), 17):
                throughput, deviation = search.predict(index, triple(settings[place]))
                assert throughput == pytest.approx(surface.throughput[0].reshape(-1)[place], rel=1e-3)
                share = surface.deviation[0].reshape(-1)[place]
                assert deviation == pytest.approx(share * throughput, abs=6e-4 * throughput)


def best(settings: Ints, throughput: Floats) -> tuple[int, int, int]:
    """The setting with the fewest streams of those that give 98 % of the highest throughput."""
    enough = settings[throughput >= 0.98 * throughput.max()]
    streams = enough[:, 0] * enough[:, 1]
    high = throughput[throughput >= 0.98 * throughput.max()]
    return triple(enough[np.lexsort((-high, streams))[0]])


def triple(setting: Ints) -> tuple[int, int, int]:
    """A setting as the core takes it."""
    p, cc, pp = (int(value) for value in setting)
    return p, cc, pp


def test_the_core_finds_the_load_and_keeps_within_a_limit() -> None:
    content = learn(entries(*THREE_LOADS)).to_bytes()
    search = AsmSearch(content, features(1e6))
    assert search.best(search.surface) == (4, 6, 4), "24 streams give nearly as much as 32"
    achieved = 0.26 * hill(4, 6, 4)
    assert not search.sampled((4, 6, 4), achieved), "the best setting is the same under all loads"
    assert search.loads[search.surface] == pytest.approx(0.75, abs=1e-3)
    assert search.candidates == 1
    setting, throughput = search.conclusion()
    assert setting == (4, 6, 4)
    assert throughput == pytest.approx(achieved)
    limited = AsmSearch(content, features(1e6), max_streams=16)
    assert limited.best(0) in ((4, 4, 4), (2, 8, 4), (3, 5, 4))
    with pytest.raises(IndexError):
        search.best(9)
    with pytest.raises(edt.InvalidInputError, match="knows no transfers"):
        AsmSearch(json.dumps({**json.loads(content), "clusters": []}).encode(), {})


def test_passes_of_real_logs_go_as_predicted() -> None:
    if reason := gridftp_logs.missing():
        pytest.skip(f"there is no {reason}")
    (found,) = logs_asm.run(bench.Options(quick=True))
    assert [figure.what for figure in found.figures if figure.passed is False] == []
    assert sum(figure.passed is True for figure in found.figures) == 3


CSV = """# a tool's log
start_s,source,destination,bandwidth_bytes_per_s,rtt_s,files,mean_file_bytes,concurrency,parallelism,pipelining,throughput_bytes_per_s
"""


def csv(columns: dict[str, Any]) -> str:
    """A log as a CSV file."""
    rows = zip(
        columns["began_s"],
        columns["concurrency"],
        columns["parallelism"],
        columns["pipelining"],
        columns["throughput"],
        strict=True,
    )
    return CSV + "".join(f"{began},a,b,,0.04,1000,1e6,{cc},{p},{pp},{rate}\n" for began, cc, p, pp, rate in rows)


def learned_by_command(*words: str | Path, data: Path) -> subprocess.CompletedProcess[str]:
    """Runs what `edt learn` runs."""
    command = [sys.executable, "-m", "edt.learning", *map(str, words)]
    environment = {"EDT_DATA_DIR": str(data), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_csv_file_is_read_as_it_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(csv(log()))
    found = logs.read_csv(file)
    assert len(found) == 125
    assert found.settings[1].tolist() == [1, 1, 2]
    assert np.isnan(found.features[:, 0]).all()
    assert 2.0 ** found.features[0, 2] == pytest.approx(1e6)
    for text, expected in ((CSV + "1,2\n", "row 2 has 2 fields"), (CSV.replace("rtt_s", "rtt_ms"), "`rtt_ms`")):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"log\.csv") as raised:
            logs.read_csv(file)
        assert expected in str(raised.value)


def test_the_command_learns_adds_and_counts_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, columns in enumerate(THREE_LOADS[:2]):
        (tmp_path / f"{number}.csv").write_text(csv(columns))
    ended = learned_by_command(tmp_path / "0.csv", "--json", data=tmp_path)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["new_entries"], report["entries"], len(report["clusters"])) == (125, 125, 1)
    assert Path(report["knowledge_file"]) == tmp_path / "knowledge" / "knowledge.json"
    report = json.loads(learned_by_command(tmp_path / "0.csv", tmp_path / "1.csv", "--json", data=tmp_path).stdout)
    assert (report["new_entries"], report["entries"]) == (125, 250)
    assert report["clusters"][0]["external_loads"] == [0.0, 0.5]
    monkeypatch.setenv("EDT_DATA_DIR", str(tmp_path))
    assert edt.history.import_csv(tmp_path / "0.csv") == 125
    report = json.loads(learned_by_command("--history", "--json", data=tmp_path).stdout)
    assert (report["new_entries"], report["entries"]) == (0, 250), "it was learned from as a file"
    report = json.loads(learned_by_command(tmp_path / "0.csv", "--fresh", "--json", data=tmp_path).stdout)
    assert report["entries"] == 125
    ended = learned_by_command(tmp_path / "0.csv", data=tmp_path)
    assert "was learned from before" in ended.stderr


def test_a_file_of_before_is_refused_with_what_to_do_and_nothing_counts_twice(tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text(csv(log()))
    file = tmp_path / "knowledge.json"
    words: tuple[str | Path, ...] = (tmp_path / "0.csv", "--output", file)
    assert learned_by_command(*words, data=tmp_path).returncode == 0
    before = json.loads(file.read_text())
    before["format"], before["learned"]["logs"][0]["name"] = 1, "the digest of a file's bytes"
    file.write_text(json.dumps(before))
    ended = learned_by_command(*words, data=tmp_path)
    assert (ended.returncode, "hint: learn anew with `edt learn --fresh`" in ended.stderr) == (2, True), ended.stderr
    assert json.loads(file.read_text()) == before
    with pytest.raises(edt.InvalidInputError, match="format 1"):
        edt.copy("zero:1x1MiB", "null:", optimizer="asm", knowledge=file)
    ended = learned_by_command(*words, "--fresh", "--json", data=tmp_path)
    assert json.loads(ended.stdout)["entries"] == 125, ended.stderr


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    ended = learned_by_command(data=tmp_path)
    assert ended.returncode == 2
    assert "hint: run some transfers first" in ended.stderr
    ended = learned_by_command("none.csv", data=tmp_path)
    assert ended.returncode == 2
    assert "none.csv" in ended.stderr


def test_intervals_count_where_they_were_judged_and_the_setting_stayed() -> None:
    same = dict.fromkeys(own.SETTINGS, np.array([4.0, 4, 4, 4, 8, 8, 2, 2, 2]))
    transfer = np.array([1.0, 1, 1, 1, 1, 1, 2, 2, 2])
    judged = np.array([1.0, 1, 0, 1, 1, 1, np.nan, np.nan, np.nan])
    found = own.settled({**same, "transfer": transfer, "judged": judged})
    assert np.flatnonzero(found).tolist() == [1, 3, 5, 7], "of transfer 2 nobody judged: it is the last that counts not"


def test_only_transfers_from_storage_to_storage_are_learned_from() -> None:
    names = ["", "", "", "/data/zero:", "", ""]
    transfers = {
        "id": np.arange(6.0),
        "source": np.array(["local", "zero", "local", "local", "local", "a_1"], dtype=object),
        "destination": np.array(["h_1", "h_1", "null", "h_1", "h_1", "h_1"], dtype=object),
        "source_name": np.array(names, dtype=object),
    }
    intervals = {"transfer": np.arange(6.0), "judged": np.array([1.0, 1.0, 1.0, np.nan, np.nan, np.nan])}
    found = own.of_storage(transfers, intervals)
    assert found.tolist() == [True, False, False, True, False, True], "of 4, which nobody judged, nothing tells"


RENAMED = "UPDATE transfers SET source = 'local', destination = 'h_1' WHERE source = 'zero'"
"""Has transfers from memory to nowhere count as such between machines: they are fast, and tests of them short."""


def changed(database: Path, statement: str) -> None:
    """Changes the history from another process: two copies of SQLite in one would take each other's locks."""
    program = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as connection: connection.execute(sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, str(database), statement], check=True, timeout=60)


def test_own_transfers_are_learned_from_and_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDT_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("EDT_HISTORY", raising=False)
    for streams in (1, 2, 3):
        edt.copy("zero:40x32MiB", "null:", optimizer="fixed", concurrency=streams, interval=0.05)
    edt.copy("zero:40x32MiB", "null:", optimizer="fixed", concurrency=5, interval=0.05, pipelining=0)
    edt.copy("zero:4x8MiB", "null:", optimizer="fixed", concurrency=4, interval=0.05, limit_rate="200MB")
    assert len(own.transfers(0.0)[0]) == 0, "what comes from memory and goes nowhere says nothing of a storage"
    changed(tmp_path / "history.db", RENAMED)
    found, until_s = own.transfers(0.0)
    assert 3 <= len(found) <= 9, "one entry for each transfer, or one for each ten seconds"
    assert set(map(tuple, found.settings.tolist())) == {(NO_LIMIT, streams, NO_LIMIT) for streams in (1, 2, 3)}
    assert 2.0 ** found.features[0, 2:] == pytest.approx([32 * 2**20, 40])
    assert len(own.transfers(until_s)[0]) == 0
    (tmp_path / "log.csv").write_text(csv(log()))
    edt.history.import_csv(tmp_path / "log.csv")
    for new in (len(found) + 125, 0):
        ended = learned_by_command("--json", data=tmp_path)
        assert ended.returncode == 0, ended.stderr
        report = json.loads(ended.stdout)
        assert report["new_entries"] == new
        assert len(report["clusters"]) == 2
    (tmp_path / "again.csv").write_text("# imported before\n" + csv(log()))
    ended = learned_by_command(tmp_path / "again.csv", "--json", data=tmp_path)
    assert "was learned from before" in ended.stderr and json.loads(ended.stdout)["new_entries"] == 0
    assert edt.copy("zero:8x32MiB", "null:", optimizer="asm", interval=0.05).totals.files_done == 8


def test_a_transfer_is_steered_by_what_was_learned(tmp_path: Path) -> None:
    file = tmp_path / "knowledge.json"
    learn(entries(*THREE_LOADS)).write(file)
    report = edt.copy("zero:16x64MiB", "null:", optimizer="asm", knowledge=file, interval=0.1)
    assert report.totals.files_done == 16
    first = report.to_dict()["decisions"][0]["decision"]
    assert (first["concurrency"]["network"], first["parallelism"], first["pipelining"]) == (24, 4, 4)
    with pytest.raises(edt.InvalidInputError, match=r"none\.json"):
        edt.copy("zero:1x1MiB", "null:", optimizer="asm", knowledge=tmp_path / "none.json")

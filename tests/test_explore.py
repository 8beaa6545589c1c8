"""`edt explore`: what it measures, keeps, and does not leave behind. And the way into `edt train`."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import venv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

import emulated
from harness import EDT, MIB, Edt, Json, Outcome, Running, Server, fill, snapshot, wait_until

STAGES = ("read", "network", "write")
SHORT = ("--interval", "0.5", "--max-streams", "4")


@pytest.fixture(autouse=True)
def paths(edt: Edt, scratch: Path) -> Path:
    """Where explored paths are kept."""
    edt.environment["EDT_DATA_DIR"] = str(scratch / "data")
    return scratch / "data" / "paths"


@pytest.fixture
def files(source: Path) -> Path:
    """Files for some seconds at a few dozen megabytes per second, none so large that it is left to the last streams."""
    for number in range(16):
        fill(source / f"{number}.bin", 8 * MIB, number)
    return source


def explore(edt: Edt, *words: str | Path) -> Outcome:
    """Runs an exploration, and holds it to its exit code."""
    outcome = edt.run("explore", *words)
    assert outcome.code == 0, outcome.err
    return outcome


def kept(paths: Path, server: Server, form: str) -> Json:
    """The path file of a server, and that it is the only one."""
    name = form.format(f"127.0.0.1_{server.port}")
    assert [path.name for path in paths.iterdir()] == [name]
    path: Json = json.loads((paths / name).read_text())
    return path


def largest(values: Iterable[float]) -> float:
    """The median of the largest twentieth; of less than forty values the largest."""
    found = sorted(values, reverse=True)
    return found[max(1, len(found) // 20) // 2]


def hold_estimates_to_samples(path: Json) -> None:
    """Holds the estimates to the samples by the formulas of the papers [EDT §IV-E1, AutoMDT §IV-A]."""
    samples, estimate = path["samples"], path["estimate"]
    explored = STAGES if path["stages"] == 3 else ("network",)
    assert len(samples) >= 2
    moved = {
        stage: [
            (sample["throughput"][stage], sample["concurrency"][stage])
            for sample in samples
            if sample["concurrency"][stage] >= 0.5
        ]
        for stage in explored
    }
    bandwidth = {stage: largest(throughput for throughput, _ in moved[stage]) for stage in explored}
    narrowest = min(bandwidth.values())
    assert narrowest > 0
    utility = 0.0
    for stage in explored:
        rate = largest(throughput / workers for throughput, workers in moved[stage])
        assert estimate["bandwidth"][stage] == pytest.approx(bandwidth[stage])
        assert estimate["stream_rate"][stage] == pytest.approx(rate)
        assert estimate["optimum"][stage] == pytest.approx(narrowest / rate)
        utility += narrowest / path["k"] ** (narrowest / rate)
    assert estimate["r_max"] == pytest.approx(utility)
    for stage in set(STAGES) - set(explored):
        assert estimate["bandwidth"][stage] is estimate["stream_rate"][stage] is estimate["optimum"][stage] is None


@pytest.mark.parametrize("direction", ["up", "down"])
def test_one_stage_is_measured_from_memory_to_memory(
    edt: Edt, serve: Callable[..., Server], paths: Path, direction: str
) -> None:
    server = serve(None, "--read-only")
    fill(server.root / "kept.bin", 1000, "kept")
    before = snapshot(server.root)
    # The paths of both endpoints do not count, only their machines.
    ends = ("no/such/file", server.url("nor/this")) if direction == "up" else (server.url("nor/this"), "null:")
    outcome = explore(edt, "--seconds", "3", "--max-streams", "8", "--json", *ends)
    path = kept(paths, server, "local--{}.json" if direction == "up" else "{}--local.json")
    assert json.loads(outcome.out) == path
    hold_estimates_to_samples(path)
    assert (path["format"], path["stages"], path["k"]) == (1, 1, 1.02)
    assert [path["source"], path["destination"]] == list(ends)
    assert 3 <= path["seconds"] < 6
    assert all(0.9 <= sample["concurrency"]["network"] <= 8.1 for sample in path["samples"])
    assert path["buffers"]["sender"] > 0
    assert path["buffers"]["receiver"] > 0
    assert snapshot(server.root) == before


def test_without_json_a_table_tells_what_to_do_next(edt: Edt, server: Server, scratch: Path) -> None:
    file = scratch / "a path.json"
    outcome = explore(edt, "--seconds", "1.5", *SHORT, "--output", file, "zero:", server.url())
    path = json.loads(file.read_text())
    lines = outcome.out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:4]] == ["bandwidth", "stream rate", "optimum", "R_max"]
    assert float(lines[0].split()[1]) == pytest.approx(path["estimate"]["bandwidth"]["network"] * 8 / 1e6, abs=0.06)
    assert lines[-1] == f"next: edt train --path '{file}'"
    assert "\x1b" not in outcome.err
    # What was kept before is replaced, whole.
    explore(edt, "--seconds", "1.5", *SHORT, "--seed", "5", "--output", file, "zero:", server.url())
    assert json.loads(file.read_text())["samples"] != path["samples"]


def test_three_stages_are_measured_by_copies_that_leave_nothing(
    edt: Edt, serve: Callable[..., Server], paths: Path
) -> None:
    # Workers write half as fast as they read: stages that were not apart would show one rate.
    server = serve(None, "--worker-rate", "20MB")
    (server.root / "below").mkdir()
    words = ("--stages", "3", "--seconds", "6", *SHORT, "--worker-rate", "40MB")
    explore(edt, *words, "zero:24x20MB", server.url("below/"))
    path = kept(paths, server, "local--{}-3.json")
    hold_estimates_to_samples(path)
    assert path["stages"] == 3
    # Each stage has numbers of its own.
    assert any(len({round(sample["concurrency"][stage]) for stage in STAGES}) == 3 for sample in path["samples"])
    assert path["estimate"]["stream_rate"]["read"] == pytest.approx(40e6, rel=0.15)
    assert path["estimate"]["stream_rate"]["write"] == pytest.approx(20e6, rel=0.15)
    assert [item.name for item in server.root.rglob("*")] == ["below"]


def test_the_copies_of_a_server_s_data_leave_nothing_here(
    edt: Edt, serve: Callable[..., Server], files: Path, scratch: Path, paths: Path
) -> None:
    server = serve(files, "--worker-rate", "20MB")
    before = snapshot(files)
    target = scratch / "target"
    target.mkdir()
    explore(edt, "--stages", "3", "--seconds", "4", *SHORT, server.url(), target)
    path = kept(paths, server, "{}--local-3.json")
    hold_estimates_to_samples(path)
    assert path["estimate"]["stream_rate"]["read"] == pytest.approx(20e6, rel=0.15)
    assert list(target.iterdir()) == []
    assert snapshot(files) == before


@pytest.mark.parametrize("where", ["here", "there"])
def test_ctrl_c_leaves_no_scratch_behind(
    edt: Edt, server: Server, files: Path, scratch: Path, paths: Path, where: str
) -> None:
    target = scratch / "target"
    target.mkdir()
    ends = (files, server.url()) if where == "there" else (files, target)
    root = server.root if where == "there" else target
    running = edt.start("explore", "--stages", "3", "--seconds", "600", *SHORT, "--worker-rate", "20MB", *ends)
    wait_until(lambda: any(path.is_file() for path in root.glob(".edt-explore-*/**/*")), "the first file")
    running.signal(signal.SIGINT)
    outcome = running.end()
    assert outcome.code == 130, outcome.err
    assert "interrupted: nothing was kept" in outcome.err
    assert list(root.iterdir()) == []
    assert not list(paths.glob("*"))


def test_what_cannot_be_explored_is_refused_at_once(
    edt: Edt, serve: Callable[..., Server], source: Path, scratch: Path
) -> None:
    server = serve(None, "--read-only")
    refused = edt.run("explore", "zero:", server.url(), secret="another secret, long enough too")
    assert refused.code == 3, refused.err
    fill(source / "a.bin", MIB, "a")
    assert edt.run("explore", "--stages", "3", source, server.url()).code == 3
    assert edt.run("explore", "--stages", "3", source, server.url("missing/")).code == 4
    assert edt.run("explore", "--stages", "3", source, scratch / "missing").code == 4
    assert edt.run("explore", "--output", source / "a.bin" / "b", "zero:", "null:").code == 2
    assert list(server.root.iterdir()) == []


def test_reports_of_past_transfers_are_an_exploration_too(
    edt: Edt, server: Server, files: Path, scratch: Path, paths: Path
) -> None:
    words: list[str | Path] = []
    for streams in (2, 4):
        report = scratch / f"{streams}.json"
        words += ["--report", report]
        rate = ("--worker-rate", "20MB", "--interval", "0.5")
        edt.copy("--concurrency", str(streams), *rate, "--report", report, files, server.url(f"{streams}/"))
    explore(edt, *words, files, server.url())
    path = kept(paths, server, "local--{}.json")
    hold_estimates_to_samples(path)
    assert {round(sample["concurrency"]["network"]) for sample in path["samples"]} == {2, 4}
    assert path["estimate"]["stream_rate"]["network"] == pytest.approx(20e6, rel=0.15)
    assert edt.run("explore", "--report", scratch / "missing.json", files, server.url()).code == 2


def test_a_worker_keeps_its_rate_to_within_three_percent(edt: Edt, server: Server, scratch: Path) -> None:
    report = scratch / "report.json"
    words = ("--worker-rate", "40MB", "--concurrency", "2", "--interval", "1", "--report", report)
    edt.copy(*words, "zero:8x40MB", server.url("made-up/"))
    whole = [sample for sample in json.loads(report.read_text())["timeline"] if sample["elapsed_s"] > 1][:-1]
    assert len(whole) >= 2
    rates = [sample["throughput"]["read"] / sample["concurrency"]["read"] for sample in whole]
    # What a thread lacks that woke late is the machine's doing.
    assert max(rates) <= 1.03 * 40e6 and statistics.median(rates) >= 0.97 * 40e6, rates


def test_the_estimates_are_those_of_the_path(
    emulated_path: Callable[..., emulated.Path], edt: Edt, scratch: Path
) -> None:
    path = emulated_path("cloudlab")
    root = scratch / "served"
    root.mkdir()
    server = Server(edt, root, "--plain", host=path.far.address, within=path.command("far", []))
    try:
        words = ["--plain", "--seconds", "8", "--max-streams", "16", "--json", "zero:", server.url()]
        outcome = Running(path.command("near", [EDT, "explore", *words]), edt.environment).end()
    finally:
        server.stop()
    assert outcome.code == 0, outcome.err
    explored = json.loads(outcome.out)
    hold_estimates_to_samples(explored)
    estimate = explored["estimate"]
    assert estimate["bandwidth"]["network"] * 8 == pytest.approx(path.profile["rate_bps"], rel=0.10)
    assert estimate["stream_rate"]["network"] * 8 == pytest.approx(path.profile["stream_rate_bps"], rel=0.15)
    # The queues of the path are never quite empty while it is explored.
    assert path.profile["rtt_ms"] <= estimate["rtt_ms"] <= 3 * path.profile["rtt_ms"]


def train(edt: Edt, *words: str, **environment: str) -> Outcome:
    """Runs `edt train` with some variables set."""
    without = {name: value for name, value in edt.environment.items() if name not in ("EDT_PYTHON", "VIRTUAL_ENV")}
    return Running([EDT, "train", *words], {**without, **environment}).end()


def test_train_without_python_or_its_package_says_what_to_install(edt: Edt, scratch: Path) -> None:
    bare = scratch / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    missing: Sequence[dict[str, str]] = [{"EDT_PYTHON": str(scratch / "no-python")}, {"VIRTUAL_ENV": str(bare)}]
    for environment in missing:
        outcome = train(edt, "zero:", "edt://host/", **environment)
        assert outcome.code == 2
        assert "hint: pip install 'edt[train]'" in outcome.err


def test_train_hands_its_words_and_the_exit_code_through(edt: Edt, scratch: Path) -> None:
    package = scratch / "package" / "edt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "training.py").write_text("import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(7)\n")
    words = ("--path", "a b.json", "--agent", "edt", "--quiet", "--help")
    outcome = train(edt, *words, EDT_PYTHON=sys.executable, PYTHONPATH=os.fspath(package.parent))
    assert (outcome.code, json.loads(outcome.out)) == (7, list(words))

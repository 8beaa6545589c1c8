"""Every optimizer that can be named copies a tree through a real server, and says why it decided what it did."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import MIB, Edt, Server, fill, mixed_tree, snapshot

AGENTS = Path(__file__).parents[1] / "core" / "tests" / "agents"
TRAINED = ("edt", "automdt", "drl")
NAMES = (
    *("auto", "fixed", "falcon", "falcon-printed", "falcon-mp", "model", "marlin", "hill-climb", "binary", "bayes"),
    *("generalist", "nelder-mead", "pcp", "single-chunk", "promc", "globus", "ann", "ann-once"),
    *("harp", "harp-once", "asm"),
    *TRAINED,
)
LOG = "start_s,files,bytes,rtt_s,concurrency,parallelism,pipelining,throughput_bytes_per_s"


@pytest.fixture
def history(edt: Edt, scratch: Path) -> Path:
    """A history of 60 transfers over a path that gives up to 8 streams 10 MB/s each."""
    edt.environment["EDT_DATA_DIR"] = str(scratch / "data")
    rows = [LOG]
    for number in range(60):
        streams, parallelism, pipelining = number % 12 + 1, 1 + number % 2, 4 * (1 + number % 3)
        throughput = 10e6 * min(streams * parallelism, 8) * (1 + 0.01 * (number % 5))
        rows.append(f"{1_700_000_000 + number},100,{100 * MIB},0.001,{streams},{parallelism},{pipelining},{throughput}")
    log = scratch / "log.csv"
    log.write_text("\n".join(rows) + "\n")
    outcome = edt.run("history", "import", log)
    assert outcome.code == 0, outcome.err
    return log


def named(edt: Edt) -> set[str]:
    """The names that `--optimizer` takes, as the command line tells them."""
    outcome = edt.run("cp", "--optimizer", "nobody", "a", "b")
    assert outcome.code == 2
    found = re.search(r"possible values: ([^\]]+)\]", outcome.err)
    assert found, outcome.err
    return set(re.split(r",\s*", found[1]))


def test_the_names_are_those_that_are_tested_here(edt: Edt) -> None:
    assert named(edt) == set(NAMES)


def options(optimizer: str, edt: Edt, log: Path) -> list[str | Path]:
    """What an optimizer needs besides its name."""
    if optimizer in TRAINED:
        return ["--agent", AGENTS / f"{optimizer}.safetensors"]
    if optimizer == "asm":
        if find_spec("sklearn") is None:
            pytest.skip("learning needs scikit-learn: pip install 'edt[learn]'")
        edt.environment["EDT_PYTHON"] = sys.executable
        knowledge = log.parent / "knowledge.json"
        outcome = edt.run("learn", "--quiet", "--output", knowledge, log, timeout=120)
        assert outcome.code == 0, outcome.err
        return ["--knowledge", knowledge]
    return []


@pytest.mark.parametrize("optimizer", NAMES)
def test_it_copies_a_tree_and_gives_its_reasons(
    edt: Edt, server: Server, source: Path, history: Path, optimizer: str
) -> None:
    mixed_tree(source, optimizer, large=2 * MIB, small=100)
    for number in range(24):
        fill(source / "even" / f"{number}.bin", MIB, f"{optimizer} {number}")
    # Held back, so that it decides often while little is moved.
    words = ["--interval", "0.05", "--max-streams", "6", "--limit-rate", "25MB", *options(optimizer, edt, history)]
    outcome = edt.copy("--optimizer", optimizer, *words, source, server.url("tree/"))
    assert snapshot(server.root / "tree") == snapshot(source)
    report = outcome.events()[-1]
    assert report["failures"] == [] and report["optimizer"].startswith(optimizer)
    decisions = [tuned["decision"] for tuned in report["decisions"]]
    assert len(decisions) >= 3 and all(decision["reason"] for decision in decisions), decisions
    assert not any("tuning ended" in decision["reason"] for decision in decisions), decisions
    assert all(1 <= decision["concurrency"]["network"] <= 6 for decision in decisions), decisions


def test_without_a_history_the_network_says_what_to_do(edt: Edt, server: Server, source: Path, scratch: Path) -> None:
    edt.environment["EDT_DATA_DIR"] = str(scratch / "none")
    mixed_tree(source, "none")
    outcome = edt.run("cp", "--optimizer", "ann", source, server.url("tree/"))
    assert outcome.code == 2
    assert "at least 30 past transfers, and 0 are known" in outcome.err and "hint: copy with other" in outcome.err
    assert not (server.root / "tree").exists()

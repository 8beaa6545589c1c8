"""Transfers steered by trained agents."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from harness import MIB, Edt, Outcome, Server, mixed_tree, snapshot

AGENTS = Path(__file__).parents[1] / "core" / "tests" / "agents"


@pytest.fixture
def data(edt: Edt, scratch: Path) -> Path:
    """The data directory of the command line, empty."""
    edt.environment["EDT_DATA_DIR"] = str(scratch / "data")
    return scratch / "data"


def decisions(outcome: Outcome) -> list[dict[str, Any]]:
    report = outcome.events()[-1]
    return [tuned["decision"] for tuned in report["decisions"]]


@pytest.mark.parametrize("optimizer", ["edt", "automdt", "drl"])
def test_an_agent_steers_a_transfer_that_copies_the_same_bytes(
    edt: Edt, server: Server, source: Path, optimizer: str
) -> None:
    mixed_tree(source, optimizer, large=MIB, small=1500)
    file = AGENTS / f"{optimizer}.safetensors"
    words = ["--optimizer", optimizer, "--agent", str(file), "--interval", "0.05", "--limit-rate", "5MB"]
    outcome = edt.copy(*words, source, server.url("tree/"))
    assert snapshot(server.root / "tree") == snapshot(source)
    assert outcome.events()[-1]["optimizer"] == optimizer
    assert any("the agent's" in decision["reason"] for decision in decisions(outcome)), decisions(outcome)


def test_marlin_copies_the_same_bytes(edt: Edt, server: Server, source: Path) -> None:
    mixed_tree(source, "marlin", large=24 * MIB)
    edt.copy("--optimizer", "marlin", "--interval", "0.05", "--max-streams", "6", source, server.url("tree/"))
    assert snapshot(server.root / "tree") == snapshot(source)


def test_the_agent_kept_for_the_endpoints_is_used(edt: Edt, server: Server, source: Path, data: Path) -> None:
    mixed_tree(source, "kept")
    kept = data / "agents" / f"local--127.0.0.1_{server.port}-edt.safetensors"
    kept.parent.mkdir(parents=True)
    shutil.copyfile(AGENTS / "edt.safetensors", kept)
    outcome = edt.copy("--optimizer", "edt", "--deterministic", source, server.url("tree/"))
    assert outcome.events()[-1]["optimizer"] == "edt"
    assert snapshot(server.root / "tree") == snapshot(source)


@pytest.mark.parametrize("optimizer", ["edt", "automdt", "drl"])
def test_without_an_agent_the_error_names_the_file_and_what_to_run(
    edt: Edt, server: Server, source: Path, data: Path, optimizer: str
) -> None:
    mixed_tree(source, "none")
    outcome = edt.run("cp", "--optimizer", optimizer, source, server.url("tree/"))
    assert outcome.code == 2
    assert str(data / "agents" / f"local--127.0.0.1_{server.port}-{optimizer}.safetensors") in outcome.err
    assert "edt explore" in outcome.err and "edt train" in outcome.err and "--agent" in outcome.err
    assert not (server.root / "tree").exists()


def test_a_file_that_is_no_agent_of_this_kind_is_refused_before_anything_is_sent(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    mixed_tree(source, "wrong")
    junk = scratch / "junk.safetensors"
    junk.write_bytes(b"PK\x03\x04 not an agent")
    for file, expected in [
        (junk, "neither a safetensors nor an ONNX file"),
        (AGENTS / "drl.safetensors", "--optimizer drl"),
        (scratch / "absent", "absent"),
    ]:
        outcome = edt.run("cp", "--optimizer", "edt", "--agent", file, source, server.url("tree/"))
        assert outcome.code == 2, outcome.err
        assert str(file) in outcome.err and expected in outcome.err
    assert not (server.root / "tree").exists()


def test_an_onnx_file_needs_a_build_with_onnx(edt: Edt, server: Server, source: Path) -> None:
    mixed_tree(source, "onnx")
    outcome = edt.run("cp", "--optimizer", "edt", "--agent", AGENTS / "edt.onnx", source, server.url("tree/"))
    if outcome.code == 0:
        assert snapshot(server.root / "tree") == snapshot(source)
    else:
        assert outcome.code == 2
        assert "--features onnx" in outcome.err


def test_an_agent_and_an_optimizer_that_takes_none_do_not_go_together(edt: Edt, source: Path, scratch: Path) -> None:
    file = AGENTS / "edt.safetensors"
    outcome = edt.run("cp", "--optimizer", "falcon", "--agent", file, source, scratch / "copy")
    assert outcome.code == 2
    assert "takes no agent" in outcome.err

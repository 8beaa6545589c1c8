"""Trained agents from Python: the options are those of the core, and so are their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import edt

AGENTS = Path(__file__).parents[2] / "core" / "tests" / "agents"


def test_every_optimizer_of_the_core_has_its_name() -> None:
    assert {"auto", "fixed", "edt", "automdt", "falcon", "marlin", "drl"} <= set(edt.OPTIMIZERS)


@pytest.mark.parametrize("optimizer", ["edt", "automdt", "drl"])
def test_an_agent_copies_a_tree(tree: Path, target: Path, optimizer: str) -> None:
    agent = AGENTS / f"{optimizer}.safetensors"
    report = edt.copy(tree, target, optimizer=optimizer, agent=agent, deterministic=True, seed=7)
    assert report.optimizer == optimizer
    assert (target / "a.txt").read_bytes() == b"alpha"


def test_without_an_agent_the_error_names_the_file(
    tree: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDT_DATA_DIR", str(tmp_path / "data"))
    with pytest.raises(edt.InvalidInputError, match=r"local--local-edt\.safetensors") as caught:
        edt.copy(tree, target, optimizer="edt")
    assert caught.value.hint is not None and "edt train" in caught.value.hint


def test_an_agent_needs_an_optimizer_that_takes_one(tree: Path, target: Path) -> None:
    with pytest.raises(edt.InvalidInputError, match="takes no agent"):
        edt.copy(tree, target, agent=AGENTS / "edt.safetensors")


def test_a_seed_is_a_number_from_zero(tree: Path, target: Path) -> None:
    with pytest.raises(edt.InvalidInputError, match="seed"):
        edt.copy(tree, target, optimizer="edt", agent=AGENTS / "edt.safetensors", seed=-1)

"""What surrounds the API: imports, the command line, examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import edt

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300
    )


def test_the_import_loads_nothing_that_it_may_not_need() -> None:
    code = "import sys, edt; print(sorted({'tqdm', 'matplotlib', 'numpy'} & set(sys.modules)))"
    outcome = run("-W", "error", "-c", code)
    assert (outcome.stdout, outcome.stderr) == ("[]\n", "")


def test_the_package_has_a_version_and_every_name_it_promises() -> None:
    assert edt.__version__.count(".") == 2
    assert "auto" in edt.OPTIMIZERS
    assert [name for name in edt.__all__ if not hasattr(edt, name)] == []


def test_the_module_is_the_command_line(tree: Path, target: Path) -> None:
    assert run("-m", "edt", "cp", tree, target).returncode == 0
    assert (target / "a.txt").read_bytes() == b"alpha"
    listed = run("-m", "edt", "ls", target)
    assert {line.rstrip("/") for line in listed.stdout.splitlines()} == {"a.txt", "empty", "sub"}


def test_the_module_has_the_exit_codes_of_the_command_line(tree: Path, target: Path) -> None:
    assert run("-m", "edt", "cp", "--no-such-option").returncode == 2
    target.mkdir()
    (target / "a.txt").mkdir()
    assert run("-m", "edt", "cp", tree, target).returncode == 1
    assert run("-m", "edt", "ls", "edt://127.0.0.1:1/").returncode == 4


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    outcome = run("-W", "error", example)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout

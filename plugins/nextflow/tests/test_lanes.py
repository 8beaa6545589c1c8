"""Lanes of the plugin alone, without Nextflow."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

import programs

SOURCE = Path(__file__).resolve().parent / "java" / "io" / "edt" / "nf" / "Lanes.java"


def test_a_lane_stays_locked_and_keeps_what_other_batches_have_left_in_it(scratch: Path) -> None:
    if shutil.which("javac") is None or not programs.PLUGIN.exists():
        pytest.skip("there is no compiler of Java, or the plugin is not built")
    classes = f"{programs.BUILT / 'classes'}:{scratch / 'classes'}"
    subprocess.run(["javac", "-cp", classes, "-d", scratch / "classes", SOURCE], check=True)
    command = ["java", "-cp", classes, "io.edt.nf.Lanes", str(scratch / "lanes")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second, third = process.stdout.readline().split()
        assert first != second == third
        with (Path(first) / "lock").open("r+") as lock, pytest.raises(BlockingIOError):
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        told, _ = process.communicate("\n")
    *parts, said = told.splitlines()
    # What had arrived stays until somebody asks for it; of what had not, nothing does.
    assert parts == ["parts [[a], [z]]", "left true true", "left true true", "left false false"]
    assert said.startswith(f"said could not lock `{scratch / 'unlockable'}`: ")
    assert "edt.partialDir" in said

"""The experiment that runs every optimizer over every path: nothing is left out, and what fails is told."""

from __future__ import annotations

import json
import subprocess

import emulated
import tuned
from bench import Options
from experiments import everywhere


def test_no_optimizer_is_left_out() -> None:
    names = {each.name for each in everywhere.runs() if not each.name.startswith("fixed ")}
    assert names | {"fixed"} == set(tuned.registered())


def test_no_path_is_left_out() -> None:
    listed = subprocess.run([emulated.build(), "profiles"], capture_output=True, text=True, check=True).stdout
    assert {*(json.loads(line)["profile"] for line in listed.splitlines()), "loopback"} == set(everywhere.PATHS)


def test_every_copy_over_loopback_comes_through() -> None:
    found = everywhere.run(Options(paths=("loopback",), seconds=0.05))
    assert [point["failed"] for point in found.points.values() if point["failed"]] == []
    assert len(found.points) == len(everywhere.runs()) and all(figure.passed is not False for figure in found.figures)


def test_what_failed_misses_the_bar_and_says_why() -> None:
    good = {"path": "open", "name": "auto", "mbps": 900.0, "failed": ""}
    bad = {**good, "name": "falcon", "failed": "1 of 3 files are missing"}
    points = {"open auto": good, "open falcon": bad}
    assert [figure.passed for figure in everywhere.figures(points)] == [None, False]
    assert everywhere.table(points).rows == [["auto", "900"], ["falcon", "failed: 1 of 3 files are missing"]]

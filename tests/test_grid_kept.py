"""What the grid keeps of earlier runs: points of its build, with what edt failed at and without what had no ground."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import emulated
import grid_page
import results
import tuned
from bench import Options
from cells import Cell
from experiments import grid
from made_points import followed, good
from processes import Failed, TooSlow, Workplace
from timed import Timed

CELL = Cell("cubic", 50, 1, 0.0, None)
EVERY = ["fixed 1", "fixed 4", "fixed 8"]


@dataclass
class Ground:
    """Stands in for paths, transfers and trainings; some of them fail."""

    program: bytes = b"edt"
    source: bytes = b"code"
    fails: dict[str, Exception] = field(default_factory=dict)
    """What becomes of a run, by its name, or of a training, by the kind of agent."""
    path_ends: bool = False
    made: list[str] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)

    def __enter__(self) -> Any:
        process = SimpleNamespace(poll=lambda: 1 if self.path_ends else None)
        end = SimpleNamespace(address="192.0.2.1")
        profile = dict.fromkeys(("rate_bps", "rtt_ms", "stream_rate_bps"))
        return SimpleNamespace(process=process, near=end, far=end, command=lambda *_: [], profile=profile, samples=list)

    def __exit__(self, *_: object) -> None: ...

    def timed(self, _place: Workplace, _ends: object, words: Sequence[str], *_: object) -> Timed:
        """Makes a transfer by its name."""
        name = f"fixed {words[-1]}" if "fixed" in words else words[1]
        self.made.append(name)
        if name in self.fails:
            raise self.fails[name]
        return Timed(0.0, followed(*[good()] * 12), (1.0, 2.0))

    def train(self, file: Path, kind: str) -> None:
        """Trains an agent."""
        self.trained.append(kind)
        if kind in self.fails:
            raise self.fails[kind]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


@pytest.fixture
def ground(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """A ground without any network, which keeps what is measured in a directory of the test."""
    ground = Ground()
    monkeypatch.setattr(grid, "KEPT", scratch / "kept")
    monkeypatch.setattr(results, "FOLDER", scratch / "results")
    monkeypatch.setattr(grid, "SOURCES", (scratch / "source",))
    monkeypatch.setattr(grid, "Bench", lambda *_: SimpleNamespace(data=lambda *_: SimpleNamespace(path=scratch)))
    monkeypatch.setattr(grid, "program", lambda: ground.program)
    monkeypatch.setattr(grid, "supply", lambda *_: scratch)
    monkeypatch.setattr(grid, "timed", ground.timed)
    monkeypatch.setattr(emulated, "build", lambda: scratch / "emulator")
    monkeypatch.setattr(emulated.Path, "start", lambda **_: ground)
    monkeypatch.setattr(tuned, "asked", lambda names, *_: names or ())
    monkeypatch.setattr(tuned, "congestions", lambda names: names)
    monkeypatch.setattr(
        tuned.Trainer, "train", lambda trainer, path, kind, _: ground.train(trainer.file(path, kind), kind)
    )
    monkeypatch.setattr(Cell, "constants", property(lambda _: [1, 4, 8]))
    (scratch / "emulator").write_bytes(b"emulator")
    return ground


def run(ground: Ground, scratch: Path, **options: Any) -> tuple[grid.Grid, list[str]]:
    """Measures the one cell, and tells what was measured by this run."""
    (scratch / "source").write_bytes(ground.source)
    ground.made.clear()
    asked = Options(cells=CELL.name, repetitions=1, resume=True, **options)
    work = grid.Grid(asked, Workplace(scratch / "place"))
    work.measure()
    return work, sorted(ground.made)


def test_what_was_measured_is_kept_as_long_as_nothing_that_measures_has_changed(ground: Ground, scratch: Path) -> None:
    assert run(ground, scratch)[1] == EVERY
    assert run(ground, scratch)[1] == []
    ground.source = b"changed code"
    assert run(ground, scratch)[1] == EVERY
    assert run(ground, scratch)[1] == []
    (scratch / "emulator").write_bytes(b"another emulator")
    assert run(ground, scratch)[1] == EVERY
    ground.program = b"another edt"
    assert run(ground, scratch)[1] == EVERY


def test_constants_of_another_build_of_edt_are_kept_if_asked_for_but_not_those_of_other_code(
    ground: Ground, scratch: Path
) -> None:
    names = ("falcon",)
    run(ground, scratch, optimizers=names)
    ground.program = b"another edt"
    assert run(ground, scratch, optimizers=names, keep_fixed=True)[1] == ["falcon"]
    ground.program, ground.source = b"a third edt", b"changed code"
    assert run(ground, scratch, optimizers=names, keep_fixed=True)[1] == ["falcon", *EVERY]


def test_constants_are_known_from_results_where_their_points_are_gone(ground: Ground, scratch: Path) -> None:
    work, _ = run(ground, scratch, optimizers=("falcon",))
    first = grid_page.outcome("cubic", work.found(), work.missing(), work.seconds, "full")
    results.keep(first, "")
    shutil.rmtree(scratch / "kept")
    ground.program = b"another edt"
    work, made = run(ground, scratch, optimizers=("falcon",), keep_fixed=True)
    assert made == ["falcon"]
    again = grid_page.outcome("cubic", work.found(), work.missing(), work.seconds, "full")
    assert (again.tables, again.points, again.figures) == (first.tables, first.points, first.figures)
    assert "of which edt failed at 0" in again.notes[1]
    # Nor does that depend on who told of them last.
    results.keep(again, "")
    shutil.rmtree(scratch / "kept")
    assert run(ground, scratch, optimizers=("falcon",), keep_fixed=True, seconds=60.0)[1] == ["falcon", *EVERY]
    shutil.rmtree(scratch / "kept")
    assert run(ground, scratch, optimizers=("falcon",), keep_fixed=True)[1] == ["falcon"]
    shutil.rmtree(scratch / "kept")
    ground.source = b"changed code"
    assert run(ground, scratch, optimizers=("falcon",), keep_fixed=True)[1] == ["falcon", *EVERY]


def test_what_edt_failed_at_is_kept_and_what_had_no_path_or_no_time_is_tried_again(
    ground: Ground, scratch: Path
) -> None:
    ground.fails = {"fixed 1": Failed("lost"), "fixed 4": TooSlow("late"), "fixed 8": emulated.Unavailable("no path")}
    work, made = run(ground, scratch)
    assert made == EVERY
    assert [point["failed"] for point in work.found()[CELL]] == ["lost"]
    assert work.missing()[CELL] == 2
    ground.fails = {}
    work, made = run(ground, scratch)
    assert made == ["fixed 4", "fixed 8"], "the failure is not tried until it goes well"
    assert [(point["name"], point.get("failed")) for point in work.found()[CELL]] == [
        ("fixed 1", "lost"),
        ("fixed 4", None),
        ("fixed 8", None),
    ]
    assert CELL not in work.missing()


def test_a_transfer_whose_path_ended_by_itself_is_no_failure_of_edt(ground: Ground, scratch: Path) -> None:
    ground.fails, ground.path_ends = {"fixed 4": Failed("lost")}, True
    work, _ = run(ground, scratch)
    assert work.missing()[CELL] == 1
    ground.path_ends = False
    assert run(ground, scratch)[1] == ["fixed 4"]


def test_an_agent_belongs_to_the_build_that_trained_it(ground: Ground, scratch: Path) -> None:
    first, made = run(ground, scratch, optimizers=("edt",))
    assert (ground.trained, made) == (["edt"], ["edt", *EVERY])
    assert run(ground, scratch, optimizers=("edt",))[1] == [] and ground.trained == ["edt"]
    ground.program = b"another edt"
    second, made = run(ground, scratch, optimizers=("edt",))
    assert (ground.trained, made) == (["edt", "edt"], ["edt", *EVERY])
    files = [work.trainer.file(CELL.name, "edt") for work in (first, second)]
    assert files[0] != files[1] and all(file.exists() for file in files)


def test_a_training_that_failed_counts_as_a_failure_of_its_transfers(ground: Ground, scratch: Path) -> None:
    ground.fails = {"edt": Failed("no gradient")}
    work, made = run(ground, scratch, optimizers=("edt",))
    assert made == EVERY
    assert [point["failed"] for point in work.found()[CELL] if point["name"] == "edt"] == ["no gradient"]
    ground.fails = {"edt": emulated.Unavailable("no path")}
    assert run(ground, scratch, optimizers=("edt",))[1] == [] and ground.trained == ["edt"]
    ground.program = b"another edt"
    work, _ = run(ground, scratch, optimizers=("edt",))
    assert work.missing()[CELL] == 1
    ground.fails = {}
    assert run(ground, scratch, optimizers=("edt",))[1] == ["edt"] and ground.trained == ["edt"] * 3


def test_the_build_of_a_point_is_that_of_all_that_measures(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [scratch / name for name in ("emulator", "one", "two")]
    for file in files:
        file.write_text(file.name)
    monkeypatch.setattr(emulated, "build", lambda: files[0])
    assert all(source.exists() for source in grid.SOURCES)
    monkeypatch.setattr(grid, "SOURCES", tuple(files[1:]))
    seen = [grid.ground()]
    for file in files:
        file.write_text("changed")
        seen.append(grid.ground())
    assert len(set(seen)) == 4
    assert all(len(name) == len(results.digest(b"")) for name in seen)


def test_points_tell_their_build(ground: Ground, scratch: Path) -> None:
    work, _ = run(ground, scratch)
    document = json.loads((scratch / "kept" / "grid-quick" / f"{CELL.name}.json").read_text())
    assert {point["build"] for point in document["points"].values()} == {work.build}
    assert work.build == f"{results.digest(b'edt')}-{grid.ground()}"

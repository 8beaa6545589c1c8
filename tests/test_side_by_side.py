"""The experiment that runs all optimizers side by side: how long its copies take, and what it reads from reports."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import bench
import changes
import experience
import reasons
import traffic
import tuned
from experiments import optimizers
from optimizers_page import LOADS
from paths import End, Ends
from points import Point

CLOUDLAB = Ends("cloudlab", End("near"), End("far"), 1e9, 67.0, 1.5e8)


@pytest.mark.parametrize(
    ("streams", "others", "share"),
    [(4, 0, 0.6), (12, 0, 1.0), (12, 8, 0.6), (8, 32, 0.2), (1, 1, 0.15), (8, 2, 0.8), (2, 4, 0.3), (4, 4, 0.5)],
)
def test_a_stream_gets_as_much_as_another_and_no_more_than_it_can_carry(
    streams: int, others: int, share: float
) -> None:
    assert optimizers.left(streams, others, CLOUDLAB) == pytest.approx(share)


def test_without_a_rate_of_streams_one_fills_the_path() -> None:
    assert optimizers.left(1, 0, Ends("open", End("near"), End("far"), 1e9, 67.0)) == 1.0


def test_data_are_sized_in_steps_and_never_empty() -> None:
    assert [optimizers.in_steps(share) for share in (0.01, 0.3, 0.6, 1.0, 3.0)] == [0.125, 0.25, 0.625, 1.0, 1.0]


def test_a_path_takes_an_hour_at_most_and_a_quarter_in_a_quick_run() -> None:
    beside_s, train_s = 0.5, tuned.EXPLORE_S + tuned.TRAIN_S
    for options, minutes in ((bench.Options(quick=True), 15), (bench.Options(quick=False), 60)):
        runs = {load: optimizers.runs(options, load) for load in (("light", "medium") if options.quick else LOADS)}
        copying_s = sum(
            optimizers.SECONDS[not options.quick] + beside_s + begun_s(load)
            for load, every in runs.items()
            for _ in every
        )
        changing_s = len(optimizers.CHANGING) * (optimizers.CHANGING_S[not options.quick] + beside_s)
        learning_s = sum(
            experience.SECONDS / optimizers.left(streams, LOADS[load], CLOUDLAB) + beside_s + begun_s(load)
            for load, constants in experience.LOADS.items()
            for streams in constants
        )
        training_s = train_s * sum(each.name in optimizers.TRAINED for each in runs["light"])
        assert copying_s + changing_s + learning_s + training_s <= 60 * minutes


def begun_s(load: str) -> float:
    """How long others run before a copy begins."""
    return traffic.WARM_UP_S if LOADS[load] else 0.0


def test_only_the_optimizers_that_are_asked_for_run_beside_the_constants() -> None:
    chosen = optimizers.runs(bench.Options(quick=False, optimizers=("harp", "promc")), "heavy")
    assert [each.name for each in chosen if not each.name.startswith("fixed")] == ["promc", "harp"]
    assert len(chosen) == 2 + len(optimizers.FIXED["heavy"])


def test_transfers_to_learn_from_are_a_day_older_afterwards_and_nothing_else(scratch: Path) -> None:
    file = scratch / "history.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE transfers (began_s REAL, ended_s REAL, elapsed_s REAL)")
        connection.executemany("INSERT INTO transfers VALUES (?, ?, ?)", [(1e6, 1e6 + 5, 5), (2e6, None, None)])
    experience.age(file)
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT * FROM transfers").fetchall()
    assert rows == [(913600.0, 913605.0, 5.0), (1913600.0, None, None)]


def test_there_is_enough_to_learn_from_for_all() -> None:
    assert experience.count() >= 30, "what `ann` asks for"
    assert set(experience.LOADS) <= set(LOADS) and len(experience.LOADS) >= 2


def test_agents_are_part_of_a_full_run_and_of_a_quick_one_that_asks_for_them() -> None:
    def names(options: bench.Options) -> set[str]:
        return {each.name for each in optimizers.runs(options, "light")}

    assert names(bench.Options(quick=False)) >= set(optimizers.TRAINED)
    assert not names(bench.Options(quick=True)) & set(optimizers.TRAINED)
    assert "drl" in names(bench.Options(quick=True, optimizers=("drl",)))


def decision(elapsed_s: float, reason: str) -> dict[str, Any]:
    """As it stands in a report."""
    return {"elapsed_s": elapsed_s, "decision": {"reason": reason}}


def test_an_interval_is_overruled_where_the_decision_in_force_was_the_guards() -> None:
    report = {
        "timeline": [{"elapsed_s": float(second)} for second in (1, 2, 3, 4, 5)],
        "decisions": [
            decision(0.0, "start (guard: 4 instead of 8 streams)"),
            decision(1.01, "guard: too long below 80 % of what 8 streams brought: back to them"),
            decision(2.01, "guard: 8 streams deliver what they did: staying with them for a while"),
            decision(3.01, "guard: 8 streams no longer bring what they did, forgotten; 9 streams"),
            decision(4.01, "guard: throughput fell to 30 % of what fewer streams moved when 64 ran: cut"),
        ],
    }
    assert reasons.overruled(report) == [False, True, True, False, True]


def test_harp_retuned_where_its_own_parameters_changed_after_the_first_estimate() -> None:
    reason = [
        "no file is listed yet",
        "sampling until the throughput has settled: medium 15 x 1 pipelining 1",
        "2 models changed parameters after 99.0 MB/s: medium 6 x 1 pipelining 1",
        "measuring: medium 6 x 1 pipelining 1",
        "guard: too long below 80 % of what 15 streams brought: back to them",
        "guard: 15 streams no longer bring what they did, forgotten; measuring: medium 6 x 1 pipelining 1",
        "2 models changed parameters after 50.0 MB/s: medium 9 x 1 pipelining 1",
        "measuring: medium 9 x 1 pipelining 1",
    ]
    report = {"decisions": [decision(float(second), words) for second, words in enumerate(reason)]}
    assert reasons.retuned(report) == 1
    assert reasons.retuned({"decisions": report["decisions"][:6]}) == 0


def test_where_others_begin_copies_are_told_before_and_after() -> None:
    def point(name: str, mbps: float, retuned: int) -> Point:
        timeline = [
            {
                "elapsed_s": float(second),
                "throughput": {"network": (1e8 if second <= 2 else 5e7)},
                "concurrency": {"network": 6.0 if second <= 2 else 9.0},
                "overruled": second == 4,
            }
            for second in (1, 2, 3, 4)
        ]
        others = {"path": "cloudlab", "load": "changing", "others_s": 2.0, "wall_s": 4.0}
        return {**others, "name": name, "mean_mbps": mbps, "retuned": retuned, "timeline": timeline}

    points = {
        each["name"]: each for each in (point("harp", 600.0, 1), point("harp-once", 500.0, 0), point("auto", 700.0, 0))
    }
    (found,) = changes.tables(points)
    assert found.rows[0] == ["harp", "600", "800", "400", "6.0", "9.0", "1", "25 %", "4"]
    assert found.rows[2][6] == "-" and "2 s after" in found.title
    assert [figure.values for figure in changes.figures(points)] == [[1.2], [1.0]]
    assert changes.tables({}) == [] and changes.figures({}) == []

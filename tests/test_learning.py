"""What is learned from logs: clusters, loads, surfaces and their maxima, and that the core reads what Python writes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="learning needs scikit-learn: pip install 'edt[learn]'")

import numpy as np
from scipy.integrate import trapezoid

import bench
import edt
import gridftp_logs
from edt._edt import AsmSearch
from edt.learning import NO_LIMIT, Entries, Knowledge, Options, learn, logs, own, splines
from edt.learning.cells import Cells
from edt.learning.clusters import partition
from edt.learning.entries import Floats, Ints, levels
from edt.learning.grids import Grid, between, nodes
from edt.learning.knowledge import Log
from edt.learning.loads import GAP_S, folded, passes, split
from edt.learning.maxima import hessian, is_negative_definite, local_maxima
from edt.learning.sampling import separating
from edt.learning.surfaces import surfaces
from experiments import logs_asm

POWERS = (1, 2, 4, 8, 16)
Throughput = Callable[[int, int, int], float]


def hill(p: int, cc: int, pp: int) -> float:
    """A throughput with one maximum, at 4 streams for each of 8 files and pipelining 4."""
    off = (math.log2(p) - 2) ** 2 + (math.log2(cc) - 3) ** 2 + (math.log2(pp) - 2) ** 2
    return 1e8 * math.exp(-off / 8)


def log(
    throughput: Throughput = hill,
    *,
    began_s: float = 0.0,
    factor: float = 1.0,
    size: float = 1e6,
    rtt_s: float = 0.04,
    values: tuple[int, ...] = POWERS,
) -> dict[str, Any]:
    """The columns of one pass through all settings, ten seconds each."""
    settings = [(p, cc, pp) for p in values for cc in values for pp in values]
    rows = len(settings)
    return {
        "began_s": began_s + 10.0 * np.arange(rows),
        "source": ["a"] * rows,
        "destination": ["b"] * rows,
        "bandwidth": [1.25e9] * rows,
        "rtt_s": [rtt_s] * rows,
        "files": [1000] * rows,
        "bytes": [1000 * size] * rows,
        "parallelism": [p for p, _, _ in settings],
        "concurrency": [cc for _, cc, _ in settings],
        "pipelining": [pp for _, _, pp in settings],
        "throughput": [factor * throughput(*setting) for setting in settings],
    }


def entries(*columns: dict[str, Any]) -> Entries:
    """The entries of some logs."""
    return Entries.joined([Entries.of(each) for each in columns])


DAY_S = 86_400.0
THREE_LOADS = [log(began_s=day * DAY_S, factor=factor) for day, factor in enumerate((0.5, 1.0, 0.25))]


def test_rows_that_cannot_be_true_are_left_out() -> None:
    columns = log()
    columns["throughput"] = [math.nan, 0.0, 2e9, *columns["throughput"][3:]]
    columns["files"] = [*columns["files"][:3], 0, *columns["files"][4:]]
    found = Entries.of(columns)
    assert len(found) == len(POWERS) ** 3 - 4
    assert found.began_s[0] == 40.0


def test_a_log_without_a_column_is_refused() -> None:
    columns = log()
    del columns["concurrency"]
    with pytest.raises(ValueError, match="no column `concurrency`"):
        Entries.of(columns)


def test_settings_are_taken_to_the_nearest_level() -> None:
    settings = np.array([0, 1, 5, 7, 9, 11, 100, 30_000, NO_LIMIT])
    assert levels(settings).tolist() == [1, 1, 6, 8, 8, 12, 96, 32_768, NO_LIMIT]


def test_a_pipelining_of_0_in_logs_is_what_edt_calls_1() -> None:
    columns = log(values=(1, 2))
    columns["pipelining"] = [0] * 8
    found = Entries.of(columns)
    assert len(found) == 8 and found.settings[:, 2].tolist() == [1] * 8
    assert AsmSearch(learn(found).to_bytes(), features(1e6)).best(0)[2] == 1


def test_kinds_of_transfers_are_found_and_their_number_too() -> None:
    random = np.random.default_rng(1)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 8.0], [7.0, 9.0]])
    labels = np.repeat(np.arange(4), 50)
    points = centres[labels] + random.normal(0, 0.4, (200, 2))
    found = partition(points, 16, 0)
    assert found.method in ("k-means++", "hierarchical")
    assert [len(np.unique(found.labels[labels == label])) for label in range(4)] == [1, 1, 1, 1]
    assert found.labels.max() == 3


def test_transfers_that_are_alike_are_one_kind() -> None:
    points = np.random.default_rng(1).normal(0, 0.2, (100, 3))
    assert partition(points, 16, 0).labels.max() == 0
    assert partition(np.zeros((5, 2)), 16, 0).labels.tolist() == [0] * 5
    assert partition(np.array([[0.0], [0.0], [9.0]]), 16, 0).labels.max() == 1


def test_what_is_not_known_of_some_keeps_them_apart() -> None:
    known, unknown = log(), {**log(began_s=DAY_S), "bandwidth": [math.nan] * 125}
    clusters = learn(entries(known, unknown)).clusters
    assert sorted(bool(np.isnan(cluster.mean[0])) for cluster in clusters) == [False, True]
    content = learn(entries(unknown)).to_bytes()
    assert AsmSearch(content, features(1e6)).distance < 0.5
    assert AsmSearch(content, {**features(1e6), "bandwidth": 1e9}).distance == pytest.approx(1.0, abs=0.1)


def test_statistics_can_be_added_up_without_the_entries() -> None:
    random = np.random.default_rng(2)
    settings = np.array([(1, cc, 1) for cc in random.integers(1, 4, 100)], dtype=np.int64)
    throughput = random.uniform(1e6, 9e6, 100)
    parts = [
        Cells(settings[part], np.ones(len(part)), throughput[part], np.zeros(len(part)))
        for part in np.array_split(np.arange(100), 7)
    ]
    found = Cells.merged([Cells.merged(parts[:3]), *parts[3:]])
    for index, setting in enumerate(found.settings):
        values = throughput[(settings == setting).all(axis=1)]
        assert found.count[index] == len(values)
        assert found.mean[index] == pytest.approx(values.mean())
        assert found.squares[index] == pytest.approx(len(values) * values.var())


def test_a_pass_ends_with_a_break_another_path_or_the_sweep_starting_over() -> None:
    assert [len(each) for each in passes(entries(log(), log(began_s=9000.0)))] == [125, 125]
    again = twice(log(), 10.0 * np.arange(250))
    assert [len(each) for each in passes(entries(again))] == [125, 125]
    few = twice(log(values=(1, 2)), 10.0 * np.arange(16))
    assert [len(each) for each in passes(entries(few))] == [16], "a few settings may be repeated"
    later = twice(log(values=(1, 2)), np.concatenate([10.0 * np.arange(8), DAY_S + np.arange(8)]))
    assert [len(each) for each in passes(entries(later))] == [8, 8]


def twice(columns: dict[str, Any], began_s: Any) -> dict[str, Any]:
    """The rows of a log twice, at other times."""
    return {name: [*column, *column] for name, column in columns.items()} | {"began_s": began_s}


def test_passes_that_went_alike_are_one_load() -> None:
    every = entries(*THREE_LOADS, log(began_s=9 * DAY_S, factor=0.51))
    found = folded([], every, 0.1, 64)
    assert [each.cells.entries for each in found] == [250, 125, 125]
    assert found[0].last_s > 9 * DAY_S
    assert len(folded([], every, 0.0, 64)) == 4
    assert len(folded([], every, 0.1, 2)) == 2


def test_passes_with_few_settings_are_told_apart_by_their_levels() -> None:
    rows = [(day, cc) for day in range(3) for cc in (1, 2, 4, 8)]
    parts = []
    for day, cc in rows:
        one = {name: column[:3] for name, column in log(began_s=day * DAY_S + cc * 2 * GAP_S).items()}
        one["concurrency"] = [cc] * 3
        # Half of the throughput on the last day.
        one["throughput"] = [1e7 * cc * (0.5 if day == 2 else 1.0)] * 3
        parts.append(one)
    found = folded([], entries(*parts), 0.1, 64)
    assert sorted(each.cells.entries for each in found) == [12, 24]
    drawn = surfaces([each.cells for each in found], Options()).surfaces
    assert [surface.load for surface in drawn] == pytest.approx([0.0, 0.5])


def test_levels_and_effects_explain_what_was_measured() -> None:
    effects, levels_ = np.array([1.0, 3.0, 2.0, 7.0]), np.array([-1.0, 0.5, 0.5])
    values = levels_[:, None] + effects
    values[0, 3] = values[1, 0] = values[2, 2] = np.nan
    found = split(values)
    assert np.allclose(found[0], levels_, atol=1e-6) and np.allclose(found[1], effects, atol=1e-6)


def test_a_spline_runs_through_its_nodes_and_is_straight_at_its_ends() -> None:
    at = np.array([0.0, 1.0, 2.0, 4.0, 5.0])
    values = np.array([1.0, 4.0, 2.0, 8.0, 3.0])
    fine = np.linspace(0, 5, 501)
    assert np.allclose(splines.basis(at, at) @ values, values)
    assert np.allclose(splines.basis(at, at[[0, -1]], 2) @ values, 0, atol=1e-9)
    assert np.allclose(splines.basis(at, fine) @ (3 * at + 1), 3 * fine + 1)
    slope = np.gradient(splines.basis(at, fine) @ values, fine)[1:-1]
    assert np.allclose(slope, (splines.basis(at, fine, 1) @ values)[1:-1], atol=2e-2)
    assert splines.basis(np.array([3.0]), fine).tolist() == [[1.0]] * 501


def test_what_a_node_should_be_follows_from_all_others() -> None:
    at = np.array([0.0, 1.0, 2.5, 4.0])
    matrix = splines.stiffness(at)
    assert np.allclose(matrix @ (2 * at - 1), 0), "a line needs no bending"
    values = np.array([1.0, 5.0, 2.0, 4.0])
    others = splines.basis(at[[0, 2, 3]], at[[1]]) @ values[[0, 2, 3]]
    assert values[1] - (matrix @ values)[1] / matrix[1, 1] == pytest.approx(float(others[0]))
    fine = np.linspace(0, 4, 4001)
    bending = trapezoid((splines.basis(at, fine, 2) @ values) ** 2, fine)
    assert values @ matrix @ values == pytest.approx(float(bending), rel=1e-4)


def test_the_grid_holds_all_whole_numbers_and_no_limit_has_its_own() -> None:
    assert between(np.array([1, 4, 8])).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert between(np.array([64, 128])).tolist()[:3] == [64, 67, 70]
    settings = np.array([(1, 1, 1), (2, 4, 1), (NO_LIMIT, 8, NO_LIMIT), (NO_LIMIT, 2, NO_LIMIT)])
    one = np.ones(len(settings))
    grids = nodes([Cells(settings, one, one, one)])
    assert [grid.shape for grid in grids] == [(2, 2, 1), (1, 2, 1)]
    assert grids[1].settings.tolist() == [[NO_LIMIT, 2, NO_LIMIT], [NO_LIMIT, 8, NO_LIMIT]]


def peaks(throughput: Throughput) -> list[tuple[int, int, int]]:
    """The settings of the local maxima over the integer grid."""
    found = surfaces([Cells.of(Entries.of(log(throughput)))], Options())
    return [maximum.setting for maximum in found.surfaces[0].maxima]


def test_maxima_are_found_inside_and_on_the_bounds() -> None:
    assert peaks(hill) == [(4, 8, 4)]
    assert peaks(lambda p, cc, pp: 1e6 * p * cc * pp) == [(16, 16, 16)]
    two = peaks(lambda p, cc, pp: max(hill(p, cc, pp), 0.9 * hill(4, cc * 8, 4) * hill(p, 8, pp) / 1e8))
    assert two[0] == (4, 8, 4)
    assert (4, 1, 4) in two


NODES = np.arange(1, 10, dtype=np.int64)
P, CC, PP = np.meshgrid(NODES - 5.0, NODES - 5.0, NODES - 5.0, indexing="ij")
"""How far the nodes are from the one in the middle."""


def in_the_middle(values: Floats) -> Floats:
    """The Hessian of the spline through values at the nodes, in the middle of them."""
    derivatives = [splines.basis(NODES.astype(float), NODES.astype(float), order) for order in range(3)]
    return hessian([derivatives] * 3, values, [4, 4, 4])


def test_only_what_falls_off_in_every_direction_is_a_maximum() -> None:
    bowl = P**2 + CC**2 + PP**2
    found = in_the_middle(P * CC - bowl)
    assert found == pytest.approx(np.array([[-2.0, 1, 0], [1, -2, 0], [0, 0, -2]]), abs=0.05)
    assert is_negative_definite(found)
    assert not is_negative_definite(in_the_middle(bowl))
    assert not is_negative_definite(in_the_middle(3 * P * CC - bowl)), "it falls off along each axis, and rises between"
    assert not is_negative_definite(in_the_middle(3 * CC * PP - bowl))
    assert not is_negative_definite(in_the_middle(P**2 - CC**2 - PP**2)), "a saddle"
    assert not is_negative_definite(in_the_middle(2 * P * CC - bowl)), "a ridge across the axes"
    assert not is_negative_definite(in_the_middle(7.3 - P**2 - PP**2)), "a ridge along an axis"


def test_a_ridge_has_its_maxima_at_its_ends() -> None:
    grid = Grid(NODES, NODES, NODES)
    ridge = 100 - P**2 - PP**2
    found = local_maxima(ridge, ridge, grid, grid, "raw")
    assert [maximum.setting for maximum in found] == [(5, 1, 5), (5, 9, 5)], "no neighbour of any other exceeds it"


def test_a_sample_tells_most_where_the_surfaces_lie_furthest_apart() -> None:
    settings = np.array([(1, cc, 1) for cc in range(1, 7)])
    throughput = np.array([[1.0, 2, 3, 4, 5, 6], [1.0, 3, 9, 4, 5, 7], [1.0, 4, 30, 5, 20, 9]])
    found = separating(settings, throughput, 0)
    assert found[0].tolist() == [1, 3, 1], "6 and 21 lie between the surfaces there"
    assert len(separating(settings, throughput[:1], 0)) == 0


def test_surfaces_are_ordered_by_load_and_run_through_what_was_measured() -> None:
    found = surfaces([each.cells for each in folded([], entries(*THREE_LOADS), 0.1, 64)], Options())
    assert [round(surface.load, 3) for surface in found.surfaces] == [0.0, 0.5, 0.75]
    for surface, factor in zip(found.surfaces, (1.0, 0.5, 0.25), strict=True):
        values = dict(zip(map(tuple, found.grids[0].settings.tolist()), surface.throughput[0].reshape(-1), strict=True))
        for setting in ((1, 1, 1), (4, 8, 4), (16, 2, 8)):
            assert values[setting] == pytest.approx(factor * hill(*setting), rel=1e-6)
        assert values[3, 6, 4] == pytest.approx(factor * hill(3, 6, 4), rel=0.03), "between the nodes"


def test_repeated_entries_tell_the_deviation() -> None:
    random = np.random.default_rng(3)
    noisy = [log(lambda *setting: hill(*setting) * math.exp(random.normal(0, 0.2))) for _ in range(12)]
    cells = Cells.merged([Cells.of(Entries.of(each)) for each in noisy])
    deviation = surfaces([cells], Options(grid="measured")).surfaces[0].deviation[0]
    assert 0.15 < float(np.median(deviation)) < 0.25
    calm = surfaces([Cells.of(Entries.of(log()))], Options(grid="measured")).surfaces[0].deviation[0]
    assert float(np.median(calm)) < 0.1, "what the splines miss between so few nodes"


def test_what_a_load_did_not_measure_is_taken_from_the_others() -> None:
    part = {name: column[:60] for name, column in log(began_s=DAY_S, factor=0.5).items()}
    found = surfaces([each.cells for each in folded([], entries(log(), part), 0.1, 64)], Options())
    heavy = found.surfaces[1]
    assert heavy.maxima[0].setting == (4, 8, 4)
    assert heavy.maxima[0].throughput == pytest.approx(0.5 * hill(4, 8, 4), rel=0.05)


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
        ({"format": 9}, "format 9"),
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


def features(size: float, rtt_s: float = 0.04) -> dict[str, float]:
    """What is known of a transfer."""
    return {"mean_size": size, "rtt_s": rtt_s, "files": 1000}


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


def test_own_transfers_are_learned_from_and_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDT_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("EDT_HISTORY", raising=False)
    for streams in (1, 2, 3):
        edt.copy("zero:40x32MiB", "null:", optimizer="fixed", concurrency=streams, interval=0.05)
    edt.copy("zero:40x32MiB", "null:", optimizer="fixed", concurrency=5, interval=0.05, pipelining=0)
    edt.copy("zero:4x8MiB", "null:", optimizer="fixed", concurrency=4, interval=0.05, limit_rate="200MB")
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

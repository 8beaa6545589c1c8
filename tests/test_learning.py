"""What is learned from logs: clusters, loads, surfaces and their maxima."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="learning needs scikit-learn: pip install 'edt[learn]'")

import numpy as np
from scipy.integrate import trapezoid

from edt._edt import AsmSearch
from edt.learning import NO_LIMIT, Entries, Options, learn, splines
from edt.learning.cells import Cells
from edt.learning.clusters import partition
from edt.learning.entries import Floats, levels
from edt.learning.grids import Grid, between, nodes
from edt.learning.loads import GAP_S, folded, passes, split
from edt.learning.maxima import hessian, is_negative_definite, local_maxima
from edt.learning.sampling import separating
from edt.learning.surfaces import surfaces
from learning_logs import DAY_S, POWERS, THREE_LOADS, Throughput, entries, features, hill, log


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

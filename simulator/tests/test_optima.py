"""The simulated optimum is the papers'."""

import itertools

import numpy as np
import pytest

from edt_simulator import Batch, Scenario, scenario_array, utility
from paths import AUTOMDT_BOTTLENECKS, EDT_PATHS, MODELS, Model, hold, simulate


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("path", EDT_PATHS)
def test_one_stage_is_best_at_bandwidth_over_throughput_of_a_stream(model: Model, path: str) -> None:
    bandwidth, stream, best = EDT_PATHS[path]
    scenario = Scenario(
        stream_bps=(stream,) * 3, capacity_bps=(bandwidth,) * 3, chunk_bytes=bandwidth / 80, retry_s=1e-4
    )
    concurrency = np.arange(1, 51, dtype=np.int32)
    run = simulate(Batch(scenario_array(scenario, 50), model=model), np.tile(concurrency[:, None], (5, 1, 1)))
    values = utility.edt_utility(run.metric("throughput_bps").mean(axis=0), concurrency)
    assert concurrency[values.argmax()] == best
    assert abs(best - utility.edt_optimum(bandwidth, stream)) < 1
    assert values.max() == pytest.approx(utility.edt_maximum(bandwidth, stream), rel=0.02)


@pytest.mark.parametrize("bottleneck", AUTOMDT_BOTTLENECKS)
def test_three_stages_are_best_at_the_papers_concurrency_but_for_its_rounding(bottleneck: str) -> None:
    streams, printed, best = AUTOMDT_BOTTLENECKS[bottleneck]
    triples = np.array(list(itertools.product(range(3, 17), repeat=3)), np.int32)
    scenario = Scenario(stream_bps=streams, buffer_bytes=(1e8, 1e8))
    run = simulate(Batch(scenario_array(scenario, len(triples)), stages=3), np.tile(triples, (40, 1, 1)))
    values = utility.automdt_utility(run.metrics[-1, :, :3], triples)
    assert tuple(triples[values.argmax()]) == best
    assert np.abs(np.subtract(best, printed)).sum() <= 1
    optimum = utility.automdt_optimum(scenario.capacity_bps, streams)
    np.testing.assert_array_less(np.abs(optimum - best), 1.01)
    assert values.max() == pytest.approx(utility.automdt_maximum(scenario.capacity_bps, streams), rel=0.03)


@pytest.mark.parametrize("bottleneck", AUTOMDT_BOTTLENECKS)
def test_the_event_queue_fills_the_path_at_that_concurrency_and_not_with_one_worker_less(bottleneck: str) -> None:
    streams, _, best = AUTOMDT_BOTTLENECKS[bottleneck]
    scenario = Scenario(stream_bps=streams, chunk_bytes=2e5, retry_s=1e-3)
    full = hold(scenario, list(best), 30, model="events").metric("write_bps")[10:].mean()
    tight = max(range(3), key=lambda stage: best[stage])
    fewer = [count - (stage == tight) for stage, count in enumerate(best)]
    less = hold(scenario, fewer, 30, model="events").metric("write_bps")[10:].mean()
    assert full == pytest.approx(1e9, rel=0.01)
    assert less == pytest.approx(fewer[tight] * streams[tight], rel=0.01)


def test_no_constant_concurrency_suits_a_path_that_changes() -> None:
    # What published simulators lack: with nothing to react to, an agent learns a constant.
    factors = np.array([1.0, 0.4, 2.5, 1.0, 0.4])
    changes = [(1.0, factor, 1.0) for factor in factors[1:]]
    scenario = Scenario(
        stream_bps=(3e9,) * 3,
        capacity_bps=(45e9,) * 3,
        change_s=(10, 20, 30, 40),
        change_capacity=(changes[0], changes[1], changes[2], changes[3]),
    )
    constants = np.arange(1, 51, dtype=np.int32)
    best = simulate(Batch(scenario_array(scenario, 50)), np.tile(constants[:, None], (50, 1, 1)))
    constant = utility.edt_utility(best.metric("throughput_bps"), constants).mean(axis=0).max()
    following = np.repeat(np.rint(factors * 15), 10).astype(np.int32)
    run = simulate(Batch(scenario_array(scenario)), following[:, None, None])
    reacting = utility.edt_utility(run.metric("throughput_bps")[:, 0], following).mean()
    assert constant < 0.9 * reacting

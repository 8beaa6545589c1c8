"""Metrics tell what the path could carry in the very interval, so that a reward can be relative to its optimum."""

import math

import numpy as np
import pytest

from edt_simulator import METRICS, Batch, Scenario, scenario_array, utility
from paths import MODELS, Model, hold, simulate

NEVER = math.inf
CHANGING = Scenario(
    change_s=(2, 4, NEVER, NEVER),
    change_capacity=((1, 0.5, 1), (2, 1, 0.25), (1, 1, 1), (1, 1, 1)),
    change_stream=((0.5, 1, 1), (1, 2, 4), (1, 1, 1), (1, 1, 1)),
)
CAPACITY = np.array([[1, 1, 1]] * 2 + [[1, 0.5, 1]] * 2 + [[2, 1, 0.25]] * 2) * 1e9
STREAM = np.array([[80, 160, 200]] * 2 + [[40, 160, 200]] * 2 + [[80, 320, 800]] * 2) * 1e6


@pytest.mark.parametrize("model", MODELS)
def test_three_stages_tell_capacity_and_stream_rate_of_each(model: Model) -> None:
    run = hold(CHANGING, [5, 5, 5], 6, model=model)
    for column, stage in enumerate(("read", "network", "write")):
        np.testing.assert_array_equal(run.metric(f"{stage}_capacity_bps")[:, 0], CAPACITY[:, column])
        np.testing.assert_array_equal(run.metric(f"{stage}_stream_bps")[:, 0], STREAM[:, column])


@pytest.mark.parametrize("model", MODELS)
def test_one_stage_tells_those_of_the_network(model: Model) -> None:
    run = hold(CHANGING, [5], 6, model=model)
    np.testing.assert_array_equal(run.metric("capacity_bps")[:, 0], CAPACITY[:, 1])
    np.testing.assert_array_equal(run.metric("stream_bps")[:, 0], STREAM[:, 1])


def test_a_stream_is_told_with_its_window_and_its_files() -> None:
    scenario = Scenario(rtt_s=0.1, window_bytes=5e5, file_bytes=2e6, file_overhead_s=(0.1, 0.2, 0.3))
    effective = utility.effective_stream_bps(scenario_array(scenario))[0]
    first = METRICS[3].index("read_stream_bps")
    np.testing.assert_allclose(hold(scenario, [1, 1, 1], 1).metrics[0, 0, first : first + 3], effective)
    np.testing.assert_allclose(hold(scenario, [1], 1).metric("stream_bps")[0, 0], effective[1])


def test_the_optimum_of_the_moment_has_a_relative_reward_of_one() -> None:
    scenario = Scenario(
        stream_bps=(3e9,) * 3, capacity_bps=(45e9,) * 3, change_s=CHANGING.change_s, change_capacity=((1, 0.4, 1),) * 4
    )
    batch = Batch(scenario_array(scenario))
    concurrency = np.array([15, 15, 6, 6, 6, 6], np.int32)
    run = simulate(batch, concurrency[:, None, None])
    reward = utility.edt_utility(run.metric("throughput_bps")[:, 0], concurrency)
    best = utility.edt_maximum(run.metric("capacity_bps")[:, 0], run.metric("stream_bps")[:, 0])
    np.testing.assert_allclose(reward / best, 1.0)


@pytest.mark.parametrize("interval_s", [1.0, 0.1, 1 / 3, 0.7])
@pytest.mark.parametrize("period_s", [NEVER, 0.9, 2.1, 7.0])
def test_changes_hold_from_the_first_interval_that_begins_no_earlier(interval_s: float, period_s: float) -> None:
    # Among them: 0.1 s in a period of 2.1 s, where rounding puts the change at 1.4 s after the interval it begins with.
    scenario = Scenario(
        interval_s=interval_s,
        change_s=(0.3, 0.7, 1.4, 6.3),
        change_capacity=((1, 0.5, 1), (1, 2, 1), (1, 3, 1), (1, 4, 1)),
        change_period_s=period_s,
        competitor_start_s=(0.6, 2.1, 7.0),
        competitor_stop_s=(2.1, 4.2, 9.1),
        competitor_streams=(1, 2, 4),
    )
    run = hold(scenario, [3], 200)
    for interval in range(200):
        clock_s = interval * interval_s
        cycle_s = math.fmod(clock_s, period_s)
        change = sum(change_s <= cycle_s for change_s in scenario.change_s)
        competitors = zip(
            scenario.competitor_start_s, scenario.competitor_stop_s, scenario.competitor_streams, strict=True
        )
        present = sum(streams for start_s, stop_s, streams in competitors if start_s <= clock_s < stop_s)
        assert run.metric("capacity_bps")[interval, 0] == (1, 0.5, 2, 3, 4)[change] * 1e9
        assert run.metric("competing_streams")[interval, 0] == present

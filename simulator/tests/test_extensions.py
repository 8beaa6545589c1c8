"""Each extension beyond the papers does what its formula says, in both models."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edt_simulator import Batch, Scenario, scenario_array
from paths import MODELS, Model, Run, hold, simulate

STREAM, LINK = 100e6, 1e9
FINE: dict[str, float] = {"chunk_bytes": 1e6, "retry_s": 1e-6}


def path(**options: Any) -> Scenario:
    return Scenario(**{"stream_bps": (STREAM,) * 3, "capacity_bps": (LINK,) * 3, **FINE, **options})


def throughput(scenario: Scenario, concurrency: int, model: Model, intervals: int = 5) -> NDArray[np.float64]:
    return np.asarray(hold(scenario, [concurrency], intervals, model=model).metric("throughput_bps")[:, 0])


@pytest.mark.parametrize("model", MODELS)
class TestBothModels:
    def test_contention_lowers_throughput_past_the_onset(self, model: Model) -> None:
        scenario = path(contention=(0.0, 0.5, 0.0))
        assert throughput(scenario, 10, model)[-1] == pytest.approx(LINK, rel=1e-3)
        assert throughput(scenario, 20, model)[-1] == pytest.approx(LINK / 1.5, rel=1e-3)
        later = path(contention=(0.0, 0.5, 0.0), contention_onset=2.0)
        assert throughput(later, 20, model)[-1] == pytest.approx(LINK, rel=1e-3)

    def test_storage_contends_as_well(self, model: Model) -> None:
        scenario = path(contention=(0.5, 0.0, 0.0), buffer_bytes=(1e7, 1e7), retry_s=1e-3)
        run = hold(scenario, [20, 10, 10], 10, model=model)
        assert run.metric("write_bps")[-1, 0] == pytest.approx(LINK / 1.5, rel=0.01)

    def test_knee_rounds_the_corner_and_leaves_both_ends(self, model: Model) -> None:
        scenario = path(knee=0.2)
        for concurrency, share in ((8, 0.8), (10, 0.95), (12, 1.0), (20, 1.0)):
            assert throughput(scenario, concurrency, model)[-1] == pytest.approx(share * LINK, rel=1e-3)

    def test_loss_grows_past_saturation_and_takes_its_share_of_throughput(self, model: Model) -> None:
        scenario = path(random_loss=0.01, congestion_loss=0.05)
        for concurrency, loss in ((5, 0.01), (10, 0.01), (20, 0.06)):
            run = hold(scenario, [concurrency], 3, model=model)
            assert run.metric("loss")[-1, 0] == pytest.approx(loss)
            assert run.observation("loss")[-1, 0] == pytest.approx(loss)
            offered = min(concurrency * STREAM, LINK)
            assert run.metric("throughput_bps")[-1, 0] == pytest.approx(offered * (1 - loss), rel=1e-3)

    def test_starved_streams_cause_no_congestion_loss(self, model: Model) -> None:
        scenario = path(congestion_loss=0.1, buffer_bytes=(1e7, 1e7), retry_s=1e-3)
        assert hold(scenario, [2, 20, 10], 5, model=model).metric("loss")[-1, 0] == 0.0
        assert hold(scenario, [20, 20, 10], 5, model=model).metric("loss")[0, 0] > 0.05

    def test_window_over_round_trip_bounds_a_stream(self, model: Model) -> None:
        scenario = path(window_bytes=250e3, rtt_s=0.1)
        assert throughput(scenario, 4, model)[-1] == pytest.approx(4 * 250e3 * 8 / 0.1, rel=1e-3)

    def test_small_files_cost_their_overhead(self, model: Model) -> None:
        scenario = path(file_bytes=1e6, file_overhead_s=(0.0, 0.02, 0.0), file_round_trips=1, rtt_s=0.1)
        seconds_a_file = 8e6 / STREAM + 0.02 + 0.1
        assert throughput(scenario, 5, model)[-1] == pytest.approx(5 * 8e6 / seconds_a_file, rel=1e-3)

    def test_background_takes_its_mean_and_varies_by_its_deviation(self, model: Model) -> None:
        steady = path(background_bps=0.4 * LINK)
        assert throughput(steady, 20, model)[-1] == pytest.approx(0.6 * LINK, rel=1e-3)
        varying = path(background_bps=0.4 * LINK, background_deviation_bps=0.05 * LINK, background_correlation_s=3.0)
        capacity = hold(varying, [1], 4000, model=model).metric("capacity_bps")[100:, 0] / LINK
        assert capacity.mean() == pytest.approx(0.6, abs=0.01)
        assert capacity.std() == pytest.approx(0.05, rel=0.15)
        correlation = np.corrcoef(capacity[:-1], capacity[1:])[0, 1]
        assert correlation == pytest.approx(math.exp(-1 / 3), abs=0.06)

    def test_streams_of_competitors_share_the_link_while_they_are_there(self, model: Model) -> None:
        scenario = path(
            competitor_start_s=(2, 3, math.inf), competitor_stop_s=(5, 4, math.inf), competitor_streams=(10, 20, 99)
        )
        share = throughput(scenario, 10, model, 7) / LINK
        np.testing.assert_allclose(share, [1, 1, 1 / 2, 1 / 4, 1 / 2, 1, 1], rtol=2e-3)

    def test_agents_on_one_link_share_it_by_streams(self, model: Model) -> None:
        batch = Batch(scenario_array(path(), 4), model=model, agents=2)
        run = simulate(batch, np.array([[[10], [30], [10], [10]]], np.int32))
        np.testing.assert_allclose(run.metric("throughput_bps")[0] / LINK, [0.25, 0.75, 0.5, 0.5], rtol=2e-3)
        np.testing.assert_array_equal(run.metric("competing_streams")[0], [30, 10, 10, 10])

    def test_capacity_and_streams_change_in_steps_that_may_repeat(self, model: Model) -> None:
        scenario = path(
            change_s=(1, 2, math.inf, math.inf),
            change_capacity=((1, 0.5, 1), (1, 2, 1), (1, 1, 1), (1, 1, 1)),
            change_stream=((1, 1, 1), (1, 0.5, 1), (1, 1, 1), (1, 1, 1)),
            change_period_s=3.0,
        )
        np.testing.assert_allclose(throughput(scenario, 20, model, 6) / LINK, [1, 0.5, 1, 1, 0.5, 1], rtol=2e-3)

    def test_too_many_streams_collapse_the_server_for_a_time(self, model: Model) -> None:
        scenario = path(cliff_streams=30, cliff_factor=0.1, cliff_s=3.0)
        actions = np.array([20, 31, 20, 20, 20, 20], np.int32).reshape(-1, 1, 1)
        run = simulate(Batch(scenario_array(scenario), model=model), actions)
        share = run.metric("throughput_bps")[:, 0] / LINK
        np.testing.assert_allclose(share, [1, 0.1, 0.1, 0.1, 1, 1], rtol=2e-3)

    def test_new_streams_ramp_up_and_old_ones_stay_warm(self, model: Model) -> None:
        scenario = path(rtt_s=0.1, ramp_round_trips=10)  # one second
        actions = np.array([4] * 6 + [8] + [4], np.int32).reshape(-1, 1, 1)
        share = simulate(Batch(scenario_array(scenario), model=model), actions).metric("throughput_bps")[:, 0] / STREAM
        assert share[0] == pytest.approx(4 * (1 - (1 - math.exp(-1))), rel=2e-3)
        assert share[5] == pytest.approx(4, rel=5e-3)
        assert share[6] == pytest.approx(4 + 4 * math.exp(-1), rel=5e-3)
        assert share[7] == pytest.approx(4, rel=5e-3)

    def test_interval_scales_bytes_and_not_rates(self, model: Model) -> None:
        run = hold(path(interval_s=3.0), [5], 2, model=model)
        assert run.metric("throughput_bps")[-1, 0] == pytest.approx(5 * STREAM, rel=1e-3)
        assert run.accounts[-1, 0, 1] == pytest.approx(5 * STREAM * 6 / 8, rel=1e-3)


def noisy_run(**options: float) -> Run:
    return hold(path(**options), [5], 20000)


@pytest.mark.parametrize("noise", [1e-4, 0.05, 0.3])
def test_noise_has_mean_one_and_its_deviation_and_leaves_the_truth(noise: float) -> None:
    run = noisy_run(noise=noise)
    ratio = run.observation("throughput_bps")[:, 0] / (5 * STREAM)
    assert ratio.mean() == pytest.approx(1.0, abs=5 * noise / math.sqrt(20000))
    assert ratio.std() == pytest.approx(noise, rel=0.05)
    assert ratio.min() > 0
    np.testing.assert_allclose(run.metric("throughput_bps"), 5 * STREAM)


def test_outliers_come_as_often_as_asked() -> None:
    run = noisy_run(outlier_probability=0.15, outlier_factor=0.3)
    low = run.observation("throughput_bps")[:, 0] < 0.31 * 5 * STREAM
    assert low.mean() == pytest.approx(0.15, abs=0.015)


def changed(delay: str, intervals: int) -> Run:
    batch = Batch(scenario_array(path(**{delay: intervals})))
    return simulate(batch, np.array([2, 4, 6, 8, 10, 10, 10], np.int32).reshape(-1, 1, 1))


def test_a_late_decision_is_reported_when_it_is_applied() -> None:
    run = changed("decision_delay", 2)
    np.testing.assert_array_equal(run.observation("concurrency")[:, 0], [1, 1, 2, 4, 6, 8, 10])
    np.testing.assert_allclose(run.observation("throughput_bps")[:, 0] / STREAM, [1, 1, 2, 4, 6, 8, 10])


def test_a_late_measurement_carries_the_concurrency_of_its_interval() -> None:
    run = changed("measurement_delay", 2)
    np.testing.assert_array_equal(run.observation("concurrency")[:, 0], [1, 1, 2, 4, 6, 8, 10])
    np.testing.assert_allclose(run.observation("throughput_bps")[:, 0] / STREAM, [0, 0, 2, 4, 6, 8, 10])
    np.testing.assert_allclose(run.metric("throughput_bps")[:, 0] / STREAM, [2, 4, 6, 8, 10, 10, 10])


def test_a_lagging_meter_smooths() -> None:
    seen = changed("measurement_lag", 0).observation("throughput_bps")[:, 0]
    np.testing.assert_allclose(seen / STREAM, [2, 4, 6, 8, 10, 10, 10])
    batch = Batch(scenario_array(path(measurement_lag=0.5)))
    run = simulate(batch, np.array([2, 4, 6], np.int32).reshape(-1, 1, 1))
    np.testing.assert_allclose(run.observation("throughput_bps")[:, 0] / STREAM, [2, 3, 4.5])


def test_buffers_let_read_run_ahead_until_they_are_full() -> None:
    scenario = path(buffer_bytes=(50e6, 25e6))
    run = hold(scenario, [10, 5, 2], 6)
    read, sent, written = (run.metric(name)[:, 0] / STREAM for name in ("read_bps", "network_bps", "write_bps"))
    # Read runs 62.5 MB/s ahead of the network, which runs 37.5 MB/s ahead of write: full after 0.8 s and 0.67 s.
    assert read[0] == pytest.approx((50e6 + 25e6) * 8 / STREAM + 2, rel=1e-9)
    assert sent[0] == pytest.approx(25e6 * 8 / STREAM + 2, rel=1e-9)
    np.testing.assert_allclose([read[1:], sent[1:], written[1:]], 2)


def test_concurrency_is_clamped_to_its_bounds() -> None:
    batch = Batch(scenario_array(path(max_concurrency=8)))
    actions = np.array([-5, 0, 8, 9, 2**31 - 1], np.int32).reshape(-1, 1, 1)
    run = simulate(batch, actions)
    np.testing.assert_array_equal(run.observation("concurrency")[:, 0], [1, 1, 8, 8, 8])

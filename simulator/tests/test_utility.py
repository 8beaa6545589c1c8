"""The papers' utilities and optima, by their own figures."""

import math

import numpy as np
import pytest

from edt_simulator import Scenario, scenario_array, utility
from paths import hold


def test_edt_utility_by_hand() -> None:
    assert utility.edt_utility(100.0, 2, 0.01, k=1.1, b=10) == pytest.approx(100 / 1.21 - 0.1)
    values = utility.edt_utility(np.array([[1.0, 2.0]]), np.array([[0, 1]]), k=2.0)
    np.testing.assert_allclose(values, [[1.0, 1.0]])


def test_edt_optimum_and_maximum_of_its_paths() -> None:
    np.testing.assert_allclose(utility.edt_optimum([45e9, 35e9], [3e9, 1.5e9]), [15, 35 / 1.5])
    assert utility.edt_maximum(45e9, 3e9) == pytest.approx(45e9 / 1.02**15)


def test_doubling_concurrency_for_a_little_throughput_loses() -> None:
    assert utility.edt_utility(20.5, 16) < utility.edt_utility(20.0, 8)  # the example of [EDT section IV-B]


def test_automdt_utility_sums_its_stages() -> None:
    value = utility.automdt_utility([[1.0, 2.0, 3.0]], [[1, 2, 3]], k=2.0)
    np.testing.assert_allclose(value, [1 / 2 + 2 / 4 + 3 / 8])


def test_automdt_optimum_uses_the_slowest_stage() -> None:
    capacity, streams = [2e9, 1e9, 3e9], [80e6, 160e6, 200e6]
    np.testing.assert_allclose(utility.automdt_optimum(capacity, streams), [12.5, 6.25, 5])
    expected = 1e9 * (1.02**-12.5 + 1.02**-6.25 + 1.02**-5)
    assert utility.automdt_maximum(capacity, streams) == pytest.approx(expected)


@pytest.mark.parametrize("rtt_s", [0.0, 0.08])
def test_effective_streams_are_those_of_the_simulation(rtt_s: float) -> None:
    scenario = Scenario(
        rtt_s=rtt_s, window_bytes=1e6, file_bytes=2e6, file_overhead_s=(0.01, 0.02, 0.03), file_round_trips=2
    )
    rates = utility.effective_stream_bps(scenario_array(scenario))[0]
    metrics = hold(scenario, [1], 1).metric("throughput_bps")[0, 0]
    assert rates[1] == pytest.approx(metrics)
    bare = scenario_array(Scenario(file_bytes=math.inf))
    np.testing.assert_array_equal(utility.effective_stream_bps(bare), bare["stream_bps"])

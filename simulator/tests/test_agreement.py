"""The two models agree within the tolerances that the README states, on a grid of paths, chunks and buffers."""

import numpy as np
import pytest

from edt_simulator import Batch, Scenario, scenario_array
from paths import AUTOMDT_BOTTLENECKS, EDT_PATHS, RICH, Run, Stages, random_actions, simulate


def both(scenario: Scenario, stages: Stages, most: int, environments: int = 8) -> tuple[Run, Run]:
    scenarios = scenario_array(scenario, environments)
    actions = random_actions(40, environments, stages, most)
    fluid, events = (simulate(Batch(scenarios, model=model, stages=stages), actions) for model in ("fluid", "events"))
    return fluid, events


@pytest.mark.parametrize("path", EDT_PATHS)
@pytest.mark.parametrize("tasks_a_second", [2, 20])
def test_one_stage_agrees_everywhere(path: str, tasks_a_second: int) -> None:
    bandwidth, stream, _ = EDT_PATHS[path]
    chunk = stream / 8 / tasks_a_second
    scenario = Scenario(stream_bps=(stream,) * 3, capacity_bps=(bandwidth,) * 3, chunk_bytes=chunk, retry_s=1e-5)
    fluid, events = both(scenario, 1, 50)
    difference = np.abs(fluid.metric("throughput_bps") - events.metric("throughput_bps"))
    assert difference.max() <= 0.001 * bandwidth


def test_epsilon_costs_one_stage_its_share_of_a_task() -> None:
    scenario = Scenario(stream_bps=(80e6,) * 3, chunk_bytes=1e5, retry_s=1e-3)  # a mean task takes 6 ms
    fluid, events = both(scenario, 1, 10)
    ratio = events.metric("throughput_bps") / fluid.metric("throughput_bps")
    np.testing.assert_allclose(ratio, 6 / 7, rtol=0.02)


@pytest.mark.parametrize("bottleneck", AUTOMDT_BOTTLENECKS)
@pytest.mark.parametrize("buffer_bytes", [20e6, 1e9])
@pytest.mark.parametrize(
    ("chunk_bytes", "mean", "worst", "buffered"), [(2e5, 0.005, 0.04, 4e6), (1e6, 0.01, 0.10, 12e6)]
)
def test_three_stages_agree(
    bottleneck: str, buffer_bytes: float, chunk_bytes: float, mean: float, worst: float, buffered: float
) -> None:
    streams, _, _ = AUTOMDT_BOTTLENECKS[bottleneck]
    scenario = Scenario(stream_bps=streams, chunk_bytes=chunk_bytes, buffer_bytes=(buffer_bytes, buffer_bytes))
    fluid, events = both(scenario, 3, 20)
    difference = np.abs(fluid.metrics[..., :3] - events.metrics[..., :3]) / 1e9
    assert difference.mean() <= mean
    assert difference.max() <= worst
    assert np.abs(fluid.metrics[..., 3:5] - events.metrics[..., 3:5]).max() <= buffered


def test_extensions_are_the_same_in_both_models() -> None:
    quiet = {
        "background_deviation_bps": 0.0,
        "noise": 0.0,
        "outlier_probability": 0.0,
        "chunk_bytes": 1e5,
        "retry_s": 1e-4,
    }
    scenario = Scenario(**{**RICH.__dict__, **quiet})
    one = [run.metrics for run in both(scenario, 1, 25)]
    three = [run.metrics[..., :3] for run in both(scenario, 3, 25)]
    assert np.abs(one[0][..., 0] - one[1][..., 0]).max() <= 0.02e9
    np.testing.assert_array_equal(one[0][..., 1:], one[1][..., 1:])  # loss, capacity and competitors
    assert np.abs(three[0] - three[1]).mean() <= 0.01e9

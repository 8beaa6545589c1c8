"""No byte is lost or made: the account, the buffers and the throughput agree."""

import numpy as np
import pytest

from edt_simulator import ACCOUNT, Batch, Scenario, scenario_array
from paths import MODELS, RICH, Model, random_actions, simulate

TINY_BUFFERS = Scenario(buffer_bytes=(3e5, 2e5))
SCENARIOS = [Scenario(), TINY_BUFFERS, RICH]


@pytest.mark.parametrize("model", MODELS)
def test_bytes_read_are_sent_or_buffered_and_bytes_sent_are_written_or_buffered(model: Model) -> None:
    batch = Batch(scenario_array(SCENARIOS), model=model, stages=3, seed=3)
    run = simulate(batch, random_actions(60, len(SCENARIOS), 3))
    account = dict(zip(ACCOUNT, np.moveaxis(run.accounts, -1, 0), strict=True))
    in_sender = account["bytes_read"] - account["bytes_sent"]
    in_receiver = account["bytes_sent"] - account["bytes_written"]
    assert account["bytes_written"][-1].min() > 1e8
    if model == "events":  # whole bytes: exact
        np.testing.assert_array_equal(in_sender, account["sender_buffer_bytes"])
        np.testing.assert_array_equal(in_receiver, account["receiver_buffer_bytes"])
    else:
        np.testing.assert_allclose(in_sender, account["sender_buffer_bytes"], atol=10)
        np.testing.assert_allclose(in_receiver, account["receiver_buffer_bytes"], atol=10)


@pytest.mark.parametrize("model", MODELS)
def test_buffers_stay_within_their_sizes(model: Model) -> None:
    batch = Batch(scenario_array(SCENARIOS), model=model, stages=3, seed=3)
    run = simulate(batch, random_actions(60, len(SCENARIOS), 3))
    sizes = np.array([scenario.buffer_bytes for scenario in SCENARIOS])
    used = run.accounts[..., 3:5]
    assert (used >= 0).all()
    assert (used <= sizes).all()
    assert (used.max(axis=0) == sizes).any(), "some buffer was full at some time"
    free = run.metrics[..., 3:5]
    np.testing.assert_allclose(free, sizes - used)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stages", [1, 3])
def test_throughput_adds_up_to_the_account(model: Model, stages: int) -> None:
    scenario = Scenario(interval_s=0.5, buffer_bytes=(1e7, 1e7))
    batch = Batch(scenario_array(scenario, 4), model=model, stages=1 if stages == 1 else 3)
    run = simulate(batch, random_actions(30, 4, 1 if stages == 1 else 3))
    moved = run.metrics[..., :stages].sum(axis=0) * scenario.interval_s / 8
    counted = run.accounts[-1, :, 1:2] if stages == 1 else run.accounts[-1, :, 0:3]
    np.testing.assert_allclose(moved, counted, rtol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_no_stage_exceeds_its_workers_or_its_capacity(model: Model) -> None:
    scenario = Scenario(buffer_bytes=(5e6, 5e6))
    actions = random_actions(40, 8, 3)
    run = simulate(Batch(scenario_array(scenario, 8), model=model, stages=3), actions)
    most = np.minimum(actions * np.array(scenario.stream_bps), scenario.capacity_bps)
    assert (run.metrics[..., :3] <= most * (1 + 1e-9)).all()

"""Paths without clock, memory or chance are stepped in blocks; bit for bit as all others are, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from edt_simulator import ACCOUNT, METRICS, OBSERVATION, Batch, Scenario, scenario_array
from paths import RICH

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENVIRONMENTS = 200  # three blocks and a part of one


def plain_paths(seed: int) -> NDArray[np.void]:
    """Draws paths whose rate follows from the concurrency alone, with each extension of which that is true."""
    random = np.random.default_rng(seed)
    paths = scenario_array(Scenario(), ENVIRONMENTS)
    paths["interval_s"] = random.uniform(0.1, 3, ENVIRONMENTS)
    paths["rtt_s"] = random.choice([0, 0.01, 0.3], ENVIRONMENTS)
    paths["stream_bps"] = random.uniform(1e6, 1e9, (ENVIRONMENTS, 3))
    paths["capacity_bps"] = random.uniform(1e9, 1e10, (ENVIRONMENTS, 3))
    paths["window_bytes"] = random.choice([1e5, np.inf], ENVIRONMENTS)
    paths["file_bytes"] = random.choice([1e6, np.inf], ENVIRONMENTS)
    paths["file_overhead_s"] = random.uniform(0, 0.1, (ENVIRONMENTS, 3))
    paths["knee"] = random.choice([0, 0.2], ENVIRONMENTS)
    paths["contention"] = random.uniform(0, 0.2, (ENVIRONMENTS, 3))
    paths["contention_onset"] = random.uniform(1, 2, ENVIRONMENTS)
    paths["random_loss"] = random.uniform(0, 0.01, ENVIRONMENTS)
    paths["congestion_loss"] = random.choice([0, 0.1, 5], ENVIRONMENTS)
    paths["background_bps"] = random.uniform(0, 2e9, ENVIRONMENTS)
    paths["max_concurrency"] = random.integers(10, 60, ENVIRONMENTS)
    paths["initial_concurrency"] = random.integers(1, 10, (ENVIRONMENTS, 3))
    return paths


def one_by_one(paths: NDArray[np.void]) -> NDArray[np.void]:
    """Answers the same paths, the plain ones with a competitor long after every run: for it they need their clock."""
    clocked: NDArray[np.void] = paths.copy()
    clocked["competitor_start_s"][np.isinf(paths["change_s"][:, 0]), 0] = 1e9
    return clocked


def story(paths: NDArray[np.void], later: NDArray[np.void], threads: int = 1) -> list[NDArray[np.float64]]:
    """Steps some environments at a time, resets some, gives some new paths; answers all that can be seen."""
    count = len(paths)
    random = np.random.default_rng(5)
    batch = Batch(paths, seed=3, threads=threads)
    observations, metrics = np.zeros((count, len(OBSERVATION[1]))), np.zeros((count, len(METRICS[1])))
    account = np.empty((count, len(ACCOUNT)))
    seen = []
    for interval in range(24):
        mask = random.random(count) < 0.8 if interval % 3 else None
        actions = random.integers(-2, 70, (count, 1), dtype=np.int32)
        batch.step(actions, observations, metrics if interval % 2 else None, mask)
        seen += [observations.copy(), metrics.copy()]
        if interval in (8, 12, 16):
            batch.reset(mask, None if interval == 8 else later if interval == 12 else paths)
        batch.account(account)
        batch.observe(observations)
        seen += [account.copy(), observations.copy()]
    return seen


def assert_same(left: list[NDArray[np.float64]], right: list[NDArray[np.float64]]) -> None:
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


def test_blocks_answer_what_environments_one_by_one_do() -> None:
    paths, later = plain_paths(1), plain_paths(2)
    assert_same(story(paths, later), story(one_by_one(paths), one_by_one(later)))


def test_blocks_may_be_mixed_with_other_paths_and_change_into_them() -> None:
    paths, later = plain_paths(1), plain_paths(2)
    paths[::3] = scenario_array(RICH)[0]
    later[::2] = scenario_array(RICH)[0]
    expected = story(one_by_one(paths), one_by_one(later))
    assert_same(story(paths, later), expected)
    half, half_later = paths.copy(), later.copy()
    half[::5], half_later[1::5] = one_by_one(paths)[::5], one_by_one(later)[1::5]
    assert_same(story(half, half_later), expected)


def test_blocks_do_not_depend_on_threads() -> None:
    paths, later = np.tile(plain_paths(1), 100), np.tile(plain_paths(2), 100)
    later[::7] = scenario_array(RICH)[0]
    assert_same(story(paths, later), story(paths, later, threads=3))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("change_s", (3.0, np.inf, np.inf, np.inf)),
        ("competitor_start_s", (0.0, np.inf, np.inf)),
        ("ramp_round_trips", 50.0),
        ("background_deviation_bps", 3e8),
        ("cliff_streams", 10.0),
        ("noise", 0.1),
        ("outlier_probability", 0.5),
        ("measurement_lag", 0.5),
        ("measurement_delay", 2.0),
        ("decision_delay", 2.0),
    ],
)
def test_no_extension_is_lost_in_a_block(field: str, value: float | tuple[float, ...]) -> None:
    paths = scenario_array(Scenario(competitor_streams=(5, 0, 0), change_capacity=((1, 0.5, 1),) * 4), 70)
    paths[field][35] = value
    batch = Batch(paths)
    observations, history = np.empty((70, 3)), []
    for concurrency in (5, 20, 2, 20, 4, 20, 20, 20):
        batch.step(np.full((70, 1), concurrency, np.int32), observations)
        history.append(observations.copy())
    seen = np.array(history)
    others = np.delete(seen, 35, axis=1)
    np.testing.assert_array_equal(others, np.broadcast_to(others[:, :1], others.shape))
    assert (seen[:, 35] != seen[:, 0]).any()

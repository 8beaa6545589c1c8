"""The same seed gives the same numbers, bit for bit, on any number of threads."""

import numpy as np
import pytest

from edt_simulator import Batch, scenario_array
from paths import MODELS, RICH, STAGES, Model, Run, Stages, random_actions, simulate

ENVIRONMENTS: dict[Model, int] = {"fluid": 3000, "events": 24}
"""So many that a step is worth five threads; a shorter one would be left to fewer."""


def run(model: Model, stages: Stages, *, seed: int = 5, threads: int = 1, agents: int = 1) -> Run:
    scenarios = scenario_array(RICH, ENVIRONMENTS[model])
    batch = Batch(scenarios, model=model, stages=stages, seed=seed, threads=threads, agents=agents)
    return simulate(batch, random_actions(30, ENVIRONMENTS[model], stages))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("agents", [1, 3])
def test_results_do_not_depend_on_threads(model: Model, stages: Stages, agents: int) -> None:
    alone = run(model, stages, agents=agents)
    for threads in (2, 5):
        shared = run(model, stages, threads=threads, agents=agents)
        np.testing.assert_array_equal(alone.observations, shared.observations)
        np.testing.assert_array_equal(alone.metrics, shared.metrics)
        np.testing.assert_array_equal(alone.accounts, shared.accounts)


@pytest.mark.parametrize("stages", STAGES)
def test_another_seed_and_another_environment_differ(stages: Stages) -> None:
    first, second = run("fluid", stages), run("fluid", stages, seed=6)
    assert (first.observations != second.observations).any()
    scenarios = scenario_array(RICH, 2)
    same_actions = np.full((10, 2, stages), 5, np.int32)
    twins = simulate(Batch(scenarios, stages=stages), same_actions)
    assert (twins.observations[:, 0] != twins.observations[:, 1]).any()


@pytest.mark.parametrize("model", MODELS)
def test_reseeding_and_resetting_repeats_a_run(model: Model) -> None:
    batch = Batch(scenario_array(RICH, 24), model=model, stages=3, seed=9)
    actions = random_actions(20, 24, 3)
    first = simulate(batch, actions)
    batch.reset()
    different = simulate(batch, actions)
    batch.reset()
    batch.reseed(9)
    again = simulate(batch, actions)
    np.testing.assert_array_equal(first.observations, again.observations)
    assert (first.observations != different.observations).any()


def test_a_masked_environment_stands_still() -> None:
    scenarios = scenario_array(RICH, 4)
    mask = np.array([True, False, True, False])
    batch, other = Batch(scenarios, seed=1), Batch(scenarios, seed=1)
    actions = random_actions(8, 4, 1)
    observations = np.full((4, 3), -1.0)
    batch.step(actions[0], observations, mask=mask)
    assert (observations[~mask] == -1).all()
    other.step(actions[0], None, mask=mask)
    other.step(actions[1], None, mask=~mask)
    batch.step(actions[1], observations, mask=~mask)
    late = np.where(mask[:, None], actions[0], actions[1])
    straight = Batch(scenarios, seed=1)
    expected = np.empty((4, 3))
    straight.step(late, expected)
    batch.observe(observations)
    np.testing.assert_array_equal(observations, expected)


def test_reset_touches_only_the_masked_and_takes_new_scenarios() -> None:
    slow = scenario_array([RICH] * 4)
    batch = Batch(slow, stages=3)
    simulate(batch, random_actions(5, 4, 3))
    before = np.empty((4, 5))
    batch.account(before)
    mask = np.array([False, True, False, True])
    fresh = slow.copy()
    fresh["initial_concurrency"] = 7
    batch.reset(mask, fresh)
    after = np.empty((4, 5))
    batch.account(after)
    np.testing.assert_array_equal(after[~mask], before[~mask])
    assert (after[mask] == 0).all()
    observations = np.empty((4, 9))
    batch.observe(observations)
    assert (observations[mask, :3] == 7).all()
    assert (observations[mask, 3:6] == 0).all()
    np.testing.assert_array_equal(observations[mask, 6:8], fresh["buffer_bytes"][mask])

"""The Gymnasium environment: spaces, episodes, autoreset, rewards."""

from typing import Any, Literal

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from edt_simulator import METRICS, Scenario, TransferVectorEnv, scenario_array
from paths import AUTOMDT_BOTTLENECKS

ONE = Scenario(stream_bps=(3e9,) * 3, capacity_bps=(45e9,) * 3)


def env(stages: Literal[1, 3] = 1, count: int = 3, **options: Any) -> TransferVectorEnv:
    return TransferVectorEnv(scenario_array(ONE if stages == 1 else Scenario(), count), stages=stages, **options)


def constant(made: TransferVectorEnv, *concurrency: float) -> NDArray[np.float32]:
    return np.tile(np.array(concurrency, np.float32), (made.num_envs, 1))


@pytest.mark.parametrize("stages", [1, 3])
def test_what_it_answers_lies_in_its_spaces(stages: Literal[1, 3]) -> None:
    made = env(stages, model="events")
    observations, infos = made.reset(seed=1)
    assert observations in made.observation_space
    made.action_space.seed(1)
    for _ in range(15):
        observations, rewards, terminations, truncations, infos = made.step(made.action_space.sample())
        assert observations in made.observation_space
        assert rewards.shape == terminations.shape == truncations.shape == (3,)
        assert rewards.dtype == np.float64
        assert not terminations.any()
        assert infos["metrics"].shape == (3, len(METRICS[stages]))


def test_observations_of_one_stage_are_relative_with_their_changes() -> None:
    made = env(start="initial")
    first, _ = made.reset(seed=0)
    np.testing.assert_allclose(first, [[0, 0.01, 0, 0]] * 3)
    made.step(constant(made, 5))
    observations, *_ = made.step(constant(made, 14.6))  # rounds to 15
    np.testing.assert_allclose(observations, [[1, 0.15, 2 / 3, 0.1]] * 3, rtol=1e-6)


def test_observations_of_three_stages_are_relative() -> None:
    made = env(3, start="initial")
    made.reset(seed=0)
    observations, _, _, _, infos = made.step(constant(made, 5, 2, 1))
    truth = dict(zip(METRICS[3], infos["metrics"][0], strict=True))
    free = [truth["sender_free_bytes"] / 1e9, truth["receiver_free_bytes"] / 1e9]
    np.testing.assert_allclose(observations[0], [*free, 0.4, 0.32, 0.2, 0.05, 0.02, 0.01], rtol=1e-6)


def test_the_reward_is_one_at_the_papers_optimum() -> None:
    made = env()
    made.reset(seed=0)
    _, rewards, *_ = made.step(constant(made, 15))
    np.testing.assert_allclose(rewards, 1.0)
    _, worse, *_ = made.step(constant(made, 30))
    np.testing.assert_allclose(worse, 1.02**-15)


@pytest.mark.parametrize("bottleneck", AUTOMDT_BOTTLENECKS)
def test_the_reward_of_three_stages_is_near_one_at_the_optimum(bottleneck: str) -> None:
    streams, _, best = AUTOMDT_BOTTLENECKS[bottleneck]
    scenario = Scenario(stream_bps=streams, buffer_bytes=(1e7, 1e7))
    made = TransferVectorEnv(scenario_array(scenario), stages=3, episode_steps=100)
    made.reset(seed=0)
    for _ in range(20):
        _, rewards, *_ = made.step(constant(made, *best))
    np.testing.assert_allclose(rewards, 1.0, atol=0.03)


def test_loss_costs_its_weight() -> None:
    scenario = Scenario(stream_bps=(3e9,) * 3, capacity_bps=(45e9,) * 3, random_loss=0.01)
    made = TransferVectorEnv(scenario_array(scenario), b=10.0)
    made.reset(seed=0)
    _, rewards, *_ = made.step(constant(made, 15))
    np.testing.assert_allclose(rewards, 0.99 - 10 * 0.01 * 1.02**15)


def test_next_step_autoreset_spends_a_step_on_the_reset() -> None:
    made = env(episode_steps=3, start="initial")
    made.reset(seed=0)
    ends = []
    for step in range(8):
        observations, rewards, _, truncations, _ = made.step(constant(made, 10))
        ends.append(bool(truncations.all()))
        if step in (3, 7):
            np.testing.assert_array_equal(rewards, 0.0)
            np.testing.assert_allclose(observations[:, :2], [[0, 0.01]] * 3)
        else:
            assert (rewards > 0).all()
    assert ends == [False, False, True, False, False, False, True, False]


def test_same_step_autoreset_keeps_the_last_observation_in_info() -> None:
    made = env(episode_steps=2, start="initial", autoreset_mode=AutoresetMode.SAME_STEP)
    made.reset(seed=0)
    _, _, _, truncations, infos = made.step(constant(made, 10))
    assert not truncations.any()
    assert "final_obs" not in infos
    observations, rewards, _, truncations, infos = made.step(constant(made, 15))
    assert truncations.all()
    np.testing.assert_allclose(rewards, 1.0)
    np.testing.assert_allclose(observations[:, :2], [[0, 0.01]] * 3)
    np.testing.assert_allclose(infos["final_obs"][0], [1, 0.15, 1 / 3, 0.05], rtol=1e-6)
    assert infos["_final_obs"].all()
    np.testing.assert_allclose(infos["final_info"]["metrics"][:, 0], 45e9)


def test_disabled_autoreset_leaves_the_reset_to_the_caller() -> None:
    made = env(episode_steps=2, start="initial", autoreset_mode=AutoresetMode.DISABLED)
    made.reset(seed=0)
    made.step(constant(made, 10))
    *_, truncations, _ = made.step(constant(made, 10))
    assert truncations.all()
    mask = np.array([True, False, True])
    observations, _ = made.reset(options={"reset_mask": mask})
    np.testing.assert_allclose(observations[:, 0], [0, 2 / 3, 0], rtol=1e-6)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_seed_repeats_everything(mode: AutoresetMode) -> None:
    scenario = Scenario(noise=0.1, background_deviation_bps=1e8)
    made = TransferVectorEnv(scenario_array(scenario, 4), stages=3, episode_steps=3, autoreset_mode=mode)
    runs = []
    for _ in range(2):
        first, _ = made.reset(seed=42)
        rows = [first]
        rows += [made.step(constant(made, 5, 6, 7))[0] for _ in range(10)]
        runs.append(np.stack(rows))
    np.testing.assert_array_equal(runs[0], runs[1])
    other, _ = made.reset(seed=43)
    assert (other != runs[0][0]).any()


def test_a_random_start_spreads_the_first_state() -> None:
    made = env(count=200)
    observations, _ = made.reset(seed=0)
    assert observations[:, 1].min() < 0.1
    assert observations[:, 1].max() > 0.9


def test_a_sampler_draws_new_paths_for_new_episodes() -> None:
    def sampler(random: np.random.Generator, count: int) -> NDArray[np.void]:
        drawn = scenario_array(ONE, count)
        drawn["capacity_bps"] = random.uniform(1e10, 6e10, (count, 1))
        return drawn

    made = env(count=50, sampler=sampler, episode_steps=2)
    made.reset(seed=0)
    first = made.step(constant(made, 40))[-1]["metrics"][:, 0]
    assert first.std() > 1e9
    for _ in range(3):
        observations, _, _, _, infos = made.step(constant(made, 40))
    assert (infos["metrics"][:, 0] != first).all()
    np.testing.assert_allclose(observations[:, 0], 1.0)


@pytest.mark.parametrize("actions", [np.ones(3), np.full((3, 1), np.nan), np.ones((3, 2))])
def test_bad_actions_are_refused(actions: NDArray[Any]) -> None:
    made = env()
    made.reset(seed=0)
    with pytest.raises(ValueError, match="`actions` must be finite"):
        made.step(actions)


@pytest.mark.parametrize(("options", "name"), [({"episode_steps": 0}, "episode_steps"), ({"start": "late"}, "start")])
def test_bad_options_are_refused(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}`"):
        env(**options)

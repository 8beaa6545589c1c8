"""Agents trained in the simulator: they learn to answer what they see, and the core gets what they learned."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs PyTorch: pip install 'edt[train]'")

import safetensors
import torch
from safetensors.torch import load_file

import edt
from edt.training import Episodes, Options, PathEstimate, Trained, Variety, compare, save, train
from edt.training.episodes import STATIONARY, streams_for
from edt.training.evaluation import always, deciding, mean_reward, state_at, table
from edt.training.networks import MOVES, DiscretePolicy, PolicyNetwork
from edt.training.ppo import Rollout, discounted, networks

PATH = PathEstimate(bandwidth=(125e6,), stream_rate=(125e6 / 10,), rtt_s=0.05)
THREE = PathEstimate(stages=3, bandwidth=(125e6,) * 3, stream_rate=(10e6, 20e6, 25e6), rtt_s=0.02)
SHORT = Options(episodes=16, most_episodes=16 * 6, seed=3)


@pytest.fixture(scope="module")
def agent() -> Trained:
    """An agent for ten streams, trained for few episodes."""
    return train("edt", PATH, Options(seed=2, most_episodes=8000))


def test_an_agent_reaches_nine_tenths_of_the_best_reward(agent: Trained) -> None:
    assert agent.converged_episodes is not None
    assert compare(agent, episodes=500).agent > 0.9


def test_the_agent_beats_every_constant_where_the_path_changes(agent: Trained) -> None:
    compared = compare(agent, Variety(changing=1.0), episodes=500)
    assert compared.agent > compared.constant + 0.01
    assert compared.agent > compared.analytic + 0.01


def test_the_agent_answers_the_state_and_not_always_the_same(agent: Trained) -> None:
    choose = deciding(agent.policy)
    full = choose(state_at(PATH, agent.policy.most, 1.0, 10)[None])[0, 0]
    less = choose(state_at(PATH, agent.policy.most, 0.4, 10)[None])[0, 0]
    assert abs(full - 10) <= 3
    assert less < full - 2, f"{less} streams where 4 are right, {full} where 10 are"
    assert len({answer.answer for answer in table(agent.policy, PATH)}) >= 2


def test_rewards_are_one_at_the_optimum_of_the_moment() -> None:
    still = mean_reward(Episodes(PATH, 200, variety=STATIONARY), always((10,)))
    assert still == pytest.approx(1.0, abs=1e-6)
    # A path with less capacity from its beginning to its end, and the concurrency that suits it.
    episodes = Episodes(
        PATH, 400, variety=Variety(changing=1.0, stream_rate=(1.0, 1.0), noise=0.0, congestion_loss=0.0), seed=5
    )
    episodes.reset()
    rewards = np.array([episodes.step(np.full((400, 1), streams))[1] for streams in (4,) * 10])
    assert rewards.max() <= 1.0 + 1e-6
    assert rewards.max() > 0.99, "some path needs four streams"


def test_three_stages_have_their_rewards_too() -> None:
    score = mean_reward(Episodes(THREE, 100, variety=STATIONARY), always((13, 7, 5)))
    assert score > 0.98
    assert mean_reward(Episodes(THREE, 100, variety=STATIONARY), always((30, 30, 30))) < 0.8


def test_training_repeats_with_its_seed() -> None:
    rewards = [[point.reward for point in train("edt", PATH, SHORT).curve] for _ in range(2)]
    assert rewards[0] == rewards[1]
    assert rewards[0] != [point.reward for point in train("edt", PATH, SHORT.replaced(seed=4)).curve]


@pytest.mark.parametrize(("kind", "path"), [("edt", PATH), ("automdt", THREE), ("drl", PATH)])
def test_every_kind_of_agent_trains_and_is_saved(kind: str, path: PathEstimate, tmp_path: Path) -> None:
    trained = train(kind, path, SHORT)
    file = tmp_path / "agent.safetensors"
    assert 0 < trained.best < 2
    save(trained, file)
    with safetensors.safe_open(file, "pt") as opened:
        text = json.loads(opened.metadata()["edt.agent"], parse_constant=pytest.fail)
        names = set(opened.keys())
    assert (text["kind"], text["stages"], len(text["observation"])) == (kind, path.stages, 4 if path.stages == 1 else 8)
    assert names == {name for layer in text["network"] for name in tensors_of(layer)}
    assert text["path"]["r_max"] == pytest.approx(path.r_max)
    restored = PolicyNetwork(len(text["observation"]), len(MOVES) if kind == "drl" else path.stages)
    restored.load_state_dict(load_file(file))
    state = torch.randn(5, len(text["observation"]))
    assert torch.equal(restored(state), trained.policy.network(state))


def test_a_trained_agent_steers_a_transfer(agent: Trained, tmp_path: Path) -> None:
    file = tmp_path / "agent.safetensors"
    save(agent, file)
    report = edt.copy("zero:8x32MiB", "null:", optimizer="edt", agent=file, interval=0.1)
    assert report.totals.files_done == 8
    first = report.to_dict()["decisions"][0]["decision"]["concurrency"]
    assert first["network"] == agent.policy.most // 4, "an agent begins with a quarter of its range"


def test_the_best_reward_is_one_where_the_papers_optimum_pays_no_more() -> None:
    many = PathEstimate(bandwidth=(125e6,), stream_rate=(125e6 / 90,))
    still = STATIONARY
    scores = {n: mean_reward(Episodes(many, 20, variety=still), always((n,))) for n in (40, 50, 51, 60, 90)}
    assert max(scores.values()) == pytest.approx(1.0, abs=1e-3)
    assert max(scores, key=scores.__getitem__) in (50, 51)
    few = Episodes(PATH, 20, maximum=4, variety=still)
    assert mean_reward(few, always((4,))) == pytest.approx(1.0, abs=1e-6)


def tensors_of(layer: dict[str, object]) -> list[str]:
    """The tensors that a layer of an agent file names."""
    inner = layer.get("layers", [])
    assert isinstance(inner, list)
    own = [str(layer[key]) for key in ("weight", "bias") if key in layer]
    return own + [name for each in inner for name in tensors_of(each)]


def test_returns_go_on_after_the_end_of_the_time() -> None:
    _, value = networks("edt", 30, Options())
    last = torch.randn(2, 4)
    rollout = Rollout(torch.empty(0), torch.empty(0), torch.empty(0), torch.ones(3, 2), last)
    found = discounted(rollout, value, 0.5)
    assert torch.allclose(found[0], 1 + 0.5 + 0.25 + 0.125 * value(last).detach())


def test_discrete_moves_start_from_the_applied_concurrency() -> None:
    policy = DiscretePolicy(4, 30)
    states = torch.tensor([[0.5, 10 / 30, 0, 0], [0.5, 1 / 30, 0, 0]])
    assert policy.concurrency(torch.tensor([[4.0], [0.0]]), states).tolist() == [[13.0], [1.0]]


def test_the_papers_own_training_runs() -> None:
    trained = train("edt", PATH, Options.paper().replaced(most_episodes=30))
    assert trained.options.variety == STATIONARY
    assert [point.episodes for point in trained.curve] == list(range(1, 31))


def test_the_range_of_an_agent_suits_its_path() -> None:
    assert streams_for(PATH) == 30
    assert streams_for(PathEstimate(bandwidth=(1e6,), stream_rate=(1e6,))) == 8
    assert streams_for(PathEstimate(bandwidth=(1e9,), stream_rate=(1e6,))) == 100


def path_text() -> dict[str, object]:
    """A path file, as `edt explore` writes it."""
    rates = {"read": None, "network": 125e6, "write": None}
    return {
        "format": 1,
        "source": "zero:",
        "destination": "edt://dtn.example/",
        "stages": 1,
        "k": 1.02,
        "samples": [],
        "buffers": {"sender": 0, "receiver": 0},
        "estimate": {
            "bandwidth": rates,
            "stream_rate": {**rates, "network": 25e6},
            "optimum": {**rates, "network": 5.0},
            "r_max": 1.1e8,
            "rtt_ms": 30.0,
        },
    }


def trained_by_command(*words: str, data: Path) -> subprocess.CompletedProcess[str]:
    """Runs the training as `edt train` does."""
    command = [sys.executable, "-m", "edt.training", *words]
    environment = {"EDT_DATA_DIR": str(data), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_trains_for_a_kept_path_and_keeps_the_agent(tmp_path: Path) -> None:
    (tmp_path / "paths").mkdir()
    (tmp_path / "paths" / "local--dtn.example_7632.json").write_text(json.dumps(path_text()))
    plot = tmp_path / "curve.svg"
    ended = trained_by_command(
        "data/", "edt://dtn.example/x", "--seconds", "4", "--json", "--plot", str(plot), data=tmp_path
    )
    assert ended.returncode in (0, 1), ended.stderr
    report = json.loads(ended.stdout)
    assert Path(report["agent_file"]) == tmp_path / "agents" / "local--dtn.example_7632-edt.safetensors"
    assert Path(report["agent_file"]).stat().st_size > 1e6
    assert report["optimum"] == [5.0]
    assert "<svg" in plot.read_text()


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    ended = trained_by_command("data/", "edt://dtn.example/", data=tmp_path)
    assert ended.returncode == 2
    assert "local--dtn.example_7632.json" in ended.stderr
    assert "hint: run `edt explore SRC DST` first" in ended.stderr
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({**path_text(), "format": 7}))
    assert (
        "there is no directory" in trained_by_command("--path", str(broken), "--plot", "no/x.svg", data=tmp_path).stderr
    )
    ended = trained_by_command("--path", str(broken), data=tmp_path)
    assert ended.returncode == 2
    assert "broken.json" in ended.stderr
    assert "its format is 7" in ended.stderr

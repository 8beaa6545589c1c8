"""Proximal policy optimisation of concurrency in the simulator [EDT §IV-D, §IV-E2; AutoMDT Alg. 2], top to bottom."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from edt.training.episodes import MOST_STREAMS, STATIONARY, Episodes, Variety
from edt.training.networks import STATE, ContinuousPolicy, DiscretePolicy, Policy, ValueNetwork
from edt.training.path import PathEstimate

KINDS: dict[str, Literal[1, 3]] = {"edt": 1, "automdt": 3, "drl": 1}
"""The agents, and the number of stages that each tunes."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train. The defaults are many parallel episodes and several epochs; `paper` is what the papers print."""

    episodes: int = 64
    """Episodes of one update."""
    steps: int = 10
    """Intervals of an episode [EDT §IV-E2]."""
    epochs: int = 10
    """Most passes over the episodes of an update."""
    minibatches: int = 4
    """Parts into which each pass divides them."""
    learning_rate: float = 7e-4
    """Step size of Adam."""
    discount: float = 0.3
    """Weight of the next reward, gamma: an action shows in the interval that it begins, and little of it later."""
    clip: float = 0.2
    """Most change of a probability ratio in one update, epsilon."""
    entropy: float = 0.0001
    """Weight of the entropy."""
    value: float = 0.5
    """Weight of the critic's mean squared error."""
    divergence: float = 0.05
    """Kullback-Leibler divergence from the old policy after which an update takes no further pass."""
    gradient: float = 0.5
    """Most norm of a gradient."""
    log_std: float = -3.0
    """Log-standard-deviation to begin with; actions are about -1 to 1."""
    log_std_rate: float = 20.0
    """How many times faster it learns than the other weights."""
    smoothing: int = 512
    """Episodes over whose mean reward progress is judged: a single update's is as much luck as progress."""
    variety: Variety = field(default_factory=Variety)
    """How episodes differ from each other."""
    convergence: float = 0.9
    """Share of R_max from which training counts as converged [EDT §IV-E2]."""
    patience: int = 1500
    """Episodes without improvement after which converged training ends; the papers' 1,000 have an update each."""
    reductions: int = 3
    """How often it goes on instead from the best weights with a third of the step size: one stream too many costs
    little, and a large step passes over it."""
    most_episodes: int = 60_000
    """Episodes after which it ends in any case."""
    most_seconds: float | None = None
    """Seconds after which it ends in any case; default none."""
    most_streams: int | None = None
    """Most streams that the agent may choose; default three times the optimum, 8 to 100."""
    seed: int = 0
    """Seed of weights, episodes and actions."""

    @classmethod
    def paper(cls) -> Options:
        """One update after each episode of a path that stays as it is, with the constants of the papers' programs."""
        return cls(
            episodes=1,
            epochs=1,
            minibatches=1,
            learning_rate=1e-4,
            discount=0.99,
            clip=0.1,
            entropy=0.1,
            log_std=0.0,
            log_std_rate=1.0,
            smoothing=1,
            patience=1000,
            reductions=0,
            variety=STATIONARY,
        )

    def validate(self) -> None:
        """A ValueError names the first option that cannot be used."""
        if self.most_streams is not None and not 1 <= self.most_streams <= MOST_STREAMS:
            raise ValueError(f"the most streams must be from 1 to {MOST_STREAMS}, not {self.most_streams}")
        if self.most_seconds is not None and not self.most_seconds > 0:
            raise ValueError(f"the limit of seconds must be positive, not {self.most_seconds}")
        if min(self.episodes, self.steps, self.epochs, self.minibatches, self.most_episodes) < 1 or self.steps < 2:
            raise ValueError("episodes, epochs and minibatches must be at least 1, steps at least 2")

    def replaced(self, **changes: Any) -> Options:
        """The same with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Point:
    """One update of the training curve."""

    episodes: int
    seconds: float
    reward: float
    """Mean reward of a step as a share of R_max, as sampled."""
    smoothed: float
    """Its mean over the last `smoothing` episodes."""


@dataclass
class Trained:
    """A trained agent and how its training went."""

    kind: str
    path: PathEstimate
    options: Options
    policy: Policy
    value: ValueNetwork
    curve: list[Point]
    best: float
    """The best smoothed reward, as a share of R_max."""
    converged_episodes: int | None
    """Episodes until `convergence` was reached first; `None` if it never was."""
    converged_seconds: float | None

    def report(self) -> dict[str, Any]:
        """What the agent file says of the training."""
        last = self.curve[-1]
        return {
            "episodes": last.episodes,
            "seconds": round(last.seconds, 3),
            "best": self.best,
            "converged_episodes": self.converged_episodes,
            "converged_seconds": self.converged_seconds,
            "options": asdict(self.options),
        }


@dataclass
class Rollout:
    """What one update learns from: tensors of [steps, episodes, ...]."""

    states: Tensor
    actions: Tensor
    log_probability: Tensor
    rewards: Tensor
    last_states: Tensor


def train(
    kind: str, path: PathEstimate, options: Options | None = None, progress: Callable[[Point], None] | None = None
) -> Trained:
    """Trains an agent of a kind for a path, until it has converged and no longer improves, or a limit is reached.

    Deterministic for a seed on one machine. The calling process keeps one thread of PyTorch: with networks as small as
    these, a second one costs more than it brings.
    """
    options = options or Options()
    options.validate()
    if kind not in KINDS:
        raise ValueError(f"there is no agent `{kind}`: choose one of {', '.join(KINDS)}")
    if path.stages != KINDS[kind]:
        raise ValueError(f"the agent `{kind}` tunes {KINDS[kind]} stages, but the path was explored with {path.stages}")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(options.seed)
    torch.manual_seed(options.seed)
    episodes = Episodes(path, options.episodes, options.steps, options.most_streams, options.variety, options.seed)
    policy, value = networks(kind, episodes.most, options)
    optimizer = adam(policy, value, options)
    trained = Trained(kind, path, options, policy, value, [], -np.inf, None, None)
    best, begin = Best(trained), time.monotonic()
    while True:
        rollout = collect(episodes, policy, generator)
        point = best.judge(float(rollout.rewards.mean()), time.monotonic() - begin)
        if progress:
            progress(point)
        if is_over(point, options) or best.is_final():
            break
        if best.is_exhausted():
            best.go_on(optimizer)
        else:
            update(policy, value, optimizer, rollout, options, generator)
    best.settle()
    return trained


class Best:
    """The best weights of a training, and how long ago they were found."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained
        options = trained.options
        self.recent: deque[float] = deque(maxlen=max(1, options.smoothing // options.episodes))
        self.weights: tuple[dict[str, Any], dict[str, Any]] | None = None
        self.stagnant = 0
        """Episodes since."""
        self.reductions = 0

    def judge(self, reward: float, seconds: float) -> Point:
        """Adds an update to the training curve, and keeps its weights if they are the best."""
        trained, options = self.trained, self.trained.options
        self.recent.append(reward)
        episodes = options.episodes * (len(trained.curve) + 1)
        point = Point(episodes, seconds, reward, float(np.mean(self.recent)))
        trained.curve.append(point)
        if len(self.recent) == self.recent.maxlen and point.smoothed > trained.best:
            trained.best, self.stagnant = point.smoothed, 0
            self.weights = state_of(trained.policy, trained.value)
        else:
            self.stagnant += options.episodes
        if self.has_converged() and trained.converged_episodes is None:
            trained.converged_episodes, trained.converged_seconds = point.episodes, point.seconds
        return point

    def has_converged(self) -> bool:
        """Whether the share of R_max is reached that training asks for."""
        return self.trained.best >= self.trained.options.convergence

    def is_exhausted(self) -> bool:
        """Whether a converged training improves no more with steps of this size."""
        return self.has_converged() and self.stagnant >= self.trained.options.patience

    def is_final(self) -> bool:
        """Whether no smaller steps are to be tried either."""
        return self.is_exhausted() and self.reductions >= self.trained.options.reductions

    def go_on(self, optimizer: torch.optim.Optimizer) -> None:
        """Goes back to the best weights, with smaller steps."""
        self.settle()
        for group in optimizer.param_groups:
            group["lr"] /= 3
        self.stagnant, self.reductions = 0, self.reductions + 1

    def settle(self) -> None:
        """Takes the best weights back; of a training too short for a judgement the last ones are the best guess."""
        trained = self.trained
        if self.weights is None:
            trained.best = trained.curve[-1].smoothed
        else:
            trained.policy.load_state_dict(self.weights[0])
            trained.value.load_state_dict(self.weights[1])


def adam(policy: Policy, value: ValueNetwork, options: Options) -> torch.optim.Optimizer:
    """Adam over both networks [EDT §IV-E2]."""
    slow = [parameter for name, parameter in policy.named_parameters() if name != "log_std"] + list(value.parameters())
    fast = [parameter for name, parameter in policy.named_parameters() if name == "log_std"]
    rate = options.learning_rate
    groups = [{"params": slow, "lr": rate}, {"params": fast, "lr": rate * options.log_std_rate}]
    return torch.optim.Adam(groups, eps=1e-5)


def networks(kind: str, most: int, options: Options) -> tuple[Policy, ValueNetwork]:
    """New networks, with `most` streams at most."""
    stages = KINDS[kind]
    size = STATE[stages]
    policy: Policy = (
        DiscretePolicy(size, most) if kind == "drl" else ContinuousPolicy(size, stages, most, options.log_std)
    )
    return policy, ValueNetwork(size)


def state_of(policy: Policy, value: ValueNetwork) -> tuple[dict[str, Any], dict[str, Any]]:
    """Copies of all weights."""
    return copy.deepcopy(policy.state_dict()), copy.deepcopy(value.state_dict())


def is_over(point: Point, options: Options) -> bool:
    """Whether a limit is reached."""
    too_long = options.most_seconds is not None and point.seconds >= options.most_seconds
    return too_long or point.episodes >= options.most_episodes


@torch.no_grad()
def collect(episodes: Episodes, policy: Policy, generator: torch.Generator) -> Rollout:
    """Runs one episode in each environment."""
    states, actions, log_probability, rewards = [], [], [], []
    state = torch.from_numpy(episodes.reset())
    for _ in range(episodes.steps):
        action, log = policy.sample(state, generator)
        states.append(state)
        actions.append(action)
        log_probability.append(log)
        following, reward = episodes.step(policy.concurrency(action, state).numpy())
        rewards.append(torch.from_numpy(reward.astype(np.float32)))
        state = torch.from_numpy(following)
    return Rollout(torch.stack(states), torch.stack(actions), torch.stack(log_probability), torch.stack(rewards), state)


def update(
    policy: Policy,
    value: ValueNetwork,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    options: Options,
    generator: torch.Generator,
) -> None:
    """Several epochs of the clipped surrogate, the critic's error and the entropy [AutoMDT Alg. 2 lines 18 to 30]."""
    returns = discounted(rollout, value, options.discount).flatten()
    states, actions = rollout.states.flatten(0, 1), rollout.actions.flatten(0, 1)
    before = rollout.log_probability.flatten()
    with torch.no_grad():
        advantages = returns - value(states)
        if len(advantages) > options.steps:
            # Over all episodes of the update: within one it would hide which step was good.
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    parameters = [*policy.parameters(), *value.parameters()]
    for _ in range(options.epochs):
        divergence = 0.0
        for part in torch.randperm(len(states), generator=generator).chunk(options.minibatches):
            after, entropy = policy.log_probability(states[part], actions[part])
            ratio = (after - before[part]).exp()
            # An estimate of it that is never negative: r - 1 - ln r.
            divergence += float((ratio - 1 - ratio.log()).mean().detach()) / options.minibatches
            clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
            actor = -torch.minimum(ratio * advantages[part], clipped * advantages[part]).mean()
            critic = options.value * nn.functional.mse_loss(value(states[part]), returns[part])
            loss = actor + critic - options.entropy * entropy.mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, options.gradient)
            optimizer.step()
        if divergence > options.divergence:
            break


@torch.no_grad()
def discounted(rollout: Rollout, value: ValueNetwork, discount: float) -> Tensor:
    """G_t = r_t + gamma G_{t+1}, [steps, episodes] [AutoMDT Alg. 2 line 19].

    An episode ends because its time is over, not the transfer: its last state's value stands for what would have come.
    """
    following = value(rollout.last_states)
    returns = torch.empty_like(rollout.rewards)
    for step in reversed(range(len(returns))):
        following = rollout.rewards[step] + discount * following
        returns[step] = following
    return returns

"""How good the policy is: on held-out paths of its family, under laws that it never saw, in teams and beside others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from edt.training.generalist.paths import HELD_OUT, TEAM, Dice, draw
from edt.training.generalist.policy import Pilot, Policy
from edt.training.generalist.simulator import WORST, Observed, Simulator
from edt.training.generalist.structures import (
    CHANGE,
    INTERVALS,
    JOINS,
    LAWS,
    TOGETHER,
    Scene,
    beside,
    few_files,
    one_stream,
    plain,
    stepping,
    team,
    under_law,
)

COPIES = 256
SETTLED = 10
"""Intervals after which streams beyond the best count as too many."""
GOOD = 0.9
"""Share of the best utility from which ten intervals together count as good."""
TOGETHER_FOR = 20
"""Last intervals of each phase of a team, over which shares are compared."""
CONSTANT = 8.0
"""Streams of the constant setting that the policy is compared with."""

Choose = Callable[[Observed, Tensor | None], Tensor]


@dataclass(frozen=True)
class Score:
    """How one kind of paths went, means over paths."""

    utility: float
    """Share of the best utility."""
    constant: float
    """The same with a constant number of streams."""
    converged: float
    """Median of the first interval from which on ten together reach nine tenths."""
    excess: float
    """Streams beyond the best, as a share of it, once settled."""


@dataclass(frozen=True)
class Together:
    """How agents share a path, means over paths."""

    jain_two: float
    """Jain's index of the rates of two agents."""
    jain_three: float
    load_two: float
    """Streams of both, as a multiple of what fills the path."""
    load_three: float


@dataclass(frozen=True)
class Assessment:
    """All that is reported of a policy."""

    scores: dict[str, Score]
    together: Together
    kept: dict[str, float]
    """What others' streams keep of half of the path, or of what they move alone if that is less, by their number."""

    def to_dict(self) -> dict[str, object]:
        """As JSON takes it, rounded."""
        return {
            "scores": {name: rounded(asdict(score)) for name, score in self.scores.items()},
            "together": rounded(asdict(self.together)),
            "kept_by_others": rounded(self.kept),
        }


@dataclass(frozen=True)
class Run:
    """What happened, tensors of `[intervals, agents]`."""

    streams: Tensor
    utility: Tensor
    best_streams: Tensor
    rate: Tensor


def assess(policy: Policy, copies: int = COPIES) -> Assessment:
    """Lets a policy steer transfers on all kinds of paths, so many of each."""
    torch.set_num_threads(1)
    scenes: dict[str, Scene] = {"held-out paths": held_out(copies)}
    scenes["plain paths"] = plain(Dice(HELD_OUT + 1), copies)
    scenes |= {name: under_law(Dice(HELD_OUT + 2), copies, law) for name, law in LAWS.items()}
    scenes["few files"] = few_files(Dice(HELD_OUT + 3), copies)
    scenes["one stream"] = one_stream(Dice(HELD_OUT + 4), copies)
    scores = {name: scored(policy, scene, 0) for name, scene in scenes.items()}
    for factor in (0.5, 1.6, 2.0):
        scores[f"clean x{factor:g}"] = scored(policy, stepping(factor)(Dice(HELD_OUT + 5), copies), CHANGE)
    kept = {f"{tenants}": kept_by(policy, tenants, copies) for tenants in (8, 32)}
    return Assessment(scores, together(policy, copies), kept)


def held_out(copies: int) -> Scene:
    """Paths of the family with one agent each."""
    paths, members = draw(Dice(HELD_OUT), copies, 0, INTERVALS)
    members.start = torch.full_like(members.start, 4.0)
    return Scene(paths, members)


@torch.no_grad()
def steered(policy: Policy, scene: Scene) -> Run:
    """Lets the policy steer all agents of a scene."""
    simulator = Simulator(scene.paths, scene.members, Dice(HELD_OUT + 6), scene.law)
    return ran(simulator, Pilot(policy, simulator.price).decide)


@torch.no_grad()
def constant(scene: Scene, streams: float = CONSTANT) -> Run:
    """Keeps the same number of streams."""
    members = replace(scene.members, start=torch.full_like(scene.members.start, streams))
    simulator = Simulator(scene.paths, members, Dice(HELD_OUT + 6), scene.law)
    return ran(simulator, lambda seen, _: seen.streams)


def ran(simulator: Simulator, choose: Choose) -> Run:
    """Runs a scene from its beginning to its end."""
    asked, rows = simulator.members.start, []
    for interval in range(simulator.intervals):
        seen, truth = simulator.step(interval, asked)
        rows.append((seen.streams, truth.utility, truth.best_streams, truth.rate * truth.here))
        asked = choose(seen, simulator.joins(interval))
    return Run(*(torch.stack(columns) for columns in zip(*rows, strict=True)))


def scored(policy: Policy, scene: Scene, begin: int) -> Score:
    """The score from an interval on."""
    run = steered(policy, scene)
    utility = run.utility[begin:].clamp(min=WORST)
    settled = begin + SETTLED
    excess = (run.streams[settled:] / run.best_streams[settled:] - 1.0).mean()
    still = constant(scene).utility[begin:].clamp(min=WORST)
    return Score(
        utility=float(utility.mean()),
        constant=float(still.mean()),
        converged=float(converged(utility).median()),
        excess=float(excess),
    )


def converged(utility: Tensor) -> Tensor:
    """The first interval from which on ten together reach nine tenths, `[agents]`; the number of intervals if none."""
    means = utility.unfold(0, SETTLED, 1).mean(-1)
    good = torch.cat([means >= GOOD, torch.ones_like(means[:1], dtype=torch.bool)])
    return good.float().argmax(0).float()


def together(policy: Policy, copies: int) -> Together:
    """Three agents that join one after another."""
    run = steered(policy, team(Dice(HELD_OUT + 7), copies))
    fill = 15.0
    found = []
    for agents, end in ((2, JOINS[2]), (TEAM, TOGETHER)):
        part = slice(end - TOGETHER_FOR, end)
        rates = run.rate[part].mean(0).view(copies, TEAM)[:, :agents]
        jain = rates.sum(1) ** 2 / (agents * (rates**2).sum(1))
        streams = run.streams[part].view(TOGETHER_FOR, copies, TEAM)[:, :, :agents].sum(2)
        found.append((float(jain.mean()), float(streams.mean()) / fill))
    (jain_two, load_two), (jain_three, load_three) = found
    return Together(jain_two=jain_two, jain_three=jain_three, load_two=load_two, load_three=load_three)


def kept_by(policy: Policy, tenants: int, copies: int) -> float:
    """What so many streams of others keep of their fair share, on paths that 15 streams fill."""
    scene = beside(float(tenants))(Dice(HELD_OUT + 8), copies)
    run = steered(policy, scene)
    streams = run.streams[SETTLED:]
    total = streams + tenants
    carried = (total / 15.0).clamp(max=1.0)
    return float((carried * tenants / total).mean()) / min(0.5, tenants / 15.0)


def rounded(values: dict[str, float]) -> dict[str, float]:
    """The same with three decimals."""
    return {name: round(value, 3) for name, value in values.items()}

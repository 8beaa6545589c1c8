"""The generalist policy and the pilot that steers transfers by it: the policy proposes, a probe now and then looks up.

`core/src/optimizer/generalist` does the same in the same order.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from edt.training.generalist.features import INPUTS, RISE, Features
from edt.training.generalist.paths import MOST
from edt.training.generalist.simulator import Observed
from edt.training.networks import dense

WIDTH = 64
STEP = math.log(4.0)
"""Most change of the streams in an interval, either way, as a logarithm."""
ROOM = 1.1
"""No more streams than this over ln K: even where each brings as much as the first, more than 1 / ln K never pay."""
OBSERVED = 0.5
"""What is left of gradients that flow back through observations."""

PROBE = 1.3
"""What a probe multiplies the streams by."""
STARVED_PROBE = 2.0
"""The same where the rate has fallen for a while."""
STARVED = math.log(0.3)
"""The share of the highest rate, as a logarithm, below which it has."""
PATIENCE = 3.0
"""Intervals below it before the probe."""
GAP, SOON, LONGEST, BACK_OFF = 10.0, 3.0, 40.0, 1.5
"""Intervals between probes: at first, after one that found more, at most, and their growth with each that did not."""
GAIN = 0.5
"""A probe has found more if it gains this part, at least, of what its streams would bring in proportion."""
STEADY = 0.1
"""Probes wait until the streams change by no more than this part, or by one."""


class Policy(nn.Module):
    """Inputs -> 64 tanh -> a gated recurrent cell of 64 -> one number: the change of the streams."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(INPUTS, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)
        # The first steps are then small for every input.
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The answers `[agents]` to inputs `[agents, 18]`, and the hidden state `[agents, 64]` after them."""
        hidden = self.cell(torch.tanh(self.embed(inputs)), hidden)
        answer: Tensor = self.head(hidden).squeeze(-1)
        return answer, hidden

    @staticmethod
    def layers() -> list[dict[str, Any]]:
        """The same as a list of layers with the names of their tensors, as agent files hold it."""
        cell = {name: f"cell.{name}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        return [dense("embed"), {"kind": "tanh"}, {"kind": "gru", **cell}, dense("head")]


class Pilot:
    """Decides for some agents; tensors of `[agents]`."""

    def __init__(self, policy: Policy, price: Tensor) -> None:
        agents = len(price)
        self.policy, self.price = policy, price
        self.most = (ROOM / price).clamp(max=float(MOST)).floor()
        self.features = Features(agents)
        self.hidden = torch.zeros(agents, WIDTH)
        self.target = torch.zeros(agents)
        """What the policy asks for, as the logarithm of a number that need not be whole."""
        self.step = torch.zeros(agents)
        """Its last change."""
        self.inputs = torch.zeros(agents, INPUTS)
        """What the policy saw last."""
        self._gap = torch.full((agents,), GAP)
        self._starved = torch.zeros(agents)
        self._from = torch.zeros(agents)
        self._before = torch.zeros(agents)

    def decide(self, seen: Observed, first: Tensor | None = None) -> Tensor:
        """The streams for the next interval; those in `first` have just begun."""
        streams = seen.streams.log()
        if first is not None:
            self._begin(first, streams)
        near = torch.maximum(torch.minimum(self.target, streams + STEP), streams - STEP)
        inputs = self.features.vector(seen, near, self.price, first)
        self.inputs = OBSERVED * inputs + (1.0 - OBSERVED) * inputs.detach()
        answer, self.hidden = self.policy(self.inputs, self.hidden)
        wanted = torch.minimum((near + STEP * torch.tanh(answer)).clamp(min=0.0), self.most.log())
        found = self._judged(seen.streams.detach())
        wanted = torch.where(found, torch.maximum(wanted, streams), wanted)
        self.step, self.target = wanted - near, wanted
        return self._asked(seen.streams.detach())

    def detach(self) -> None:
        """Ends the way of gradients into earlier intervals."""
        self.features.detach()
        self.hidden, self.target, self.step = self.hidden.detach(), self.target.detach(), self.step.detach()

    def _begin(self, first: Tensor, streams: Tensor) -> None:
        self.target = torch.where(first, streams, self.target)
        self.hidden = torch.where(first[:, None], torch.zeros_like(self.hidden), self.hidden)
        self._gap = torch.where(first, GAP, self._gap)
        self._starved = torch.where(first, 0.0, self._starved)
        self._from = torch.where(first, 0.0, self._from)

    def _judged(self, streams: Tensor) -> Tensor:
        """Who has just probed and found more; probes that were not applied count for nothing."""
        probed = (self._from > 0) & (streams > RISE * self._from)
        origin = self._from.clamp(min=1.0)
        more = (streams / origin).log()
        gain = self.features.last_rate.detach() - self._before
        found = probed & (gain > torch.maximum(GAIN * more, self.price * (streams - origin)))
        longer = (BACK_OFF * self._gap).clamp(max=LONGEST)
        self._gap = torch.where(probed, torch.where(found, SOON, longer), self._gap)
        self._from = torch.zeros_like(self._from)
        return found

    def _asked(self, streams: Tensor) -> Tensor:
        """The target, rounded, or a probe beyond it; gradients flow as if nothing were rounded."""
        real = self.target.exp()
        whole = real.detach().round()
        features = self.features
        low = features.last_rate.detach() < features.most_rate.detach() + STARVED
        self._starved = torch.where(low, self._starved + 1.0, 0.0)
        starved = self._starved == PATIENCE
        factor = torch.where(starved, STARVED_PROBE, PROBE)
        tried = torch.maximum((factor * whole).round(), whole + 1.0)
        pays = (tried / whole).log() > self.price * (tried - whole)
        steady = (whole - streams).abs() <= (STEADY * streams).clamp(min=1.0)
        due = (starved | (features.quiet >= self._gap)) & steady & pays & (tried <= self.most)
        self._from = torch.where(due, streams, 0.0)
        # The moving average is steadier than the last interval, but lags behind a fall.
        steadier = features.level.detach() + streams.log()
        self._before = torch.where(starved, features.last_rate.detach(), steadier)
        asked = torch.where(due, tried, whole)
        return asked + (real - real.detach()) * asked / whole

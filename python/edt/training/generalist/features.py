"""What the policy sees of its observations: ratios, so that the scale of a path does not matter.

`core/src/optimizer/generalist/features.rs` computes the same in the same order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edt.training.generalist.paths import FAIR_PRICE, MOST
from edt.training.generalist.simulator import LOSS_WEIGHT, Observed

INPUTS = 18
AGEING = 0.01
"""What the logarithms of the highest values lose, and that of the lowest gains, in an interval: paths change."""
SMOOTHING = 0.8
"""What a moving average keeps of itself in an interval."""
RISE = 1.1
"""Streams beyond so many times their moving average look upwards."""
BOUND = 5.0
"""Inputs lie between its negative and itself."""
LEAST_LOSS = 1e-5
LEAST_WORTH = 0.01
"""The worth of a byte, after the price of streams and loss, counts as this at least."""


class Features:
    """The inputs of the policy for some agents, and what they remember for them; tensors of `[agents]`."""

    def __init__(self, agents: int) -> None:
        zeros = torch.zeros(agents)
        self.age = zeros
        """Observations so far."""
        self.last_rate = zeros
        self.last_streams = zeros
        self.most_rate = zeros
        """The highest rate lately, like all that follows as a natural logarithm unless said otherwise."""
        self.most_share = zeros
        """The highest rate of a stream lately."""
        self.most_utility = zeros
        self.best_streams = zeros
        """The streams that had it."""
        self.least_loss = zeros
        self.level = zeros
        """Moving average of the rate of a stream."""
        self.usual = zeros
        """Moving average of the streams, as a number."""
        self.quiet = zeros
        """Intervals since the streams were far above it, as a number."""

    def vector(self, seen: Observed, target: Tensor, price: Tensor, first: Tensor | None) -> Tensor:
        """The inputs `[agents, 18]`; `target` is what the policy asked for last, as a logarithm.

        Those in `first` observe for the first time. The inputs are explained in `docs/agents.md`.
        """
        rate, streams = seen.rate.log(), seen.streams.log()
        share = rate - streams
        worth = (-price * seen.streams).exp() - LOSS_WEIGHT * seen.loss
        utility = rate + worth.clamp(min=LEAST_WORTH).log()
        loss = (seen.loss + LEAST_LOSS).log()
        if first is not None:
            self._begin(first, seen.streams, (rate, streams, share, utility, loss))
        self.most_rate = torch.maximum(self.most_rate - AGEING, rate)
        self.most_share = torch.maximum(self.most_share - AGEING, share)
        better = utility >= self.most_utility - AGEING
        self.most_utility = torch.where(better, utility, self.most_utility - AGEING)
        self.best_streams = torch.where(better, streams, self.best_streams)
        self.least_loss = torch.minimum(self.least_loss + AGEING, loss)
        rises = seen.streams > RISE * self.usual
        self.quiet = torch.where(rises, torch.zeros_like(self.quiet), self.quiet + 1.0)
        inputs = (
            rate - self.most_rate,
            streams / math.log(MOST),
            rate - self.last_rate,
            streams - self.last_streams,
            share - self.most_share,
            price * seen.streams,
            (1000.0 * seen.loss).log1p() / 3.0,
            (self.age == 0).float(),
            utility - self.most_utility,
            streams - self.best_streams,
            self.most_rate - self.most_share - streams,
            (price / FAIR_PRICE).log(),
            target - streams,
            (loss - self.least_loss) / 3.0,
            share - self.level,
            self.quiet.log1p() / 3.0,
            seen.told,
            (-self.age / 4.0).exp(),
        )
        self.level = SMOOTHING * self.level + (1.0 - SMOOTHING) * share
        self.usual = SMOOTHING * self.usual + (1.0 - SMOOTHING) * seen.streams
        self.last_rate, self.last_streams = rate, streams
        self.age = self.age + 1.0
        return torch.stack(inputs, 1).clamp(-BOUND, BOUND)

    def detach(self) -> None:
        """Ends the way of gradients into earlier intervals."""
        for name, value in vars(self).items():
            setattr(self, name, value.detach())

    def _begin(self, first: Tensor, count: Tensor, now: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]) -> None:
        rate, streams, share, utility, loss = now
        begun = {
            "age": torch.zeros_like(rate),
            "last_rate": rate,
            "last_streams": streams,
            "most_rate": rate,
            "most_share": share,
            "most_utility": utility,
            "best_streams": streams,
            "least_loss": loss,
            "level": share,
            "usual": count,
            "quiet": -torch.ones_like(rate),
        }
        for name, value in begun.items():
            setattr(self, name, torch.where(first, value, getattr(self, name)))

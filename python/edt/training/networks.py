"""The networks of both papers: residual policy and value networks, and the policy over discrete moves."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 256
STATE = {1: 4, 3: 8}
"""Numbers in a state, by stages [EDT §IV-D1, AutoMDT §IV-D1]."""
MOVES = (-3, -1, 0, 1, 3)
"""Changes of concurrency that the discrete variant chooses from [EDT §V-H]."""
LOG_TWO_PI = math.log(2 * math.pi)
LOG_STD = (-4.0, 1.0)
"""Bounds of the trainable log-standard-deviation."""


class NormalisedBlock(nn.Module):
    """x + LayerNorm(Linear(ReLU(LayerNorm(Linear(x))))) [EDT §IV-D3, AutoMDT §IV-D3]."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.second, self.second_norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.first_norm(self.first(x)))
        output: Tensor = x + self.second_norm(self.second(inner))
        return output


class TanhBlock(nn.Module):
    """tanh(x + Linear(tanh(Linear(x)))) [EDT §IV-D4, AutoMDT §IV-D4]."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x + self.second(torch.tanh(self.first(x))))


class PolicyNetwork(nn.Module):
    """State -> 256 tanh -> 3 residual blocks -> tanh -> one output for each stage or move [EDT §IV-D3]."""

    def __init__(self, state: int, outputs: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Linear(state, width)
        self.blocks = nn.ModuleList(NormalisedBlock(width) for _ in range(3))
        self.head = nn.Linear(width, outputs)
        # The first actions are then near the middle of the range for every state.
        nn.init.orthogonal_(self.head.weight, 0.01)
        nn.init.zeros_(self.head.bias)

    def forward(self, state: Tensor) -> Tensor:
        x = torch.tanh(self.embed(state))
        for block in self.blocks:
            x = block(x)
        output: Tensor = self.head(torch.tanh(x))
        return output

    def layers(self) -> list[dict[str, Any]]:
        """The same as a list of layers with the names of their tensors, as agent files hold it."""
        blocks = [
            {
                "kind": "residual",
                "layers": [
                    dense(f"blocks.{index}.first"),
                    layer_norm(f"blocks.{index}.first_norm"),
                    {"kind": "relu"},
                    dense(f"blocks.{index}.second"),
                    layer_norm(f"blocks.{index}.second_norm"),
                ],
            }
            for index in range(len(self.blocks))
        ]
        return [dense("embed"), {"kind": "tanh"}, *blocks, {"kind": "tanh"}, dense("head")]


class ValueNetwork(nn.Module):
    """State -> 256 tanh -> 2 residual blocks with tanh -> the expected return [EDT §IV-D4]."""

    def __init__(self, state: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Linear(state, width)
        self.blocks = nn.Sequential(TanhBlock(width), TanhBlock(width))
        self.head = nn.Linear(width, 1)

    def forward(self, state: Tensor) -> Tensor:
        value: Tensor = self.head(self.blocks(torch.tanh(self.embed(state)))).squeeze(-1)
        return value


class ContinuousPolicy(nn.Module):
    """A normal distribution over real-valued concurrency, one for each stage [EDT §IV-D2].

    An action a stands for the concurrency (0.5 + 0.5 a) * most; 0 is the middle of the range.
    """

    def __init__(self, state: int, stages: int, most: int, log_std: float) -> None:
        super().__init__()
        self.network = PolicyNetwork(state, stages)
        self.log_std = nn.Parameter(torch.full((stages,), float(log_std)))
        self.most = most

    def log_probability(self, states: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of actions [states, stages] and the entropy, both [states]."""
        mean, log_std = self.network(states), self.log_std.clamp(*LOG_STD)
        entropy = (log_std + 0.5 * (1 + LOG_TWO_PI)).sum().expand(len(mean))
        return normal(actions, mean, log_std), entropy

    def sample(self, states: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Actions drawn from the distribution, and their log-probabilities."""
        mean, log_std = self.network(states), self.log_std.clamp(*LOG_STD)
        actions = mean + log_std.exp() * torch.randn(mean.shape, generator=generator)
        return actions, normal(actions, mean, log_std)

    def best(self, states: Tensor) -> Tensor:
        """The mean actions."""
        mean: Tensor = self.network(states)
        return mean

    def concurrency(self, actions: Tensor, states: Tensor) -> Tensor:
        """What actions ask for, rounded and clamped to [1, most]: round(N(mu, sigma)) [EDT §IV-E3]."""
        del states
        return ((0.5 + 0.5 * actions) * self.most).round().clamp(1, self.most)

    def action_form(self) -> dict[str, Any]:
        """As agent files describe it."""
        return {"form": "continuous", "maximum": self.most}

    def spread(self) -> list[float]:
        """The log-standard-deviation of each action."""
        values: list[float] = self.log_std.detach().clamp(*LOG_STD).tolist()
        return values


class DiscretePolicy(nn.Module):
    """A choice among five changes of concurrency: the paper's ablation, and the DRL baseline [EDT §V-H]."""

    def __init__(self, state: int, most: int) -> None:
        super().__init__()
        self.network = PolicyNetwork(state, len(MOVES))
        self.most = most

    def log_probability(self, states: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of actions [states, 1], the numbers of moves, and the entropy, both [states]."""
        log = torch.log_softmax(self.network(states), -1)
        return log.gather(-1, actions.long()).squeeze(-1), -(log.exp() * log).sum(-1)

    def sample(self, states: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Moves drawn by their probability, as numbers from 0 to 4, and their log-probabilities."""
        log = torch.log_softmax(self.network(states), -1)
        moves = torch.multinomial(log.exp(), 1, generator=generator)
        return moves.float(), log.gather(-1, moves).squeeze(-1)

    def best(self, states: Tensor) -> Tensor:
        """The most likely moves."""
        move: Tensor = self.network(states).argmax(-1, keepdim=True).float()
        return move

    def concurrency(self, actions: Tensor, states: Tensor) -> Tensor:
        """The concurrency in the states, which is their second number, moved and clamped to [1, most]."""
        now = states[:, 1:2] * self.most
        return (now + torch.tensor(MOVES)[actions.long()]).round().clamp(1, self.most)

    def action_form(self) -> dict[str, Any]:
        """As agent files describe it."""
        return {"form": "discrete", "moves": list(MOVES), "maximum": self.most, "first": 4}

    def spread(self) -> None:
        """None: moves have probabilities."""


Policy = ContinuousPolicy | DiscretePolicy


def normal(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """The log-density of a diagonal normal distribution, summed over its last axis."""
    return (-0.5 * ((x - mean) / log_std.exp()) ** 2 - log_std - 0.5 * LOG_TWO_PI).sum(-1)


def dense(name: str) -> dict[str, Any]:
    """A linear layer of an agent file."""
    return {"kind": "dense", "weight": f"{name}.weight", "bias": f"{name}.bias"}


def layer_norm(name: str) -> dict[str, Any]:
    """A layer normalisation of an agent file."""
    return {"kind": "layer_norm", "weight": f"{name}.weight", "bias": f"{name}.bias", "eps": 1e-5}

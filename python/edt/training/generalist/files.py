"""The files of a trained policy: the policy itself, its report, and a record that the core's evaluation is held to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from edt.training.agent_file import FORMAT, KEY, replace
from edt.training.generalist.assess import Assessment
from edt.training.generalist.paths import Dice, draw
from edt.training.generalist.policy import Pilot, Policy
from edt.training.generalist.simulator import Simulator
from edt.training.generalist.train import Trained

POLICY, REPORT, RECORD = "policy.safetensors", "report.json", "record.safetensors"
RECORDED = (8, 60)
"""Paths and intervals of the record."""
RECORD_SEED = 2 * 10**9


def save(trained: Trained, assessment: Assessment, folder: Path) -> None:
    """Writes the three files; each that is there is replaced at once and as a whole."""
    told = {"format": FORMAT, "kind": "generalist", "network": Policy.layers(), "training": trained.report()}
    metadata = {KEY: json.dumps(told, allow_nan=False)}
    replace(folder / POLICY, safetensors.torch.save(tensors(trained.policy), metadata))
    replace(folder / RECORD, safetensors.torch.save(record(trained.policy)))
    report = {"training": trained.report(), "curve": curve(trained), **assessment.to_dict()}
    replace(folder / REPORT, (json.dumps(report, indent=2, allow_nan=False) + "\n").encode())


def load(folder: Path) -> tuple[Policy, dict[str, Any]]:
    """The policy of a folder, and what its file says of it."""
    with safetensors.safe_open(folder / POLICY, "pt") as opened:
        told: dict[str, Any] = json.loads(opened.metadata()[KEY])
    policy = Policy()
    policy.load_state_dict(safetensors.torch.load_file(folder / POLICY))
    return policy, told


def tensors(policy: Policy) -> dict[str, Tensor]:
    """The weights by name."""
    return {name: tensor.contiguous() for name, tensor in policy.state_dict().items()}


def curve(trained: Trained) -> list[dict[str, float]]:
    """Reward and share of the best utility, in twenty parts of the training."""
    width = max(1, len(trained.curve) // 20)
    parts = [trained.curve[begin : begin + width] for begin in range(0, len(trained.curve), width)]
    return [
        {
            "episode": part[-1].episode,
            "reward": round(sum(point.reward for point in part) / len(part), 4),
            "utility": round(sum(point.utility for point in part) / len(part), 4),
        }
        for part in parts
    ]


@torch.no_grad()
def record(policy: Policy) -> dict[str, Tensor]:
    """Observations on some paths, `[paths, intervals]`, and what the policy saw, wanted and asked for."""
    paths, members = draw(Dice(RECORD_SEED), RECORDED[0], 0, RECORDED[1])
    simulator = Simulator(paths, members, Dice(RECORD_SEED + 1))
    pilot = Pilot(policy, simulator.price)
    asked, rows = members.start, []
    for interval in range(RECORDED[1]):
        seen, _ = simulator.step(interval, asked)
        asked = pilot.decide(seen, simulator.joins(interval))
        rows.append((seen.rate, seen.streams, seen.loss, seen.told, pilot.inputs, pilot.target, asked))
    names = ("rate", "streams", "loss", "told", "inputs", "target", "asked")
    columns = (torch.stack(column, 1).contiguous() for column in zip(*rows, strict=True))
    return {"price": simulator.price, **dict(zip(names, columns, strict=True))}

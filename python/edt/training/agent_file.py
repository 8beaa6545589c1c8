"""Writes a trained agent as safetensors, which the core evaluates by itself, or as ONNX."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from edt.training.path import STAGES
from edt.training.ppo import Trained

KEY = "edt.agent"
"""The key of the metadata under which both formats hold the description."""
FORMAT = 1
LOSS_WEIGHT = 10.0
"""B of the utility [EDT §V]."""


def save(trained: Trained, file: str | os.PathLike[str]) -> None:
    """Writes the agent file; one that is there is replaced at once and as a whole."""
    tensors = {name: tensor.contiguous() for name, tensor in trained.policy.network.state_dict().items()}
    text = json.dumps(description(trained) | {"network": trained.policy.network.layers()}, allow_nan=False)
    replace(Path(file), safetensors.torch.save(tensors, {KEY: text}))


def save_onnx(trained: Trained, file: str | os.PathLike[str]) -> None:
    """Writes the policy's network as an ONNX model: input `observation` [1, state], output `action` [1, outputs]."""
    import onnx

    size = trained.policy.network.embed.in_features
    program = torch.onnx.export(
        trained.policy.network.eval(),
        (torch.zeros(1, size),),
        input_names=["observation"],
        output_names=["action"],
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    onnx.helper.set_model_props(model, {KEY: json.dumps(description(trained), allow_nan=False)})
    replace(Path(file), model.SerializeToString())


def description(trained: Trained) -> dict[str, Any]:
    """All that the core has to know beside the weights."""
    return {
        "format": FORMAT,
        "kind": trained.kind,
        "stages": trained.path.stages,
        "observation": observation(trained),
        "action": trained.policy.action_form(),
        "log_std": trained.policy.spread(),
        "k": trained.path.k,
        "loss_weight": LOSS_WEIGHT,
        "path": trained.path.to_dict(),
        "training": trained.report(),
    }


def observation(trained: Trained) -> list[dict[str, Any]]:
    """The inputs of the network: names, and what each is divided by. The order is that of the simulator's states."""
    rate, most = trained.path.bottleneck, float(trained.policy.most)
    if trained.path.stages == 1:
        scales = {"throughput": rate, "concurrency": most, "throughput_change": rate, "concurrency_change": most}
    else:
        scales = {"buffer_free_sender": 1.0, "buffer_free_receiver": 1.0}
        scales |= {f"throughput_{stage}": rate for stage in STAGES}
        scales |= {f"concurrency_{stage}": most for stage in STAGES}
    return [{"name": name, "offset": 0.0, "scale": scale} for name, scale in scales.items()]


def replace(file: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)

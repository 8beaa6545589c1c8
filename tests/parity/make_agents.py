"""Makes the agent files of `core/tests/agents`: small random networks, and what PyTorch makes of random inputs.

`python tests/parity/make_agents.py core/tests/agents` writes them. The files hold every kind of layer; `golden.input`
and `golden.output` are `[vectors, inputs]` and `[vectors, outputs]`, to be evaluated in order, since a recurrent cell
remembers.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

VECTORS = 32

ONE_STAGE = [("throughput", 125e6), ("concurrency", 64.0), ("throughput_change", 125e6), ("concurrency_change", 64.0)]
THREE_STAGES = [
    ("buffer_free_sender", 1.0),
    ("buffer_free_receiver", 1.0),
    ("throughput_read", 125e6),
    ("throughput_network", 125e6),
    ("throughput_write", 125e6),
    ("concurrency_read", 64.0),
    ("concurrency_network", 64.0),
    ("concurrency_write", 64.0),
]
CONTINUOUS: dict[str, Any] = {"form": "continuous", "maximum": 64}
DISCRETE: dict[str, Any] = {"form": "discrete", "moves": [-3, -1, 0, 1, 3], "maximum": 64, "first": 4}


class Residual(nn.Module):
    """Adds its input to what its layers make of it."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Takes and gives `[vectors, width]`."""
        added: Tensor = x + self.layers(x)
        return added


class Recurrent(nn.Module):
    """A recurrent cell that begins with zeros and remembers from one call to the next."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(inputs, hidden)
        self.state = torch.zeros(1, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Takes one vector `[1, inputs]`, gives `[1, hidden]`."""
        self.state = self.cell(x, self.state)
        return self.state


def papers_network(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """The policy network of the papers [EDT §IV-D3] [AutoMDT §IV-D3], of any width."""

    def block() -> Residual:
        first, second = nn.Linear(width, width), nn.Linear(width, width)
        return Residual(first, nn.LayerNorm(width), nn.ReLU(), second, nn.LayerNorm(width))

    blocks = [block() for _ in range(3)]
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), *blocks, nn.Tanh(), nn.Linear(width, outputs))


def recurrent_network(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """A network with memory, and with a residual block within another."""
    inner = Residual(nn.Linear(width, width), nn.Tanh())
    outer = Residual(inner, nn.LayerNorm(width, eps=1e-3))
    return nn.Sequential(nn.Linear(inputs, width), outer, Recurrent(width, width), nn.Linear(width, outputs))


def fill(network: nn.Module, seed: int) -> None:
    """Gives every parameter random values; Python's generator gives the same on every machine and version."""
    source = random.Random(seed)
    for module in network.modules():
        for name, parameter in module.named_parameters(recurse=False):
            low, high = -(parameter.shape[-1] ** -0.5), parameter.shape[-1] ** -0.5
            if isinstance(module, nn.LayerNorm):
                low, high = (0.5, 1.5) if name == "weight" else (-0.2, 0.2)
            values = [source.uniform(low, high) for _ in range(parameter.numel())]
            parameter.data.copy_(torch.tensor(values).reshape(parameter.shape))


def described(network: nn.Sequential, place: str = "") -> list[dict[str, Any]]:
    """The list of layers as an agent file writes it."""
    return [layer_of(module, f"{place}{index}.") for index, module in enumerate(network)]


def layer_of(module: nn.Module, place: str) -> dict[str, Any]:
    """One layer; `place` is the prefix of its tensors."""
    match module:
        case nn.Linear():
            return {"kind": "dense", "weight": f"{place}weight", "bias": f"{place}bias"}
        case nn.LayerNorm():
            return {"kind": "layer_norm", "weight": f"{place}weight", "bias": f"{place}bias", "eps": module.eps}
        case nn.Tanh():
            return {"kind": "tanh"}
        case nn.ReLU():
            return {"kind": "relu"}
        case Residual():
            return {"kind": "residual", "layers": described(module.layers, f"{place}layers.")}
        case Recurrent():
            names = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}
            return {"kind": "gru", **{name: f"{place}cell.{name}" for name in sorted(names)}}
    raise TypeError(f"an agent has no layer `{module}`")


def description(kind: str, network: nn.Sequential) -> dict[str, Any]:
    """What an agent file says of itself."""
    features = THREE_STAGES if kind == "automdt" else ONE_STAGE
    stages = 3 if kind == "automdt" else 1
    return {
        "format": 1,
        "kind": kind,
        "stages": stages,
        "observation": [{"name": name, "offset": 0.0, "scale": scale} for name, scale in features],
        "action": DISCRETE if kind == "drl" else CONTINUOUS,
        "network": described(network),
        "log_std": None if kind == "drl" else [-1.2] * stages,
        "k": 1.02,
        "loss_weight": 10.0,
        "path": {"source": "zero:", "destination": "null:"},
        "training": {"made_by": "tests/parity/make_agents.py", "episodes": 0},
    }


def agent_file(kind: str, network: nn.Sequential, seed: int) -> bytes:
    """A whole agent file with its golden vectors."""
    fill(network, seed)
    source = random.Random(seed + 1)
    inputs = len(THREE_STAGES if kind == "automdt" else ONE_STAGE)
    rows = torch.tensor([[source.uniform(-2.0, 2.0) for _ in range(inputs)] for _ in range(VECTORS)])
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    with torch.no_grad():
        outputs = torch.cat([network(row[None]) for row in rows])
    golden = {"golden.input": rows, "golden.output": outputs}
    text = json.dumps(description(kind, network))
    return bytes(save({**tensors, **golden}, metadata={"edt.agent": text}))


def onnx_file(kind: str, network: nn.Sequential) -> bytes:
    """The same network as users export their own, with the description in the model's metadata."""
    import onnx

    inputs = len(THREE_STAGES if kind == "automdt" else ONE_STAGE)
    names: dict[str, Any] = {"input_names": ["observation"], "output_names": ["action"]}
    network.eval()
    program = torch.onnx.export(network, (torch.zeros(1, inputs),), dynamo=True, verbose=False, **names)
    assert program is not None
    model: Any = program.model_proto
    # The exporter notes where in which file each operation was written.
    for noted in [model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output]:
        noted.ClearField("metadata_props")
        noted.ClearField("doc_string")
    told = description(kind, network)
    del told["network"]
    onnx.helper.set_model_props(model, {"edt.agent": json.dumps(told)})
    return bytes(model.SerializeToString(deterministic=True))


def agents() -> dict[str, bytes]:
    """All files, by name."""
    return {
        "edt.safetensors": agent_file("edt", papers_network(4, 24, 1), 1),
        "automdt.safetensors": agent_file("automdt", papers_network(8, 16, 3), 3),
        "drl.safetensors": agent_file("drl", papers_network(4, 16, 5), 5),
        "recurrent.safetensors": agent_file("edt", recurrent_network(4, 16, 1), 7),
    }


def onnx_agents() -> dict[str, bytes]:
    """Those in ONNX, by name; needs `onnx` and `onnxscript`."""
    network = papers_network(4, 24, 1)
    fill(network, 1)
    return {"edt.onnx": onnx_file("edt", network)}


if __name__ == "__main__":
    for name, content in {**agents(), **onnx_agents()}.items():
        Path(sys.argv[1], name).write_bytes(content)

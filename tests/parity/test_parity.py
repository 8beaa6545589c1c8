"""The agent files that the core is tested with are what PyTorch makes of the networks in `make_agents`, today too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

from make_agents import agents, onnx_agents  # noqa: E402

COMMITTED = Path(__file__).parents[2] / "core" / "tests" / "agents"


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return agents()


def header(content: bytes) -> Any:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length])


@pytest.mark.parametrize("name", ["edt", "automdt", "drl", "recurrent"])
def test_a_committed_file_is_what_pytorch_makes(made: dict[str, bytes], name: str) -> None:
    committed, fresh = (COMMITTED / f"{name}.safetensors").read_bytes(), made[f"{name}.safetensors"]
    assert header(committed) == header(fresh)
    old, new = safetensors.load(committed), safetensors.load(fresh)
    assert old.keys() == new.keys()
    for tensor in old:
        tolerance = 1e-6 if tensor == "golden.output" else 0.0
        assert torch.allclose(old[tensor], new[tensor], rtol=0.0, atol=tolerance), tensor


def test_the_files_are_small_and_there_is_no_other(made: dict[str, bytes]) -> None:
    there = {path.name for path in COMMITTED.glob("*.safetensors")}
    assert there == made.keys()
    assert all(len(content) < 50 << 10 for content in made.values())


def test_the_committed_onnx_file_holds_what_pytorch_exports() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")

    def weights(content: bytes) -> list[Any]:
        model = onnx.load_model_from_string(content)
        arrays = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
        # Versions of the exporter order and name them as they like.
        return sorted(array.ravel().tolist() for array in arrays if array.dtype == "float32" and array.size > 1)

    fresh = onnx_agents()["edt.onnx"]
    assert weights((COMMITTED / "edt.onnx").read_bytes()) == weights(fresh)

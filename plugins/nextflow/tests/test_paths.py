"""Inputs and results over an emulated long path, with a secret that a file holds."""

from __future__ import annotations

from pathlib import Path

import emulated
import pytest
from emulated import missing

from harness import MIB, SECRET, Edt, Server, fill
from pipeline import Pipeline

SCRIPT = """
process take { publishDir 'URL/out', mode: 'copy', saveAs: { it.substring(7) }
    input:
    path 'in/*'
    path large
    output: path 'copies/*'
    script: "mkdir copies; cp -L in/* large copies/" }
workflow { take(Channel.fromPath('URL/in/*').collect(), file('URL/large')) }
"""


def test_inputs_and_results_cross_a_long_path_with_a_token_file(edt: Edt, scratch: Path, pipeline: Pipeline) -> None:
    if why := missing():
        pytest.skip(f"no path can be emulated here: {why}")
    root = scratch / "served"
    fill(root / "large", 24 * MIB, "large")
    for number in range(50):
        fill(root / "in" / f"f{number}", 64 * 1024, number)
    token = pipeline.folder / "token"
    token.write_text(SECRET + "\n")
    token.chmod(0o600)
    del pipeline.environment["EDT_TOKEN"]
    pipeline.configure("edt.tokenFile = 'token'")
    with emulated.Path.start("cloudlab") as path:
        server = Server(edt, root, host=path.far.address, within=path.command("far", []))
        try:
            pipeline.before = tuple(path.command("near", []))
            run = pipeline.run(SCRIPT.replace("URL", server.url().rstrip("/")))
        finally:
            server.kill()
    assert run.staged() == 51
    results = {file.name: file.read_bytes() for file in (root / "out").iterdir()}
    assert len(results) == 51
    assert results.pop("large") == (root / "large").read_bytes()
    assert len({len(content) for content in results.values()}) == 1
    assert set(results.values()) == {file.read_bytes() for file in (root / "in").iterdir()}

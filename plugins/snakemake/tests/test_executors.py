"""Jobs that run elsewhere: a cluster without a shared file system, groups of jobs, and Slurm."""

from __future__ import annotations

import shutil
import stat
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import MIB, fill
from workflow import Workflow

RULES = """
    rule all:
        input: expand("out/{n}.txt", n=range(3))

    rule each:
        input: "shared.bin"
        output: "out/{n}.txt"
        shell: "sha256sum < {input} > {output}"
"""

GROUPED = """
    rule all:
        input: expand("last/{n}.txt", n=range(4))

    rule first:
        input: "in/{n}.txt"
        output: "first/{n}.txt"
        group: "both"
        shell: "cat {input} > {output}"

    rule second:
        input: "first/{n}.txt"
        output: "last/{n}.txt"
        group: "both"
        shell: "cat {input} {input} > {output}"
"""


@pytest.fixture
def cluster(scratch: Path, workflow: Workflow) -> Iterator[list[str]]:
    """Options for a cluster whose jobs run in directories of their own, with the rules and nothing else."""
    token = scratch / "token"
    token.write_text(workflow.server.edt.environment["EDT_TOKEN"])
    token.chmod(0o600)
    submit = script(
        scratch / "submit",
        f"""\
        node=$(mktemp -d {scratch}/node-XXXXXX)
        cp "$1" $node/job && cp Snakefile $node && cd $node
        alone="env -i PATH={Path(sys.executable).parent}:$PATH HOME=$node"
        run() {{ $alone sh $node/job > $node/log 2>&1; echo $? > $node/code; }}
        run > /dev/null 2>&1 &
        basename $node
        """,
    )
    status = script(
        scratch / "status",
        f"""\
        code=$(cat {scratch}/$1/code 2> /dev/null)
        case "$code" in "") echo running;; 0) echo success;; *) echo failed;; esac
        """,
    )
    yield [
        *("--executor", "cluster-generic", "--cluster-generic-submit-cmd", str(submit), "--jobs", "4"),
        *("--cluster-generic-status-cmd", str(status), "--seconds-between-status-checks", "1"),
        *("--shared-fs-usage", "none", "--storage-edt-token-file", str(token)),
    ]
    print(logs(scratch))


def script(path: Path, text: str) -> Path:
    """Writes a program of the shell."""
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def logs(scratch: Path) -> str:
    """What all jobs printed."""
    return "".join(path.read_text(errors="replace") for path in scratch.glob("node-*/log"))


def test_jobs_of_one_node_fetch_their_input_once(workflow: Workflow, cluster: list[str], scratch: Path) -> None:
    fill(workflow.data / "shared.bin", 8 * MIB, 5)
    workflow.rules(RULES)
    workflow.run(*cluster, "--storage-edt-cache-dir", str(scratch / "cache"))
    assert {(workflow.data / f"out/{n}.txt").stat().st_size for n in range(3)} == {68}
    said = logs(scratch)
    assert said.count("8.4 MB in ") == 1, said


def test_the_secret_reaches_jobs_by_its_file_alone(workflow: Workflow, cluster: list[str], scratch: Path) -> None:
    fill(workflow.data / "shared.bin", 1000, 6)
    workflow.rules(RULES)
    outcome = workflow.run(*cluster)
    secret = workflow.server.edt.environment["EDT_TOKEN"]
    scripts = "".join(path.read_text() for path in scratch.glob("node-*/job"))
    assert "--storage-edt-token-file" in scripts
    assert secret not in scripts + outcome.log + logs(scratch)


def test_a_group_of_jobs_stores_and_retrieves_together(workflow: Workflow, cluster: list[str], scratch: Path) -> None:
    for number in range(4):
        workflow.put(f"in/{number}.txt", f"{number}")
    workflow.rules(GROUPED)
    workflow.run(*cluster, "--group-components", "both=4")
    assert [(workflow.data / f"last/{n}.txt").read_text() for n in range(4)] == ["00", "11", "22", "33"]
    said = logs(scratch)
    assert said.count("edt: 4 files") >= 3, said


def test_slurm_runs_jobs_with_the_plugin(workflow: Workflow, scratch: Path) -> None:
    if shutil.which("sbatch") is None or shutil.which("slurmctld") is None:
        pytest.skip("Slurm is not installed (slurm-wlm, munge)")
    pytest.importorskip("snakemake_executor_plugin_slurm")
    from slurm import running

    fill(workflow.data / "shared.bin", 8 * MIB, 7)
    workflow.rules(RULES)
    with running(scratch) as environment:
        options = ["--executor", "slurm", "--jobs", "3", "--storage-edt-cache-dir", str(scratch / "cache")]
        workflow.run(*options, environment=environment)
    assert {(workflow.data / f"out/{n}.txt").stat().st_size for n in range(3)} == {68}

"""Jobs that run elsewhere: a cluster without a shared file system, groups of jobs, and Slurm."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import MIB, fill, wait_until
from slurm import running
from workflow import ENOUGH, Workflow, ended, journaled

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


@pytest.fixture
def slurm(scratch: Path) -> Iterator[dict[str, str]]:
    """The environment in which the commands of a Slurm of one node find it."""
    if missing := [name for name in ("sbatch", "slurmctld", "slurmd", "munged") if not installed(name)]:
        pytest.skip(f"{', '.join(missing)}: not installed (Debian: slurm-wlm, munge)")
    if os.geteuid() != 0:
        pytest.skip("slurmctld and slurmd need the rights of root")
    pytest.importorskip("snakemake_executor_plugin_slurm")
    with running(scratch) as environment:
        # The executor takes all variables of Slurm from its jobs, and so what says where the configuration is.
        (scratch / "bin").mkdir()
        configuration = environment["SLURM_CONF"]
        script(scratch / "bin/srun", f'SLURM_CONF={configuration} exec {shutil.which("srun")} "$@"\n')
        # Jobs find Snakemake as the shell of a user does who activated its environment.
        path = (scratch / "bin", Path(sys.executable).parent, os.environ["PATH"])
        yield {**environment, "PATH": ":".join(map(str, path))}


def profile(scratch: Path, workflow: Workflow) -> list[str]:
    """Options for the profile of the guide, with the paths of this test."""
    guide = (Path(__file__).parents[3] / "docs/snakemake.md").read_text()
    text = guide.partition("```yaml\n")[2].partition("```")[0]
    token = scratch / "token"
    token.write_text(workflow.server.edt.environment["EDT_TOKEN"])
    token.chmod(0o600)
    for ours, theirs in (
        (workflow.server.url("data").rstrip("/"), "edt://storage.example/project"),
        (str(token), "~/.config/edt/token"),
        (str(scratch), "/scratch/$USER"),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    folder = scratch / "profile"
    folder.mkdir()
    (folder / "config.yaml").write_text(text)
    # Slurm is asked at once and often, and has no accounting.
    often = ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
    return ["--profile", str(folder), *often, "--slurm-status-command", "squeue", "--slurm-keep-successful-logs"]


def test_slurm_runs_jobs_by_the_profile_of_the_guide(slurm: dict[str, str], workflow: Workflow, scratch: Path) -> None:
    fill(workflow.data / "shared.bin", 8 * MIB, 7)
    workflow.rules(RULES)
    # What the node can expand, the jobs expand there.
    (scratch / "tmp").mkdir()
    options = profile(scratch, workflow)
    outcome = ended(workflow.start(*options, environment={**slurm, "TMPDIR": str(scratch / "tmp")}), timeout=120)
    said = "".join(path.read_text() for path in (workflow.folder / ".snakemake/slurm_logs").rglob("*.log"))
    assert outcome.code == 0, outcome.log + said
    assert {(workflow.data / f"out/{n}.txt").stat().st_size for n in range(3)} == {68}
    assert said.count("8.4 MB in ") == 1, said
    assert "8.4 MB in " not in outcome.log, "jobs fetch on their node, not the main process"
    assert not any((scratch / "tmp/snakemake").rglob("shared.bin"))


def test_slurm_jobs_that_are_cancelled_go_on_where_they_were(
    slurm: dict[str, str], workflow: Workflow, scratch: Path
) -> None:
    fill(workflow.data / "shared.bin", 48 * MIB, 8)
    workflow.rules(RULES.replace("range(3)", "range(1)"))
    (scratch / "tmp").mkdir()
    environment = {**slurm, "TMPDIR": str(scratch / "tmp")}
    options = profile(scratch, workflow)
    snakemake = workflow.start(*options, "--storage-edt-limit-rate", "12MB", environment=environment)
    lanes = scratch / "edt-cache/lanes"
    wait_until(lambda: journaled(lanes) > ENOUGH, "some of the file arrived", 60)
    subprocess.run(["scancel", "--full", "--signal=KILL", "1"], env={**os.environ, **slurm}, check=True)
    assert ended(snakemake, timeout=120).code == 1
    outcome = ended(workflow.start(*options, environment=environment), timeout=120)
    said = "".join(path.read_text() for path in (workflow.folder / ".snakemake/slurm_logs").rglob("*.log"))
    assert outcome.code == 0, outcome.log + said
    assert "resumed: " in said, said


def installed(program: str) -> bool:
    """Whether a program is there; those of servers may lie where only root looks."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is not None

"""A real Slurm of one node, which is this machine: it needs root, and the packages of Slurm and munge."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

CONFIGURATION = """\
ClusterName=edt
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs
ReturnToService=2
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName={host} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def running(scratch: Path) -> Iterator[dict[str, str]]:
    """Starts munge, the controller and the node; gives what commands of Slurm need in their environment."""
    folder = scratch / "slurm"
    for name in ("", "state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    text = CONFIGURATION.format(host=host, folder=folder, ports=[free_port(), free_port()], cpus=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    munge: list[str | Path] = ["munged", "--foreground", "--force", "--key-file", key]
    for option, name in (("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")):
        munge += [f"--{option}", folder / f"munge.{name}"]
    with ExitStack() as stack:
        stack.enter_context(daemon(munge, environment))
        wait_until((folder / "munge.socket").exists, folder)
        stack.enter_context(daemon(["slurmctld", "-D"], environment))
        stack.enter_context(daemon(["slurmd", "-D"], environment))
        wait_until(lambda: "idle" in said(["sinfo", "-h", "-o", "%t"], environment), folder)
        yield environment


@contextmanager
def daemon(command: Sequence[str | Path], environment: dict[str, str]) -> Iterator[None]:
    """A process in the foreground of its own session."""
    program = shutil.which(str(command[0])) or f"/usr/sbin/{command[0]}"
    process = subprocess.Popen(
        [program, *command[1:]],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def said(command: list[str], environment: dict[str, str]) -> str:
    """What a command printed."""
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    ).stdout


def wait_until(condition: object, folder: Path, seconds: float = 30) -> None:
    """Waits until a part of Slurm is up; shows what all of them logged if it does not come."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        logs = "".join(f"{path.name}:\n{path.read_text(errors='replace')[-1500:]}\n" for path in folder.glob("*.log"))
        assert time.monotonic() < end, logs
        time.sleep(0.1)


def free_port() -> int:
    """A port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

"""Makes one copy with one peer over one path, checks what arrived, and says what it took."""

from __future__ import annotations

import filecmp
import json
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import datasets
from paths import Ends
from peers.peer import Job, Peer, Setting
from processes import Cost, Failed, TooSlow, Workplace
from servers import Server, free_port

SAMPLES = 16
"""Files whose content is compared; of all others the names and sizes are."""


@dataclass(frozen=True)
class Data:
    """A data set that lies ready."""

    name: str
    path: Path
    size: datasets.Size


@dataclass(frozen=True)
class Copied:
    """What one copy took; one that is `slower` was stopped at `wall_s`, and its goodput is below what that makes."""

    bytes: int
    files: int
    wall_s: float
    client_cpu_s: float = 0.0
    server_cpu_s: float = 0.0
    client_mib: float = 0.0
    server_mib: float = 0.0
    slower: bool = False
    failed: str = ""

    @property
    def goodput_bps(self) -> float:
        """Bits of files per second; 0 where the copy failed."""
        return 0.0 if self.failed else 8 * self.bytes / self.wall_s

    @property
    def cpu_s_per_gb(self) -> float:
        return (self.client_cpu_s + self.server_cpu_s) / (self.bytes / 1e9)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def copied(place: Workplace, ends: Ends, peer: Peer, setting: Setting, data: Data, limit_s: float) -> Copied:
    """Copies once; a peer that fails or loses something is recorded as failed, not counted."""
    # Some servers give up their privileges: they have to reach their files.
    place.path.chmod(0o711)
    target = place.empty("target")
    place.empty("peer").chmod(0o711)
    job = Job(place, ends, data.path, target, (free_port(), free_port()), data.size.bytes)
    try:
        client, servers = run(peer, setting, job, limit_s)
        if peer.lands:
            compare(data, peer.landed(job))
    except TooSlow:
        return Copied(data.size.bytes, data.size.files, limit_s, slower=True)
    except Failed as error:
        return Copied(data.size.bytes, data.size.files, limit_s, failed=str(error).strip()[-500:])
    finally:
        shutil.rmtree(target)
    return Copied(
        data.size.bytes,
        data.size.files,
        client.wall_s,
        client.cpu_s,
        sum(cost.cpu_s for cost in servers),
        client.peak_mib,
        max((cost.peak_mib for cost in servers), default=0.0),
    )


def run(peer: Peer, setting: Setting, job: Job, limit_s: float) -> tuple[Cost, list[Cost]]:
    """Serves, copies and stops; returns the costs of the client and of the servers."""
    servers: Sequence[Server] = []
    try:
        servers = peer.serve(job)
        client = peer.copy(job, setting).end(limit_s=limit_s)
    finally:
        costs = [server.stop() for server in servers]
    return client, costs


def timeline(place: Workplace) -> list[dict[str, float]]:
    """Throughput and streams over time, as the report of the last copy by edt tells."""
    report = json.loads((place.path / "peer" / "report.json").read_text())
    return [
        {
            "elapsed_s": round(sample["elapsed_s"], 3),
            "throughput": round(sample["throughput"]["network"]),
            "concurrency": round(sample["concurrency"]["network"], 2),
        }
        for sample in report["timeline"]
    ]


def compare(data: Data, landed: Path) -> None:
    """Fails unless all files are there with their sizes, and sampled ones with their content."""
    expected, found = sizes(data.path), sizes(landed)
    if expected != found:
        different = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise Failed(f"{len(different)} of {len(expected)} files are missing, too much or of another size")
    names = sorted(expected)
    for name in random.Random(0).sample(names, min(SAMPLES, len(names))):
        if not filecmp.cmp(data.path / name, landed / name, shallow=False):
            raise Failed(f"the content of `{name}` differs")


def sizes(root: Path) -> dict[str, int]:
    """The size of every file below a directory, by its name; what edt keeps for itself is left out."""
    found = {}
    for folder, directories, files in os.walk(root):
        if Path(folder) == root and ".edt" in directories:
            directories.remove(".edt")
        for name in files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = os.stat(path).st_size
    return found

"""The stores of services keep the contract that every store keeps, against the real servers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints.endpoint import WRITABLE, Client, Endpoint
from harness import ROOT


@pytest.fixture(scope="session")
def suite() -> Path:
    """The test program of the core, as `make test` compiles it."""
    profile = os.environ.get("EDT_TEST_PROFILE", "dev")
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", "--workspace", "--profile", profile]
    result = subprocess.run(
        [*command, "--test", "store_services"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800
    )
    assert result.returncode == 0, result.stderr[-4000:]
    messages = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return next(Path(message["executable"]) for message in reversed(messages) if message.get("executable"))


UNABLE = {
    "moto": "its list of parts is not that of S3",
    "fake-gcs-server": "it takes no uploads in parts",
    "gcp-storage-emulator": "it heeds no conditions",
    "proftpd": "`proftpd-tls` is the same server",
    "rclone-webdav": "it locks for a moment what a broken upload wrote",
    "asyncssh": "it does not tell where links lead to that leave the root",
}


@pytest.mark.parametrize("name", [name for name in WRITABLE if name not in UNABLE])
def test_a_service_conforms(on: Callable[[str], Endpoint], suite: Path, scratch: Path, name: str) -> None:
    endpoint = on(name)
    environment = {**Client(scratch, endpoint).environment, "EDT_CONFORMANCE_URL": endpoint.url}
    result = subprocess.run([suite], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert "1 passed" in result.stdout

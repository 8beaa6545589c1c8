"""Many seeded interruptions: either side killed or connections reset at any time; never a wrong byte."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Edt, Server, assert_no_wrong_file, mixed_tree, snapshot
from reset_proxy import ResetProxy

RUNS = int(os.environ.get("EDT_LONG_RUNS", "1000"))
SIZE = 3 << 20
ATTEMPTS = 12
Ends = tuple[str | Path, str | Path]


@pytest.mark.parametrize("seed", range(RUNS))
def test_no_interruption_leaves_a_wrong_byte(
    edt: Edt, serve: Callable[..., Server], source: Path, scratch: Path, seed: int
) -> None:
    chance = random.Random(f"long {seed}")
    server = serve()
    upload = chance.random() < 0.5
    origin, target = (source, server.root / "tree") if upload else (server.root, scratch / "back")
    mixed_tree(origin, seed, large=SIZE, small=chance.randint(0, 80))
    interrupt = chance.choice([kill_client, kill_server, reset_connections])
    for _ in range(chance.randint(1, 3)):
        interrupt(edt, server, chance, lambda port: ends(server, source, target, upload=upload, port=port))
        assert_no_wrong_file(origin, target)
    complete(edt, ends(server, source, target, upload=upload, port=server.port))
    assert snapshot(target) == snapshot(origin)


def ends(server: Server, source: Path, target: Path, *, upload: bool, port: int) -> Ends:
    """The arguments of `cp` for one direction, through the server's port or a proxy's."""
    return (source, server.url("tree/", port=port)) if upload else (server.url(port=port), target)


def options(chance: random.Random) -> list[str]:
    """Seeded options, slow enough that an interruption finds the transfer at work."""
    rate = chance.choice(["10MB", "20MB", "40MB"])
    return ["--json", "--chunk-size", chance.choice(["256KiB", "1MiB"]), "--limit-rate", rate]


def kill_client(edt: Edt, server: Server, chance: random.Random, arguments: Callable[[int], Ends]) -> None:
    """Kills the client at a random time."""
    client = edt.start("cp", *options(chance), *arguments(server.port))
    time.sleep(chance.uniform(0, 0.4))
    client.kill()


def kill_server(edt: Edt, server: Server, chance: random.Random, arguments: Callable[[int], Ends]) -> None:
    """Kills the server at a random time and starts it again; the client goes on, or gives up in order."""
    client = edt.start("cp", *options(chance), *arguments(server.port))
    time.sleep(chance.uniform(0, 0.4))
    server.kill()
    server.start()
    outcome = client.end()
    assert outcome.code in (0, 4), outcome.err


def reset_connections(edt: Edt, server: Server, chance: random.Random, arguments: Callable[[int], Ends]) -> None:
    """Resets connections after random numbers of bytes."""
    resets = chance.randint(1, 6)
    with ResetProxy(server.port, seed=chance.random(), resets=resets, after_bytes=(1, SIZE)) as proxy:
        outcome = edt.run("cp", *options(chance), *arguments(proxy.port))
    assert outcome.code in (0, 4), outcome.err


def complete(edt: Edt, arguments: Ends) -> None:
    """Runs the copy until it is complete."""
    for _ in range(ATTEMPTS):
        outcome = edt.run("cp", "--json", *arguments)
        if outcome.code == 0:
            return
    raise AssertionError(f"not complete after {ATTEMPTS} attempts: exit code {outcome.code}\n{outcome.err}")

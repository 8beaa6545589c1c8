"""What earlier copies over a path tell of it: where the next one begins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import emulated
from harness import EDT, MIB, Edt, Running, Server, fill
from kept import rows


def test_a_copy_begins_where_the_one_before_it_over_the_same_path_settled(
    emulated_path: Callable[..., emulated.Path], edt: Edt, source: Path, scratch: Path, database: Path
) -> None:
    path = emulated_path("cloudlab", rtt="20ms", rate="200M", stream_rate="40M")
    (scratch / "served").mkdir()
    server = Server(edt, scratch / "served", "--plain", host=path.far.address, within=path.command("far", []))
    for number in range(4):
        fill(source / f"{number}.bin", 32 * MIB, number)

    def copy(destination: str | Path, *words: str) -> str:
        """What a copy says that has twenty intervals and more."""
        command = [EDT, "cp", "--json", "--plain", "--interval", "0.1", *words, source, destination]
        outcome = Running(path.command("near", command), edt.environment).end()
        assert outcome.code == 0, outcome.err
        return outcome.out

    def began(destination: str | Path, *words: str) -> tuple[str, list[int]]:
        """Why it began as it did, and the streams of its last decisions."""
        decisions = [made["decision"] for made in json.loads(copy(destination, *words).splitlines()[-1])["decisions"]]
        return str(decisions[0]["reason"]), [decision["concurrency"]["network"] for decision in decisions[-12:]]

    def reason(destination: str | Path, *words: str) -> str:
        return began(destination, *words)[0]

    try:
        first, last = began(server.url("first/"))
        assert "nothing is known of the path" in first
        second = reason(server.url("second/"))
        found = re.fullmatch(r"start: (\d+) streams?, as 1 earlier copy on this path settled at (\d+) streams?", second)
        assert found and min(last) <= int(found[1]) <= max(last), (second, last)
        assert "as 2 earlier copies on this path" in reason(server.url("third/"), "--optimizer", "model")
        before = rows(database, "SELECT count(*) FROM transfers")
        for word in ("--no-history", "--dry-run"):
            assert "earlier" not in copy(server.url("without/"), word)
        edt.environment["EDT_HISTORY"] = "off"
        assert "nothing is known of the path" in reason(server.url("off/"))
        assert rows(database, "SELECT count(*) FROM transfers") == before
        edt.environment.pop("EDT_HISTORY")
        assert "earlier" not in reason(server.url("high/"), "--policy", "high")
    finally:
        server.stop()

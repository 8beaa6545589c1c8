"""A transfer that was interrupted goes on where it was, whatever interrupted it."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import (
    MIB,
    Edt,
    Json,
    Server,
    assert_no_wrong_file,
    at_least,
    contents,
    fill,
    mixed_tree,
    snapshot,
    wait_until,
)
from reset_proxy import ResetProxy

SLOW = ("--json", "--interval", "0.05", "--chunk-size", "1MiB", "--limit-rate", "20MB")
POINTS = [pytest.param(seed, id=f"point-{seed}") for seed in range(20)]


def point(seed: int, size: int) -> int:
    """A seeded number of verified bytes at which to interrupt: what is left takes much longer than to interrupt."""
    return int(random.Random(f"point {seed}").uniform(0, 0.6) * size)


def ends(seed: int, server: Server, source: Path, scratch: Path) -> tuple[tuple[str | Path, str | Path], Path, Path]:
    """Upload for even seeds, download for odd ones: the arguments of `cp`, the source tree and the destination tree."""
    if seed % 2 == 0:
        return (source, server.url("tree/")), source, server.root / "tree"
    return (server.url(), scratch / "back"), server.root, scratch / "back"


def test_trees_for_the_killing_tests_differ_between_seeds(scratch: Path) -> None:
    mixed_tree(scratch / "a", 1)
    mixed_tree(scratch / "b", 2)
    assert contents(scratch / "a") != contents(scratch / "b")


@pytest.mark.parametrize("seed", POINTS)
def test_after_sigkill_of_the_client_only_missing_bytes_are_sent(
    edt: Edt, server: Server, source: Path, scratch: Path, seed: int
) -> None:
    size = mixed_tree(source if seed % 2 == 0 else server.root, seed, large=16 * MIB)
    arguments, origin, target = ends(seed, server, source, scratch)
    client = edt.start("cp", *SLOW, *arguments)
    killed = client.totals_until(at_least(point(seed, size)))
    assert client.kill().code == -signal.SIGKILL, "it was over before it was killed"
    assert_no_wrong_file(origin, target)
    resumed = finish(edt, arguments)
    assert snapshot(target) == snapshot(origin)
    assert resumed["bytes_sent"] <= size - killed["bytes_verified"], "verified bytes were sent again"


@pytest.mark.parametrize("seed", POINTS)
def test_after_sigkill_of_the_server_the_transfer_is_completed(
    edt: Edt, server: Server, source: Path, scratch: Path, seed: int
) -> None:
    size = mixed_tree(source if seed % 2 == 0 else server.root, seed, large=16 * MIB)
    arguments, origin, target = ends(seed, server, source, scratch)
    client = edt.start("cp", *SLOW, *arguments)
    client.totals_until(at_least(point(seed, size)))
    server.kill()
    assert_no_wrong_file(origin, target)
    server.start()
    # It may reconnect by itself; where it gave up, the same command goes on.
    first = client.end()
    assert first.code in (0, 4), first.err
    if first.code != 0:
        resumed = finish(edt, arguments)
        assert resumed["bytes_sent"] <= size - first.totals()["bytes_verified"], "verified bytes were sent again"
    assert snapshot(target) == snapshot(origin)


def test_a_server_that_comes_back_with_fewer_streams_gets_no_more(
    edt: Edt, serve: Callable[..., Server], source: Path
) -> None:
    fill(source / "a.bin", 24 * MIB, "limit")
    server = serve(None, "--max-streams", "6")
    client = edt.start("cp", *SLOW, "--concurrency", "6", source, server.url("tree/"))
    client.totals_until(at_least(4 * MIB))
    server.kill()
    server.options = ("--max-streams", "2")
    server.start()
    outcome = client.end()
    assert outcome.code == 0, outcome.err
    tuned = [event["decision"] for event in outcome.events() if event["event"] == "tuned"]
    streams = [decision["concurrency"]["network"] for decision in tuned]
    assert (streams[0], streams[-1]) == (6, 2), streams
    assert snapshot(server.root / "tree") == snapshot(source)


def finish(edt: Edt, arguments: tuple[str | Path, str | Path]) -> Json:
    """Runs the same copy to its end, without a limit; returns its totals."""
    return edt.copy("--chunk-size", "1MiB", *arguments).totals()


@pytest.mark.parametrize("seed", range(4))
def test_connection_resets_are_survived_within_one_run(
    edt: Edt, server: Server, source: Path, scratch: Path, seed: int
) -> None:
    size = mixed_tree(source if seed % 2 == 0 else server.root, seed, large=24 * MIB)
    upload = seed % 2 == 0
    with ResetProxy(server.port, seed=seed, resets=8, after_bytes=(MIB, 4 * MIB)) as proxy:
        remote = server.url("tree/" if upload else "", port=proxy.port)
        target = server.root / "tree" if upload else scratch / "back"
        arguments = (source, remote) if upload else (remote, target)
        outcome = edt.copy("--chunk-size", "1MiB", *arguments, timeout=90)
        assert proxy.done > 0, "no connection was reset"
    assert snapshot(target) == snapshot(source if upload else server.root)
    assert outcome.totals()["retries"] > 0
    assert outcome.totals()["bytes_sent"] < 3 * size


def test_ctrl_c_ends_with_130_and_the_next_run_goes_on(edt: Edt, server: Server, source: Path) -> None:
    size = mixed_tree(source, "ctrl-c", large=24 * MIB)
    client = edt.start("cp", *SLOW, source, server.url("tree/"))
    seen = client.totals_until(at_least(size // 3))
    client.signal(signal.SIGINT)
    outcome = client.end()
    assert outcome.code == 130
    assert "run the same command again" in outcome.err
    assert_no_wrong_file(source, server.root / "tree")
    resumed = finish(edt, (source, server.url("tree/")))
    assert resumed["bytes_sent"] <= size - seen["bytes_verified"]
    assert snapshot(server.root / "tree") == snapshot(source)


def test_a_second_ctrl_c_ends_at_once(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 32 * MIB, "second")
    client = edt.start("cp", "--json", "--interval", "0.05", "--limit-rate", "1MB", source, server.url("tree/"))
    client.totals_until(lambda totals: True)
    client.signal(signal.SIGINT)
    client.signal(signal.SIGINT)
    assert client.end(5).code == 130


def test_a_source_that_changed_between_attempts_is_sent_anew(edt: Edt, server: Server, source: Path) -> None:
    fill(source / "a.bin", 24 * MIB, "before")
    fill(source / "b.bin", 1000, "stays")
    client = edt.start("cp", *SLOW, source, server.url("tree/"))
    client.totals_until(at_least(8 * MIB))
    client.kill()
    fill(source / "a.bin", 24 * MIB, "after")
    finish(edt, (source, server.url("tree/")))
    assert snapshot(server.root / "tree") == snapshot(source)


def test_a_source_that_changes_while_it_is_read_is_never_published_as_a_mixture(
    edt: Edt, server: Server, source: Path
) -> None:
    fill(source / "a.bin", 24 * MIB, "before")
    fill(source / "b.bin", 1000, "stays")
    before, after = (source / "a.bin").read_bytes(), random.Random("after").randbytes(24 * MIB)
    client = edt.start("cp", *SLOW, source, server.url("tree/"))
    client.totals_until(at_least(8 * MIB))
    with (source / "a.bin").open("r+b") as file:
        file.write(after)
    outcome = client.end()
    copy = server.root / "tree" / "a.bin"
    assert (server.root / "tree" / "b.bin").read_bytes() == (source / "b.bin").read_bytes()
    if outcome.code == 0:
        # A copy may have ended before the change.
        whole = copy.read_bytes() in (before, after)
        assert whole
    else:
        assert outcome.code == 1, outcome.err
        assert "changed" in outcome.err
        assert not copy.exists()


def test_two_transfers_to_the_same_destination_leave_one_whole_tree(edt: Edt, server: Server, source: Path) -> None:
    mixed_tree(source, "same", large=16 * MIB)
    clients = [edt.start("cp", *SLOW, source, server.url("tree/")) for _ in range(2)]
    outcomes = [client.end() for client in clients]
    assert 0 in {outcome.code for outcome in outcomes}
    for outcome in outcomes:
        assert outcome.code == 0 or "another" in outcome.err
    assert contents(server.root / "tree") == contents(source)


def test_two_sources_for_one_file_leave_one_of_them_whole(edt: Edt, server: Server, scratch: Path) -> None:
    for name in ("one.bin", "two.bin"):
        fill(scratch / name, 12 * MIB, name)
    clients = [edt.start("cp", *SLOW, scratch / name, server.url("target.bin")) for name in ("one.bin", "two.bin")]
    codes = [client.end().code for client in clients]
    assert 0 in codes
    written = (server.root / "target.bin").read_bytes()
    assert written in [(scratch / name).read_bytes() for name in ("one.bin", "two.bin")]


def test_a_server_that_is_asked_to_end_lets_a_running_transfer_finish(edt: Edt, server: Server, source: Path) -> None:
    size = mixed_tree(source, "graceful", large=24 * MIB)
    client = edt.start("cp", *SLOW, source, server.url("tree/"))
    client.totals_until(at_least(size // 4))
    codes: list[int] = []
    stopping = threading.Thread(target=lambda: codes.append(server.stop()))
    stopping.start()
    wait_until(lambda: edt.run("ls", server.url()).code in (3, 4), "refusing new sessions", timeout=5)
    assert client.end().code == 0
    begin = time.monotonic()
    stopping.join(10)
    assert codes == [0]
    assert time.monotonic() - begin < 10
    assert snapshot(server.root / "tree") == snapshot(source)

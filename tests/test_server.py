"""A server among strangers: hostile bytes, escapes from its root, many clients."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from harness import MIB, Edt, Server, at_least, connected, contents, fill, mixed_tree, snapshot

PREAMBLES = [b"", b"EDT\x01C\0\0\0", b"EDT\x01S\0\0\0", b"EDT\x01X\0\0\0", b"EDT\xffC\0\0\0", b"\x16\x03\x01"]


def hostile_bytes(source: random.Random) -> bytes:
    """Noise behind a beginning that may be right: claims of huge or zero lengths, cut frames, random bytes."""
    lengths = [0, 1, 64, 65_535, 65_537, 1 << 24, (1 << 31) - 1, (1 << 32) - 1]
    body = source.randbytes(source.choice([0, 1, 7, 71, 72, 73, 1000, 100_000]))
    if source.random() < 0.6:
        body = struct.pack("<I", source.choice(lengths)) + body
    return source.choice(PREAMBLES) + body


def pester(port: int, source: random.Random) -> None:
    """One hostile connection, ended by an orderly close or left for the server to end."""
    with suppress(OSError), connected(port) as end:
        end.sendall(hostile_bytes(source))
        if source.random() < 0.5:
            end.shutdown(socket.SHUT_WR)
        end.settimeout(0.02)
        end.recv(4096)


def test_hostile_bytes_harm_neither_the_server_nor_a_running_transfer(edt: Edt, server: Server, source: Path) -> None:
    mixed_tree(source, "hostile", large=32 * MIB)
    client = edt.start("cp", "--json", "--limit-rate", "10MB", source, server.url("tree/"))
    noise = random.Random("hostile")
    for _ in range(150):
        pester(server.port, noise)
    idle = [connected(server.port) for _ in range(50)]
    outcome = client.end()
    for end in idle:
        end.close()
    assert outcome.code == 0, outcome.err
    assert snapshot(server.root / "tree") == snapshot(source)
    assert server.process.poll() is None
    assert server.peak_mib() < 300
    assert "panic" not in server.errors()
    edt.copy(server.url("tree/large.bin"), source / "again.bin")


@pytest.mark.parametrize("path", ["../secret.bin", "%2e%2e/secret.bin", "inner/../../secret.bin", "/../secret.bin"])
def test_dots_in_a_url_do_not_leave_the_root(edt: Edt, server: Server, scratch: Path, path: str) -> None:
    fill(scratch / "secret.bin", 1000, "secret")
    fill(scratch / "ours.bin", 1000, "ours")
    (server.root / "inner").mkdir()
    before = contents(scratch)
    assert edt.run("cp", server.url(path), scratch / "stolen.bin").code != 0
    assert edt.run("cp", scratch / "ours.bin", server.url(path)).code != 0
    assert edt.run("rm", server.url(path)).code != 0
    assert edt.run("stat", server.url(path)).code != 0
    after = contents(scratch)
    assert {name: after[name] for name in ("secret.bin", "ours.bin")} == {
        name: before[name] for name in ("secret.bin", "ours.bin")
    }
    assert "stolen.bin" not in after


@pytest.mark.parametrize("target", ["absolute", "relative"])
def test_links_do_not_lead_out_of_the_root(edt: Edt, server: Server, scratch: Path, target: str) -> None:
    outside = scratch / "outside"
    fill(outside / "secret.bin", 1000, "secret")
    fill(scratch / "ours.bin", 1000, "ours")
    (server.root / "way").symlink_to(outside if target == "absolute" else "../outside")
    assert edt.run("cp", server.url("way/secret.bin"), scratch / "stolen.bin").code != 0
    assert edt.run("cp", "--symlinks", "follow", server.url("way/"), scratch / "stolen").code != 0
    assert edt.run("cp", scratch / "ours.bin", server.url("way/ours.bin")).code != 0
    assert edt.run("rm", server.url("way/secret.bin")).code != 0
    assert not (scratch / "stolen.bin").exists()
    assert not list(scratch.glob("stolen/**/secret.bin"))
    assert set(contents(outside)) == {"secret.bin"}


def test_a_link_that_a_client_made_does_not_lead_its_next_upload_out_of_the_root(
    edt: Edt, server: Server, source: Path, scratch: Path
) -> None:
    outside = scratch / "outside"
    outside.mkdir()
    (source / "way").symlink_to(outside)
    edt.run("cp", source, server.url("tree/"))
    (source / "way").unlink()
    fill(source / "way" / "planted.bin", 1000, "planted")
    edt.run("cp", source, server.url("tree/"))
    assert list(outside.iterdir()) == []


def test_the_place_where_partial_files_are_kept_is_closed_to_clients(edt: Edt, server: Server, scratch: Path) -> None:
    fill(scratch / "ours.bin", 1000, "ours")
    fill(server.root / ".edt" / "key" / "journal", 100, "journal")
    assert edt.run("cp", scratch / "ours.bin", server.url(".edt/key/journal")).code != 0
    assert edt.run("cp", server.url(".edt/key/journal"), scratch / "stolen.bin").code != 0
    assert ".edt" not in edt.run("ls", "-r", server.url()).out


def test_two_clients_are_served_at_once(edt: Edt, server: Server, scratch: Path) -> None:
    trees = [scratch / f"source-{number}" for number in range(2)]
    for tree in trees:
        mixed_tree(tree, tree.name, large=16 * MIB)
    options = ("--json", "--limit-rate", "15MB")
    clients = [edt.start("cp", *options, tree, server.url(f"{tree.name}/")) for tree in trees]
    outcomes = [client.end() for client in clients]
    assert [outcome.code for outcome in outcomes] == [0, 0], [outcome.err for outcome in outcomes]
    alone = [outcome.totals()["elapsed_s"] for outcome in outcomes]
    assert max(alone) < 0.8 * sum(alone), "the second client waited for the first"
    for tree in trees:
        assert snapshot(server.root / tree.name) == snapshot(tree)


@pytest.mark.parametrize("scheme", ["edt", "edts"])
def test_a_full_server_turns_the_next_client_away_and_says_why(
    edt: Edt, serve: Callable[..., Server], source: Path, scratch: Path, scheme: str
) -> None:
    server = serve(None, "--max-sessions", "1")
    fill(source / "a.bin", 4 * MIB, "a")
    first = edt.start("cp", "--json", "--limit-rate", "300kB", source, server.url("tree/"))
    first.totals_until(at_least(1))
    url = server.url("tree/").replace("edt://", f"{scheme}://")
    # Looking waits some seconds for a place.
    for words in (("cp", source, f"{url}again/"), ("cp", url, scratch / "back"), ("ls", url)):
        outcome = edt.run(*words)
        assert outcome.code == 4, outcome.err
        assert "could not begin a session\nsource: the server already has 1 sessions" in outcome.err
        assert "\nhint: try again when others have finished" in outcome.err
    assert first.end().code == 0
    assert not (server.root / "tree" / "again").exists()


def test_files_are_listed_described_and_removed(edt: Edt, server: Server) -> None:
    fill(server.root / "a" / "b.bin", 1234, "b")
    assert "b.bin" in edt.run("ls", "-r", server.url()).out
    assert "1234" in edt.run("stat", "--json", server.url("a/b.bin")).out
    assert edt.run("rm", server.url("a")).code != 0
    assert edt.run("rm", "-r", server.url("a")).code == 0
    assert not (server.root / "a").exists()
    assert edt.run("stat", server.url("a/b.bin")).code == 4

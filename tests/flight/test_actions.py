"""The actions of the service."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pytest
from pyarrow import flight

from flight.service import Client, Service
from harness import fill

NAMES = ["stat", "list", "mkdir", "remove", "rename", "checksum", "begin", "commit", "abort"]


def test_every_action_is_listed_with_what_it_does(client: Client) -> None:
    actions = client.flight.list_actions(client.call)
    assert [action.type for action in actions] == NAMES
    assert all(len(action.description) > 10 for action in actions)


def test_an_entry_is_described(service: Service, client: Client) -> None:
    path = service.root / "sub" / "a.bin"
    fill(path, 123, "a")
    os.utime(path, ns=(5, 1_700_000_000_123_456_789))
    path.chmod(0o604)
    entry = client.act("stat", path="sub/a.bin")[0]
    version = entry.pop("version")
    assert entry == {
        "path": "sub/a.bin",
        "kind": "file",
        "size": 123,
        "modified_ns": 1_700_000_000_123_456_789,
        "mode": 0o604,
    }
    fill(path, 123, "b")
    assert client.act("stat", path="sub/a.bin")[0]["version"] != version
    assert client.act("stat", path="sub")[0]["kind"] == "directory"
    with pytest.raises(KeyError):
        client.act("stat", path="missing")


def test_a_directory_is_listed_by_itself_or_with_all_below_it(service: Service, client: Client) -> None:
    for name in ("a.bin", "sub/b.bin", "sub/deep/c.bin"):
        fill(service.root / name, 5, name)
    (service.root / "link").symlink_to("a.bin")
    one = {entry["path"]: entry["kind"] for entry in client.act("list", path="")}
    assert one == {"a.bin": "file", "sub": "directory", "link": "symlink"}
    tree = {entry["path"] for entry in client.act("list", path="", tree=True)}
    assert tree == {"a.bin", "sub", "link", "sub/b.bin", "sub/deep", "sub/deep/c.bin"}
    below = {entry["path"] for entry in client.act("list", path="sub", tree=True)}
    assert below == {"sub/b.bin", "sub/deep", "sub/deep/c.bin"}


def test_directories_are_made_and_files_renamed_and_removed(service: Service, client: Client) -> None:
    client.act("mkdir", path="x/y")
    assert (service.root / "x" / "y").is_dir()
    fill(service.root / "a.bin", 5, "a")
    content = (service.root / "a.bin").read_bytes()
    client.act("rename", **{"from": "a.bin", "to": "x/y/b.bin"})
    assert (service.root / "x" / "y" / "b.bin").read_bytes() == content
    fill(service.root / "c.bin", 5, "c")
    with pytest.raises((pa.ArrowException, OSError)):
        client.act("rename", **{"from": "c.bin", "to": "x/y/b.bin", "overwrite": "never"})
    assert (service.root / "x" / "y" / "b.bin").read_bytes() == content
    with pytest.raises((pa.ArrowException, OSError)):
        client.act("remove", path="x")
    client.act("remove", path="c.bin")
    client.act("remove", path="x", tree=True)
    assert [path.name for path in service.root.iterdir() if path.name != ".edt"] == []


def test_a_checksum_is_that_of_the_content(service: Service, client: Client) -> None:
    (service.root / "nine").write_bytes(b"123456789")
    digests = client.act("checksum", path="nine")[0]
    # The check value of CRC-64/NVME, and BLAKE3 as b3sum prints it.
    assert digests == {
        "size": 9,
        "crc64nvme": "ae8b14860a799888",
        "blake3": "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1",
    }


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("stat", b"no json"),
        ("stat", b'{"path": "a", "pth": "b"}'),
        ("list", b'{"path": "../.."}'),
        ("mkdir", b'{"path": "../x"}'),
        ("remove", b'{"path": ""}'),
        ("remove", b'{"path": "..", "tree": true}'),
        ("rename", b'{"from": "a", "to": "../b"}'),
        ("begin", b'{"path": "../b", "size": 1}'),
        ("commit", b'{"upload": "../../b"}'),
        ("abort", b'{"upload": "no such upload"}'),
    ],
)
def test_a_body_that_cannot_be_meant_is_refused(service: Service, client: Client, name: str, body: bytes) -> None:
    fill(service.root / "kept", 3, "kept")
    with pytest.raises((pa.ArrowException, KeyError)) as raised:
        list(client.flight.do_action(flight.Action(name, body), client.call))
    assert "could not" in str(raised.value)
    assert (service.root / "kept").exists()


def test_an_unknown_action_names_the_known_ones(client: Client) -> None:
    with pytest.raises(pa.ArrowException, match="checksum"):
        client.act("no-such-action")


def test_an_upload_is_not_listed(service: Service, client: Client) -> None:
    begun = client.act("begin", path="a.bin", size=3, key="k")[0]
    client.put("a.bin", [(0, b"ab")], upload=begun["upload"])
    assert client.act("list", path="", tree=True) == []
    assert list(client.flight.list_flights(b"", client.call)) == []
    with pytest.raises((pa.ArrowException, KeyError)):
        client.act("stat", path=".edt")
    assert json.loads(json.dumps(begun)) == begun

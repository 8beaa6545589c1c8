"""Files as bytes: listed, described, read in ranges and on many connections, and noticed when they change."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from flight.service import BYTES, Client, Service, named, parallel_bytes, refused
from harness import MIB, fill

SIZE = 130 * MIB + 7
"""More than two endpoints of 64 MiB."""


@pytest.fixture
def large(service: Service) -> Path:
    """A file of three endpoints."""
    path = service.root / "sub" / "large.bin"
    fill(path, SIZE, "large")
    return path


def test_flights_are_the_files_of_the_root(service: Service, client: Client) -> None:
    for name in ("a.bin", "sub/b.bin", "sub/deep/c.bin"):
        fill(service.root / name, 10, name)
    found = {b"/".join(info.descriptor.path).decode(): info.total_bytes for info in listed(client, b"")}
    assert found == {"a.bin": 10, "sub/b.bin": 10, "sub/deep/c.bin": 10}
    assert len(list(listed(client, json.dumps({"prefix": "sub"}).encode()))) == 2
    assert len(list(listed(client, json.dumps({"limit": 1}).encode()))) == 1


def listed(client: Client, criteria: bytes) -> list[flight.FlightInfo]:
    """ListFlights."""
    return list(client.flight.list_flights(criteria, client.call))


def test_a_description_has_endpoints_that_make_up_the_file(client: Client, large: Path) -> None:
    info = client.info("sub/large.bin", **{"as": "bytes"})
    assert (info.total_bytes, info.total_records, info.ordered) == (SIZE, -1, True)
    ranges = [json.loads(endpoint.ticket.ticket)["range"] for endpoint in info.endpoints]
    assert len(ranges) == 3 and sum(count for _, count in ranges) == SIZE
    facts = json.loads(info.app_metadata)
    assert (facts["size"], facts["modified_ns"]) == (SIZE, large.stat().st_mtime_ns)
    assert facts["mode"] == large.stat().st_mode & 0o777 and facts["version"]
    assert len(client.info("sub/large.bin", **{"as": "bytes", "endpoints": 7}).endpoints) == 7


def test_the_schema_of_bytes_says_which_file_it_is(client: Client, large: Path) -> None:
    schema = client.flight.get_schema(named("sub/large.bin", **{"as": "bytes"}), client.call).schema
    assert schema.remove_metadata() == BYTES
    assert schema.metadata[b"edt.path"] == b"sub/large.bin" and schema.metadata[b"edt.size"] == str(SIZE).encode()


def test_all_endpoints_in_parallel_are_the_file(service: Service, client: Client, large: Path) -> None:
    for descriptor in (
        named("sub/large.bin", **{"as": "bytes"}),
        flight.FlightDescriptor.for_path("sub", "large.bin"),
        flight.FlightDescriptor.for_path("sub/large.bin"),
    ):
        info = client.flight.get_flight_info(descriptor, client.call)
        assert parallel_bytes(service, info) == large.read_bytes()


@pytest.mark.parametrize("span", [(0, 1), (MIB - 1, 2), (5, 3 * MIB), (SIZE - 3, 3), (SIZE, 0)])
def test_a_range_is_exactly_that(client: Client, large: Path, span: tuple[int, int]) -> None:
    first, count = span
    assert client.content("sub/large.bin", range=[first, count]) == large.read_bytes()[first : first + count]


def test_a_range_that_is_too_long_ends_with_the_file_and_one_beyond_it_is_refused(client: Client, large: Path) -> None:
    tail = large.read_bytes()[-3:]
    for count in (4, 2**63, 2**64 - 1):
        assert client.content("sub/large.bin", range=[SIZE - 3, count]) == tail
    for first in (SIZE + 1, 2**63, 2**64 - 1):
        with refused(pa.ArrowInvalid, "sub/large.bin"):
            client.content("sub/large.bin", range=[first, 2**63])


def test_an_empty_file_has_no_bytes(service: Service, client: Client) -> None:
    (service.root / "empty").touch()
    info = client.info("empty")
    assert info.total_bytes == 0 and parallel_bytes(service, info) == b""
    assert client.content("empty") == b""


def test_every_batch_passes_the_limit_that_clients_have_by_default(client: Client, large: Path) -> None:
    reader = client.flight.do_get(client.info("sub/large.bin", **{"as": "bytes"}).endpoints[0].ticket, client.call)
    assert max(chunk.data.nbytes for chunk in reader if chunk.data is not None) < 2 * MIB


def test_a_file_that_changed_since_it_was_described_is_refused(client: Client, large: Path) -> None:
    info = client.info("sub/large.bin", **{"as": "bytes"})
    fill(large, SIZE, "changed")
    with refused(pa.ArrowException, "changed"):
        list(client.rows(info.endpoints[0].ticket))


def test_commands_on_one_exchange_are_answered_one_after_another(service: Service, client: Client) -> None:
    for number in range(20):
        fill(service.root / f"{number}.bin", 1000 + number, number)
    commands = [json.dumps({"path": f"{number}.bin", "as": "bytes"}) for number in range(20)]
    descriptor = flight.FlightDescriptor.for_command(commands[0])
    writer, reader = client.flight.do_exchange(descriptor, client.call)
    with writer:
        assert exchanged(reader) == (service.root / "0.bin").read_bytes()
        for number in range(1, 20):
            writer.write_metadata(commands[number].encode())
            assert exchanged(reader) == (service.root / f"{number}.bin").read_bytes()
        writer.done_writing()


def exchanged(reader: flight.FlightStreamReader) -> bytes:
    """The bytes of one command on an exchange: until what it says at its end."""
    found = b""
    while True:
        chunk = reader.read_chunk()
        rows = [] if chunk.data is None else chunk.data.column("data").to_pylist()
        found += b"".join(rows)
        if chunk.app_metadata is not None and not rows:
            assert json.loads(chunk.app_metadata.to_pybytes())["bytes"] == len(found)
            return found


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing.bin", KeyError),
        ("../outside", pa.ArrowInvalid),
        ("/etc/passwd", KeyError),
        ("a/../../b", pa.ArrowInvalid),
        ("a\0b", pa.ArrowInvalid),
    ],
)
def test_what_is_not_below_the_root_cannot_be_read(client: Client, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        client.content(path)
    with pytest.raises(error):
        client.info(path)


def test_a_link_that_leads_out_of_the_root_is_not_followed(client: Client, service: Service, scratch: Path) -> None:
    fill(scratch / "secret", 10, "secret")
    (service.root / "link").symlink_to(scratch / "secret")
    with pytest.raises(pa.ArrowException):
        client.content("link")


def test_a_command_that_is_none_is_refused_with_a_hint(client: Client) -> None:
    for text in (b"", b"not json", b"[1]", b'{"path": 5}', b'{"path": "a", "colums": ["x"]}'):
        with refused(pa.ArrowInvalid, "hint"):
            client.flight.do_get(flight.Ticket(text), client.call).read_all()
    with refused(pa.ArrowInvalid, "colums"):
        client.info("a", colums=["x"])

"""A real `edt serve --flight` process, and what a Flight client of PyArrow does with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from harness import MIB, SECRET, STAGING, Edt, Server

HOST = "127.0.0.1"
Json = dict[str, Any]
BYTES = pa.schema([pa.field("offset", pa.uint64(), nullable=False), pa.field("data", pa.binary(), nullable=False)])


class Service(Server):
    """A server with its Flight port; after a kill it starts again on the ports that it had."""

    def __init__(self, edt: Edt, root: Path, *options: str, flight_host: str = HOST) -> None:
        """`flight_host` is the address on which its Flight port listens; clients come by loopback all the same."""
        self.flight_host, self.flight_port = flight_host, 0
        self.given = options
        super().__init__(edt, root, *options)

    def start(self) -> None:
        """Starts the process; both ports are told on standard output."""
        self.options = ("--flight", f"{self.flight_host}:{self.flight_port}", *self.given)
        super().start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("flight on "), f"the server said {line!r}\n{self.errors()}"
        self.flight_port = int(line.rsplit(":", 1)[1])

    def flight(self, path: str = "", scheme: str = "flight") -> str:
        """The URL of a path below the root, for clients of Flight."""
        return f"{scheme}://{HOST}:{self.flight_port}/{path}"

    def client(self, *, secret: str | None = SECRET, **options: Any) -> Client:
        """A client with a connection of its own."""
        return Client(f"grpc+tcp://{HOST}:{self.flight_port}", secret=secret, **options)

    def rss_mib(self) -> float:
        """Its resident memory at present, without files that it maps."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024

    def leftovers(self) -> list[str]:
        """Files of unfinished writes below the root."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob(f"{STAGING}/**/*") if path.is_file())


class Client:
    """PyArrow's client of edt's service."""

    def __init__(self, location: str, *, secret: str | None = SECRET, **options: Any) -> None:
        self.flight = flight.FlightClient(location, **options)
        headers = [(b"authorization", f"Bearer {secret}".encode())] if secret else []
        self.call = flight.FlightCallOptions(headers=headers, timeout=30)
        self.patient = flight.FlightCallOptions(headers=headers)
        """For calls that last as long as a test wants."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.flight.close()

    def info(self, path: str, **command: Any) -> flight.FlightInfo:
        """GetFlightInfo of a command."""
        return self.flight.get_flight_info(named(path, **command), self.call)

    def table(self, path: str, **command: Any) -> pa.Table:
        """A table, endpoint after endpoint."""
        info = self.info(path, **{"as": "table", **command})
        parts = [self.flight.do_get(endpoint.ticket, self.call).read_all() for endpoint in info.endpoints]
        return pa.concat_tables(parts) if parts else info.schema.empty_table()

    def rows(self, ticket: flight.Ticket) -> Iterator[tuple[int, bytes]]:
        """Offset and bytes of each row of a stream of bytes; its end is held to what it says of itself."""
        count, said = 0, None
        for chunk in self.flight.do_get(ticket, self.call):
            if chunk.data is not None:
                for row in chunk.data.to_pylist():
                    count += len(row["data"])
                    yield row["offset"], row["data"]
            if chunk.app_metadata is not None:
                said = json.loads(chunk.app_metadata.to_pybytes())
        assert said is not None, "the stream ended without a word about itself"
        assert said["bytes"] == count and len(said["crc64nvme"]) == 16

    def content(self, path: str, **command: Any) -> bytes:
        """A range of a file on one stream, by a ticket written by hand."""
        ticket = flight.Ticket(json.dumps({"path": path, "as": "bytes", **command}).encode())
        pieces = list(self.rows(ticket))
        assert [offset for offset, _ in pieces] == sorted(offset for offset, _ in pieces)
        return b"".join(data for _, data in pieces)

    def put(self, path: str, rows: Sequence[tuple[int, bytes]], **command: Any) -> list[Json]:
        """Puts bytes on one stream; returns what the service said."""
        writer, replies = self.flight.do_put(named(path, **{"as": "bytes", **command}), BYTES, self.call)
        with writer:
            for offset, data in rows:
                writer.write_batch(batch((offset, data)))
            writer.done_writing()
            return list(said(replies))

    def put_table(self, path: str, table: pa.Table, **command: Any) -> list[Json]:
        """Puts a table; returns what the service said."""
        descriptor = named(path, **{"as": "table", **command})
        writer, replies = self.flight.do_put(descriptor, table.schema, self.call)
        with writer:
            writer.write_table(table, max_chunksize=8192)
            writer.done_writing()
            return list(said(replies))

    def act(self, name: str, **body: Any) -> list[Json]:
        """DoAction; its results."""
        action = flight.Action(name, json.dumps(body).encode())
        return [json.loads(result.body.to_pybytes()) for result in self.flight.do_action(action, self.call)]


def named(path: str, **command: Any) -> flight.FlightDescriptor:
    """A descriptor with a command."""
    return flight.FlightDescriptor.for_command(json.dumps({"path": path, **command}))


def batch(*rows: tuple[int, bytes]) -> pa.RecordBatch:
    """Rows of bytes as a batch."""
    return pa.record_batch([[offset for offset, _ in rows], [data for _, data in rows]], schema=BYTES)


def pieces(content: bytes, size: int = MIB) -> list[tuple[int, bytes]]:
    """A content as rows."""
    return [(offset, content[offset : offset + size]) for offset in range(0, len(content), size)]


def said(replies: flight.FlightMetadataReader) -> Iterator[Json]:
    """What a service says while it takes a put."""
    while (reply := replies.read()) is not None:
        yield json.loads(reply.to_pybytes())


def parallel_bytes(service: Service, info: flight.FlightInfo) -> bytes:
    """All endpoints of a file at once, each on a connection of its own, put where they say."""
    found = bytearray(info.total_bytes)

    def fetch(endpoint: flight.FlightEndpoint) -> int:
        with service.client() as client:
            count = 0
            for offset, data in client.rows(endpoint.ticket):
                found[offset : offset + len(data)] = data
                count += len(data)
            return count

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(fetch, info.endpoints)) == info.total_bytes
    return bytes(found)


@contextmanager
def refused(error: type[BaseException], *words: str) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Holds a call to its error, and to words in what it says."""
    with pytest.raises(error) as raised:
        yield raised
    missing = [word for word in words if word not in str(raised.value)]
    assert not missing, f"{missing} not in {raised.value}"


Start = Callable[..., Service]

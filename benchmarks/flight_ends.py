"""PyArrow at the ends of Flight connections, for the experiment `flight`: servers, and clients that tell their costs.

    flight_ends.py files HOST FOLDER                 a server of files as bytes; prints `listening on HOST:PORT`
    flight_ends.py table HOST FOLDER                 a server that holds the table of a Parquet folder in memory
    flight_ends.py get ADDRESS CLIENTS NAME SIZE     reads a file as bytes, a share of it by each client at once
    flight_ends.py read URL COMMAND                  reads a table by `edt.flight`
    flight_ends.py fetch ADDRESS                     reads the table of a server of tables, all endpoints at once
    flight_ends.py open FOLDER                       reads the table of a folder of this machine

Times begin when PyArrow is loaded. Servers and clients of bytes know the tickets and columns of edt's own service.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyarrow import flight

MIB = 1 << 20
ENDPOINTS = 8
SCHEMA = pa.schema([pa.field("offset", pa.uint64(), nullable=False), pa.field("data", pa.binary(), nullable=False)])


class Files(flight.FlightServerBase):  # type: ignore[misc]
    """Files as bytes: each batch is one row of 1 MiB, read when it is due, and not copied after that."""

    def __init__(self, host: str, folder: Path) -> None:
        super().__init__(f"grpc+tcp://{host}:0")
        self.folder = folder

    def do_get(self, _context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        asked = json.loads(ticket.ticket)
        return flight.GeneratorStream(SCHEMA, rows(self.folder / asked["path"], *asked["range"]))


def rows(path: Path, first: int, count: int) -> Iterator[pa.RecordBatch]:
    """The batches of a range of a file."""
    with pa.OSFile(str(path)) as file:
        file.seek(first)
        for offset in range(first, first + count, MIB):
            data = file.read_buffer(min(MIB, first + count - offset))
            ends = pa.py_buffer(b"".join(end.to_bytes(4, "little") for end in (0, data.size)))
            columns = [pa.array([offset], pa.uint64()), pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])]
            yield pa.record_batch(columns, schema=SCHEMA)


class Table(flight.FlightServerBase):  # type: ignore[misc]
    """One table in memory, in equal parts."""

    def __init__(self, host: str, folder: Path) -> None:
        super().__init__(f"grpc+tcp://{host}:0")
        self.table = pa.parquet.read_table(folder)

    def get_flight_info(self, _context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        endpoints = [flight.FlightEndpoint(str(part), []) for part in range(ENDPOINTS)]
        return flight.FlightInfo(self.table.schema, descriptor, endpoints, self.table.num_rows, self.table.nbytes)

    def do_get(self, _context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        rows = -(-self.table.num_rows // ENDPOINTS)
        part = self.table.slice(int(ticket.ticket) * rows, rows)
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(part.schema, part.to_batches(8192)))


def serve(service: flight.FlightServerBase, host: str) -> None:
    """Serves until it is ended."""
    print(f"listening on {host}:{service.port}", flush=True)
    service.serve()


def headers() -> flight.FlightCallOptions:
    """What edt's service wants to see; others do not look at it."""
    return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {os.environ['EDT_TOKEN']}".encode())])


def get(address: str, clients: str, name: str, size: str) -> int:
    """Reads a share of a file with each client, and drops what comes."""
    share = -(-int(size) // int(clients))

    def read(first: int) -> int:
        count = min(share, int(size) - first)
        ticket = json.dumps({"path": name, "as": "bytes", "range": [first, count]})
        with flight.FlightClient(f"grpc+tcp://{address}") as client:
            reader = client.do_get(flight.Ticket(ticket), headers())
            return sum(len(row) for chunk in reader if chunk.data is not None for row in views(chunk.data))

    with ThreadPoolExecutor(int(clients)) as pool:
        return sum(pool.map(read, range(0, int(size), share)))


def views(batch: pa.RecordBatch) -> Iterator[memoryview]:
    """The bytes of a batch, without a copy."""
    for row in batch.column(1):
        yield memoryview(row.as_buffer())


def read(url: str, command: str) -> int:
    """Reads a table of edt's service; returns its bytes in memory."""
    import edt

    return int(edt.flight.read_table(url, plain=True, **json.loads(command)).nbytes)


def fetch(address: str) -> int:
    """Reads a table of a server of tables; returns its bytes in memory."""

    def part(endpoint: flight.FlightEndpoint) -> pa.Table:
        with flight.FlightClient(f"grpc+tcp://{address}") as client:
            return client.do_get(endpoint.ticket).read_all()

    with flight.FlightClient(f"grpc+tcp://{address}") as client:
        endpoints = client.get_flight_info(flight.FlightDescriptor.for_path("table")).endpoints
    with ThreadPoolExecutor(ENDPOINTS) as pool:
        return int(pa.concat_tables(pool.map(part, endpoints)).nbytes)


def measured(work: Callable[..., int], words: list[str]) -> None:
    """Prints what a client's work took."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    moved = work(*words)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"bytes": moved, "wall_s": wall, "cpu_s": cpu, "peak_mib": after.ru_maxrss / 1024}), flush=True)


def main() -> None:
    name, *words = sys.argv[1:]
    match name:
        case "files":
            serve(Files(words[0], Path(words[1])), words[0])
        case "table":
            serve(Table(words[0], Path(words[1])), words[0])
        case "open":
            measured(lambda folder: int(pa.parquet.read_table(folder).nbytes), words)
        case _:
            clients: dict[str, Callable[..., int]] = {"get": get, "read": read, "fetch": fetch}
            measured(clients[name], words)


if __name__ == "__main__":
    main()

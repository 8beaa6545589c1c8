"""A service of tables as others write them with PyArrow: `table_service.py FOLDER [--token T] [--user U:P] [--login]`.

Tables are files FOLDER/NAME.parquet; each is told by the path NAME, with an endpoint for every row group. Every second
endpoint names the address of the service, the others none. What is put is kept as such a file. It has no actions.
"""

from __future__ import annotations

import argparse
import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyarrow import flight


class Tables(flight.FlightServerBase):  # type: ignore[misc]
    """The service."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__("grpc+tcp://127.0.0.1:0", **options)
        self.folder = folder
        self.lock = threading.Lock()

    def note(self, call: str) -> None:
        """Keeps what was asked, for the tests."""
        with self.lock, (self.folder / "calls").open("a") as file:
            file.write(f"{call}\n")

    def file(self, descriptor: flight.FlightDescriptor) -> Path:
        """The file of a table."""
        if descriptor.descriptor_type != flight.DescriptorType.PATH:
            raise pa.ArrowInvalid("this service knows tables by their path")
        return self.folder / f"{b'/'.join(descriptor.path).decode()}.parquet"

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        for file in sorted(self.folder.glob("*.parquet")):
            yield self.info(flight.FlightDescriptor.for_path(file.stem))

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        self.note("info")
        return self.info(descriptor)

    def info(self, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """What there is to tell of a table."""
        file = self.file(descriptor)
        if not file.exists():
            raise KeyError(f"no table {file.stem}")
        facts = pa.parquet.ParquetFile(file)
        endpoints = []
        for group in range(facts.num_row_groups):
            ticket = json.dumps({"table": file.stem, "group": group})
            locations = [f"grpc+tcp://127.0.0.1:{self.port}"] if group % 2 else []
            endpoints.append(flight.FlightEndpoint(ticket, locations))
        rows, size = facts.metadata.num_rows, file.stat().st_size
        return flight.FlightInfo(facts.schema_arrow, descriptor, endpoints, rows, size)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        asked = json.loads(ticket.ticket)
        self.note(f"get {asked['group']}")
        table = pa.parquet.ParquetFile(self.folder / f"{asked['table']}.parquet").read_row_group(asked["group"])
        return flight.RecordBatchStream(table)

    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        self.note("put")
        pa.parquet.write_table(reader.read_all(), self.file(descriptor), row_group_size=3000)


class Open(flight.ServerAuthHandler):  # type: ignore[misc]
    """Lets everyone log in: who comes so far was let in by the header. Without one there is no login at all."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        pass

    def is_valid(self, token: bytes) -> bytes:
        return b""


class Bearer(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in those who have the token, or user and password."""

    def __init__(self, token: str | None, user: str | None) -> None:
        self.allowed = {f"Bearer {token}"} if token else set()
        if user:
            self.allowed.add(f"Basic {base64.b64encode(user.encode()).decode()}")

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        if not self.allowed & set(headers.get("authorization", [])):
            raise flight.FlightUnauthenticatedError("no")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--token")
    parser.add_argument("--user")
    parser.add_argument("--login", action="store_true", help="whether the service has a login")
    asked = parser.parse_args()
    (asked.folder / "calls").touch()
    middleware = {"bearer": Bearer(asked.token, asked.user)} if asked.token or asked.user else {}
    service = Tables(asked.folder, middleware=middleware, auth_handler=Open() if asked.login else None)
    print(f"port {service.port}", flush=True)
    service.serve()


if __name__ == "__main__":
    main()

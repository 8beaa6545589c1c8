"""Tables of a Flight service, read over several connections at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from edt import _edt
from edt._flight.failure import reported
from edt._flight.ordered import Ordered
from edt._flight.place import Place
from edt.errors import CancelledError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edt.flight import ReadOptions
    from edt.options import Size

STREAMS = 8
_SELECTION = ("columns", "rows", "batch_rows")


def read_table(url: str, **options: Unpack[ReadOptions]) -> pa.Table:
    """See `edt.flight.read_table`."""
    source = Source(url, **options)
    with source, ThreadPoolExecutor(source.streams, "edt-flight") as pool:
        try:
            parts = list(pool.map(lambda index: list(source.batches(index)), range(source.endpoints)))
        except BaseException:
            # The pool waits for its threads: they are to end at once, after Ctrl-C too.
            source.cancel()
            raise
    with reported(f"could not put the parts of `{source.place.url}` together"):
        return pa.Table.from_batches([batch for part in parts for batch in part], source.schema)


def open_stream(url: str, buffer: Size, **options: Unpack[ReadOptions]) -> pa.RecordBatchReader:
    """See `edt.flight.open_stream`."""
    limit = _edt.parse_size(buffer)
    source = Source(url, **options)
    return pa.RecordBatchReader.from_batches(source.schema, in_order(source, limit))


def in_order(source: Source, limit: int) -> Iterator[pa.RecordBatch]:
    """All batches of a table, while no more than about `limit` bytes of them wait."""
    with source:
        yield from Ordered(source.batches, source.cancel, source.endpoints, source.streams, limit)


class Source:
    """A table of a Flight service: its schema, and the endpoints that hold its parts in order."""

    def __init__(self, url: str, **options: Unpack[ReadOptions]) -> None:
        selection: dict[str, Any] = {name: options.get(name) for name in _SELECTION if options.get(name) is not None}
        streams = options.get("streams", STREAMS)
        if streams < 1:
            raise InvalidInputError(f"could not read `{url}`", cause="`streams` is less than 1")
        connect: Any = {name: value for name, value in options.items() if name not in (*_SELECTION, "streams")}
        self.place = Place(url, **connect)
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._clients: list[flight.FlightClient] = []
        self._idle: list[flight.FlightClient] = []
        self._readers: set[flight.FlightStreamReader] = set()
        try:
            self._look(selection)
        except BaseException:
            self.close()
            raise
        self.streams = max(1, min(streams, self.endpoints))

    def _look(self, selection: dict[str, Any]) -> None:
        client = self._client(None)
        is_edt = self.place.is_edt(client)
        self._picked = None if is_edt else selection.pop("columns", None)
        if selection and not is_edt:
            raise UnsupportedError(
                f"could not read {' and '.join(selection)} of `{self.place.url}`",
                cause="only the Flight service of edt can be asked for this",
                hint="read all rows, and choose from them here",
            )
        with reported(f"could not read the table `{self.place.url}`"):
            self._info = client.get_flight_info(self._descriptor(is_edt, selection), self.place.call())
            schema = self._info.schema
        self.schema = schema if self._picked is None else self._chosen(schema, self._picked)
        self._idle.append(client)

    def _chosen(self, schema: pa.Schema, names: list[str]) -> pa.Schema:
        for name in names:
            if name not in schema.names:
                raise InvalidInputError(
                    f"could not find the column `{name}` of `{self.place.url}`",
                    hint=f"its columns are {', '.join(f'`{known}`' for known in schema.names[:20])}",
                )
        return pa.schema([schema.field(name) for name in names])

    def _descriptor(self, is_edt: bool, selection: dict[str, Any]) -> flight.FlightDescriptor:
        if not is_edt:
            return flight.FlightDescriptor.for_path(*self.place.path.split("/"))
        command = {"path": self.place.path, "as": "table", **selection}
        return flight.FlightDescriptor.for_command(json.dumps(command))

    @property
    def endpoints(self) -> int:
        """How many parts the table has."""
        return len(self._info.endpoints)

    def batches(self, index: int) -> Iterator[pa.RecordBatch]:
        """The batches of one part, over a connection that no other part uses at the same time."""
        with reported(f"could not read the table `{self.place.url}`"):
            endpoint = self._info.endpoints[index]
            location = self._location(endpoint)
            client = self._client(location)
            reader = client.do_get(endpoint.ticket, self.place.call(location))
            with self._lock:
                self._readers.add(reader)
            if self.stopped.is_set():
                # It was cancelled while the service was asked.
                reader.cancel()
            try:
                for chunk in reader:
                    if self.stopped.is_set():
                        raise CancelledError(f"could not read the table `{self.place.url}`", cause="it was cancelled")
                    if chunk.data is not None:
                        yield chunk.data if self._picked is None else chunk.data.select(self._picked)
            finally:
                with self._lock:
                    self._readers.discard(reader)
            self._give_back(client, location)

    def _location(self, endpoint: flight.FlightEndpoint) -> flight.Location | None:
        """Where the data of an endpoint is; `None` is the service itself."""
        found = list(endpoint.locations)
        return None if not found or any(map(self.place.is_here, found)) else found[0]

    def _client(self, location: flight.Location | None) -> flight.FlightClient:
        with self._lock:
            if location is None and self._idle:
                return self._idle.pop()
        client = self.place.client(location)
        with self._lock:
            self._clients.append(client)
        return client

    def _give_back(self, client: flight.FlightClient, location: flight.Location | None) -> None:
        if location is None:
            with self._lock:
                self._idle.append(client)

    def cancel(self) -> None:
        """Ends what is being read, from another thread."""
        self.stopped.set()
        with self._lock:
            readers = list(self._readers)
        for reader in readers:
            reader.cancel()

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            clients, self._clients, self._idle = self._clients, [], []
        for client in clients:
            client.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

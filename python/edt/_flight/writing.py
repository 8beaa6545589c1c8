"""Tables written to a Flight service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyarrow import flight

from edt._flight.failure import reported
from edt._flight.place import Place
from edt.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edt.flight import FlightOptions

BATCH_BYTES = 1 << 20
"""About the size of a message: safe under the 4 MiB that services take by default."""

_BROKEN = (pa.ArrowException, OSError)
"""What PyArrow raises when a call fails."""


def write_table(data: Any, url: str, overwrite: Literal["replace", "never"], **options: Unpack[FlightOptions]) -> None:
    """See `edt.flight.write_table`."""
    place = Place(url, **options)
    reader = as_reader(data)
    with place.client() as client:
        target = descriptor(place, place.is_edt(client), overwrite)
        with reported(f"could not write the table `{place.url}`"):
            put(client, target, reader, place)


def as_reader(data: Any) -> pa.RecordBatchReader:
    """Takes whatever offers itself as an Arrow stream."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if not hasattr(data, "__arrow_c_stream__"):
        raise InvalidInputError(
            f"could not write a `{type(data).__name__}` as a table",
            cause="it does not offer itself as an Arrow stream",
            hint="give a pyarrow.Table or a RecordBatchReader, or a data frame of pandas 3, Polars or DuckDB",
        )
    return pa.RecordBatchReader.from_stream(data)


def descriptor(place: Place, is_edt: bool, overwrite: str) -> flight.FlightDescriptor:
    """What to write: a command for edt's service, the path for others."""
    if not is_edt:
        return flight.FlightDescriptor.for_path(*place.path.split("/"))
    return flight.FlightDescriptor.for_command(json.dumps({"path": place.path, "as": "table", "overwrite": overwrite}))


def put(
    client: flight.FlightClient, target: flight.FlightDescriptor, reader: pa.RecordBatchReader, place: Place
) -> None:
    """Sends all batches, and waits until the service has said that it is done."""
    writer, replies = client.do_put(target, reader.schema, place.call())
    try:
        for batch in reader:
            for piece in pieces(batch):
                writer.write_batch(piece)
    except BaseException as cause:
        # Only a message that is no row keeps the end of the stream from publishing what came so far.
        with suppress(*_BROKEN):
            writer.write_metadata(json.dumps({"abort": True}).encode())
        try:
            writer.close()
        except _BROKEN as told:
            # A stream that broke says at its end why; one that was given up says no more than that.
            if isinstance(cause, _BROKEN) and not isinstance(told, flight.FlightCancelledError):
                raise
        raise
    writer.done_writing()
    while replies.read() is not None:
        pass
    writer.close()


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of about 1 MiB."""
    rows = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)

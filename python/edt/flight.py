"""Tables of Arrow Flight services: read whole or as a stream, and written. Needs PyArrow: `pip install 'edt[flight]'`.

A URL is `flight://host:port/path`, or `flight+tls://` for encryption on loopback too. The service may be that of
`edt serve --flight`, where the path names a Parquet, Arrow IPC or CSV file or a directory of them, or any other.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from edt.errors import UnsupportedError
from edt.options import Path, Size

if TYPE_CHECKING:
    import pyarrow as _pa
    from typing_extensions import Unpack

__all__ = ["FlightOptions", "ReadOptions", "open_stream", "read_table", "write_table"]


class FlightOptions(TypedDict, total=False):
    """How to reach and trust a Flight service."""

    token_file: Path | None
    """The file with the shared secret; default `EDT_TOKEN`, then the user's configuration directory, then none."""
    plain: bool
    """Whether to go without encryption beyond loopback; default no."""
    tls_roots: Path | None
    """Certificates (PEM) that vouch for it; default a pinned identity, then `SSL_CERT_FILE`, then the system's."""
    known_hosts: Path | None
    """Where pinned identities are kept; default `known_hosts` in the user's configuration directory."""


class ReadOptions(FlightOptions, total=False):
    """What to read of a table, and how."""

    columns: Sequence[str] | None
    """Columns to read, in their order; default all. Others do not travel, if the service is edt's."""
    rows: tuple[int, int] | None
    """The first row, from 0, and how many; default all. Only edt's service can be asked for it."""
    batch_rows: int | None
    """Most rows of a batch; default what the service chooses: edt's makes batches of about 1 MiB."""
    streams: int
    """Most endpoints of the table that are read at once, each over a connection of its own; default 8."""


def read_table(url: str, **options: Unpack[ReadOptions]) -> _pa.Table:
    """Reads a table: all its parts at once, put together in the service's order.

    Args:
        url: The table, as `flight://host:port/path/to/table.parquet`.
        **options: See `edt.flight.ReadOptions`.

    Raises:
        UnsupportedError: PyArrow is not installed, or the service cannot do what was asked.
        Error: The table cannot be read, for example as `NotFoundError`, `RefusedError` or `UnreachableError`.
    """
    table: _pa.Table = _implementation("reading").read_table(url, **options)
    return table


def open_stream(url: str, *, buffer: Size = "64MiB", **options: Unpack[ReadOptions]) -> _pa.RecordBatchReader:
    """Reads a table as a stream of record batches, in the service's order.

    Several parts travel at once while the first is given out. When about `buffer` bytes wait to be taken, the service
    is held back, so a table of any size passes through little memory. Closing or dropping the reader ends it early.

    Args:
        url: The table, as for `read_table`.
        buffer: Most bytes of batches that may wait; one batch more of each stream may come on top.
        **options: See `edt.flight.ReadOptions`.

    Raises:
        UnsupportedError, Error: as for `read_table`; what fails later is raised where the reader is read.
    """
    reader: _pa.RecordBatchReader = _implementation("reading").open_stream(url, buffer, **options)
    return reader


def write_table(
    data: Any, url: str, *, overwrite: Literal["replace", "never"] = "replace", **options: Unpack[FlightOptions]
) -> None:
    """Writes a table, and returns once the service has it.

    edt's service writes a Parquet or an Arrow IPC file, as the end of the name says, and publishes it only when it
    is complete: a reader that raises in the middle leaves nothing behind.

    Args:
        data: A `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`, or what offers itself as an Arrow stream, as
            data frames of pandas and Polars and relations of DuckDB do.
        url: The table, as for `read_table`; for edt's service it ends in `.parquet`, `.arrow`, `.feather` or `.ipc`.
        overwrite: Whether a file that stands there is replaced. Other services than edt's decide this themselves.
        **options: See `edt.flight.FlightOptions`.

    Raises:
        UnsupportedError: PyArrow is not installed, or the service cannot do what was asked.
        Error: The table was not written, for example as `AlreadyExistsError` or `RefusedError`.
    """
    _implementation("writing").write_table(data, url, overwrite, **options)


def _implementation(name: str) -> Any:
    """A module that needs PyArrow, which is imported only now."""
    try:
        importlib.import_module("pyarrow.flight")
    except ImportError as cause:
        raise UnsupportedError(
            "could not use `edt.flight`", cause=str(cause), hint="install PyArrow: pip install 'edt[flight]'"
        ) from cause
    return importlib.import_module(f"edt._flight.{name}")

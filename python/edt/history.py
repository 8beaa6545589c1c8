"""Past transfers as Arrow tables, and where edt keeps what it learned.

All of it lies in `EDT_DATA_DIR`, or `edt` in the user's data directory. The tables need PyArrow: `pip install
'edt[history]'`. Their columns are described in `docs/history.md`: times are seconds since 1970, rates bytes per second,
and what is not known is null. Use these functions rather than another copy of SQLite in the same process: where one
copy closes the file, the locks of the other are gone.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any

from edt import _edt
from edt._edt import agent_file, knowledge_file, path_file
from edt.errors import UnsupportedError
from edt.options import Path, endpoint_text

if TYPE_CHECKING:
    import pyarrow as _pa

__all__ = [
    "agent_file",
    "decisions",
    "import_csv",
    "imported",
    "intervals",
    "knowledge_file",
    "pasts",
    "path",
    "path_file",
    "transfers",
]

# The columns of `pasts`, in the order of the core, where throughput is called goodput.
_PASTS = (
    *(("began_s", "float64"), ("source", "string"), ("destination", "string"), ("bandwidth", "float64")),
    *(("rtt_s", "float64"), ("tcp_buffer", "float64"), ("files", "uint64"), ("bytes", "uint64")),
    *(("concurrency", "int64"), ("parallelism", "int64"), ("pipelining", "int64"), ("throughput", "float64")),
)


def transfers() -> _pa.Table:
    """One row a transfer of this user, in the order in which they began."""
    return _table("transfers", None)


def intervals(id: int | None = None) -> _pa.Table:
    """One row an interval that was measured, of one transfer or of all."""
    return _table("intervals", id)


def decisions(id: int | None = None) -> _pa.Table:
    """One row a decision of the optimizer, with its reason, of one transfer or of all."""
    return _table("decisions", id)


def imported() -> _pa.Table:
    """One row a transfer of another tool, as it was imported, with the label of its import."""
    return _table("imported", None)


def pasts(source: Path, destination: Path) -> _pa.Table:
    """Past transfers as `harp` and `ann` learn from them, stretches of one setting each.

    Those between the machines of the two endpoints come first, each part oldest first; other tools' are among them.
    What cannot be read within a second is left out, the oldest first.
    """
    pa = _pyarrow()
    found = json.loads(_edt.history_pasts(endpoint_text(source), endpoint_text(destination)))
    for past in found:
        past["throughput"] = past.pop("goodput")
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _PASTS])
    table: _pa.Table = pa.Table.from_pylist(found, schema=schema)
    return table


def import_csv(file: str | os.PathLike[str], *, label: str | None = None) -> int | None:
    """Adds the transfers of other tools in a CSV file, all of them or none, and says how many they are.

    Args:
        file: In the form that `docs/history.md` describes; it is read once, and may be a pipe.
        label: Tells them from others; default the name of the file.

    Returns:
        How many were added; `None` if the same file was imported before.

    Raises:
        InvalidInputError: The file is not of that form; the text names line and column.
    """
    return _edt.history_import(file, os.path.basename(os.fspath(file)) if label is None else label)


def path() -> pathlib.Path:
    """Where past transfers are kept; the file may not exist yet."""
    return _edt.history_file()


def _table(name: str, id: int | None) -> _pa.Table:
    pa = _pyarrow()
    batches: list[_pa.RecordBatch] = []
    place: tuple[int, int] | None = None
    while not batches or place is not None:
        columns, place = _edt.history_batch(name, id, place)
        arrays = [pa.array(values, getattr(pa, "bool_" if kind == "bool" else kind)()) for _, kind, values in columns]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in columns]))
    table: _pa.Table = pa.Table.from_batches(batches)
    return table


def _pyarrow() -> Any:
    """PyArrow, which is imported only now."""
    try:
        import pyarrow as pa
    except ImportError as cause:
        raise UnsupportedError(
            "could not make tables of the history", cause=str(cause), hint="install PyArrow: pip install 'edt[history]'"
        ) from cause
    return pa

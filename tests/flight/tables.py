"""Seeded tables, files that hold them, and a service of tables that is not edt's."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
GROUP_ROWS = 3000


def sample(rows: int = 10_000, seed: object = 0) -> pa.Table:
    """A table of numbers, texts with gaps, and lists."""
    made = random.Random(f"table {seed}")
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "value": pa.array([made.random() for _ in range(rows)], pa.float64()),
            "name": pa.array([None if row % 7 == 0 else f"name {row % 100}" for row in range(rows)], pa.string()),
            "parts": pa.array([list(range(row % 4)) for row in range(rows)], pa.list_(pa.int32())),
        }
    )


def flat(rows: int = 10_000, seed: object = 0) -> pa.Table:
    """The same without lists and gaps, as CSV can hold it."""
    table = sample(rows, seed).select(["id", "value"])
    return table.append_column("word", pa.array([f"word {row % 100}" for row in range(rows)]))


def write_parquet(path: Path, table: pa.Table, **options: Any) -> None:
    """Writes a Parquet file of several row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(table, path, **{"row_group_size": GROUP_ROWS, **options})


def write_ipc(path: Path, table: pa.Table, form: str = "file") -> None:
    """Writes an Arrow IPC file, or stream."""
    new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=GROUP_ROWS)


def write_csv(path: Path, table: pa.Table) -> None:
    """Writes a CSV file with a line of names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.csv.write_csv(table, path)


class TableService:
    """PyArrow's server of tables with several endpoints, in a process of its own; see `table_service.py`."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir()
        self.folder = folder
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, HERE / "table_service.py", str(folder), *options],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("port "), (folder / "log").read_text()
        self.port = int(line.split()[1])

    def url(self, name: str = "") -> str:
        """The URL of a table."""
        return f"flight://127.0.0.1:{self.port}/{name}"

    def calls(self) -> list[str]:
        """What was asked of it."""
        return (self.folder / "calls").read_text().splitlines()

    def stop(self) -> None:
        """Ends it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

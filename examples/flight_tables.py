"""Serves a directory to clients of Arrow Flight, writes a table to it, and reads it back, whole and as a stream."""

import os
import secrets
import tempfile

import pyarrow as pa

import edt


def main() -> None:
    os.environ.setdefault("EDT_TOKEN", secrets.token_hex(32))
    with tempfile.TemporaryDirectory() as directory, edt.serve(directory, flight="127.0.0.1:0") as server:
        url = f"{server.flight_url}"
        numbers = pa.table({"x": range(100_000), "square": [x * x for x in range(100_000)]})
        edt.flight.write_table(numbers, url + "numbers.parquet")

        table = edt.flight.read_table(url + "numbers.parquet", columns=["square"], rows=(10, 5))
        print(table.column("square").to_pylist())

        # Batch by batch: a table of any size passes through little memory.
        with edt.flight.open_stream(url + "numbers.parquet", columns=["x"]) as stream:
            print(sum(batch.num_rows for batch in stream), "rows")


if __name__ == "__main__":
    main()

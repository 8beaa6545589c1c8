"""Begins to put a file, says so, and waits: `python half_put.py PORT NAME`; the secret comes from EDT_TOKEN."""

from __future__ import annotations

import json
import os
import signal
import sys

import pyarrow as pa
from pyarrow import flight

ROWS = 8
SIZE = 1 << 20


def main() -> None:
    port, name = sys.argv[1:]
    client = flight.FlightClient(f"grpc+tcp://127.0.0.1:{port}")
    headers = [(b"authorization", f"Bearer {os.environ['EDT_TOKEN']}".encode())]
    schema = pa.schema([pa.field("offset", pa.uint64(), nullable=False), pa.field("data", pa.binary(), nullable=False)])
    form = "bytes" if name.endswith(".bin") else "table"
    descriptor = flight.FlightDescriptor.for_command(json.dumps({"path": name, "as": form}))
    writer, _ = client.do_put(descriptor, schema, flight.FlightCallOptions(headers=headers))
    for row in range(ROWS):
        writer.write_batch(pa.record_batch([[row * SIZE], [os.urandom(SIZE)]], schema=schema))
    print("sent", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()

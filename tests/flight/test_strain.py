"""Clients that stall, many clients at once, and batches above the limits that clients have by default."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyarrow import flight

from flight.service import Client, Service, Start, batch, named, pieces
from flight.tables import sample, write_parquet
from harness import MIB, fill, wait_until

LARGE = 300 * MIB
STALLED = 6
WINDOW = 32 * MIB
"""What the service may have sent that a client has not taken, on one stream."""


@pytest.fixture
def large(service: Service) -> None:
    """A file that is larger than all windows, and one to read beside it."""
    with (service.root / "large.bin").open("wb") as file:
        file.truncate(LARGE)
    fill(service.root / "small.bin", 5 * MIB, "small")


def stalled(client: Client, path: str = "large.bin") -> flight.FlightStreamReader:
    """A read of which only the first batch is taken."""
    ticket = flight.Ticket(named(path, **{"as": "bytes"}).command)
    reader = client.flight.do_get(ticket, client.patient)
    assert reader.read_chunk().data.num_rows == 1
    return reader


def settled(measure: Callable[[], float]) -> float:
    """A figure once it has stopped to grow."""
    before, now = -1.0, measure()
    limit = time.monotonic() + 10
    while now > before + 1 and time.monotonic() < limit:
        time.sleep(0.3)
        before, now = now, measure()
    return now


def test_clients_that_stall_cost_little_memory_and_harm_nobody(service: Service, large: None) -> None:
    clients = [service.client() for _ in range(STALLED)]
    before = service.rss_mib()
    readers = [stalled(client) for client in clients]
    grown = settled(service.rss_mib) - before
    # A client takes a window of the kernel's and its own; the rest waits at the service.
    assert grown < STALLED * (WINDOW + 4 * MIB) / MIB + 30, f"{grown:.0f} MiB"
    begin = time.monotonic()
    with service.client() as other:
        assert other.content("small.bin") == (service.root / "small.bin").read_bytes()
    assert time.monotonic() - begin < 5
    for reader in readers:
        reader.cancel()
    for client in clients:
        client.flight.close()


def test_a_read_that_was_cancelled_frees_its_place(serve_flight: Start) -> None:
    service = serve_flight("--max-sessions", "3")
    with (service.root / "large.bin").open("wb") as file:
        file.truncate(LARGE)
    with service.client() as client:
        readers = [stalled(client) for _ in range(3)]
        with pytest.raises((pa.ArrowException, OSError, MemoryError), match="busy"):
            client.act("stat", path="")
        readers.pop().cancel()

        def is_free() -> bool:
            try:
                return bool(client.act("stat", path="large.bin"))
            except (pa.ArrowException, OSError, MemoryError):
                return False

        wait_until(is_free, "the end of a cancelled read")
        for reader in readers:
            reader.cancel()


def test_a_put_that_stalls_holds_up_nobody(service: Service, large: None) -> None:
    with service.client() as client, service.client() as other:
        writer, _ = client.flight.do_put(named("x.bin", **{"as": "bytes"}), batch((0, b"")).schema, client.call)
        writer.write_batch(batch((0, b"first")))
        assert other.put("y.bin", pieces(b"second" * MIB))[-1]["size"] == 6 * MIB
        writer.write_batch(batch((5, b" and last")))
        writer.close()
    assert (service.root / "x.bin").read_bytes() == b"first and last"


def test_a_hundred_clients_at_once_read_and_write(service: Service) -> None:
    fill(service.root / "in.bin", 3 * MIB + 1, "in")
    content = (service.root / "in.bin").read_bytes()
    write_parquet(service.root / "t.parquet", sample(5000))
    table = sample(5000)
    ready = threading.Barrier(100, timeout=30)

    def client(number: int) -> bool:
        with service.client() as own:
            ready.wait()
            match number % 3:
                case 0:
                    return own.content("in.bin") == content
                case 1:
                    return bool(own.table("t.parquet").equals(table))
                case _:
                    own.put(f"out/{number}.bin", pieces(content))
                    return (service.root / "out" / f"{number}.bin").read_bytes() == content

    with ThreadPoolExecutor(100) as pool:
        assert all(pool.map(client, range(100)))
    assert service.leftovers() == []


def test_a_batch_above_every_default_limit_is_taken(service: Service, client: Client) -> None:
    content = bytes(range(256)) * (24 * MIB // 256)
    client.put("huge-row.bin", [(0, content)])
    assert (service.root / "huge-row.bin").read_bytes() == content
    table = pa.table({"text": ["x" * MIB] * 24})
    descriptor = named("huge.parquet", **{"as": "table"})
    writer, _ = client.flight.do_put(descriptor, table.schema, client.call)
    with writer:
        writer.write_table(table, max_chunksize=24)
    # What goes out is in small batches again, but for a row that is larger by itself.
    found = client.table("huge.parquet")
    assert found.equals(table)
    write_parquet(service.root / "row.parquet", pa.table({"text": ["y" * (9 * MIB)]}))
    assert client.table("row.parquet").column("text")[0].as_py() == "y" * (9 * MIB)

"""Puts: whole files, uploads in any order on many streams, tables; and what is left when they end early: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from flight.service import BYTES, Client, Service, batch, named, pieces, refused
from flight.tables import sample
from harness import MIB, SECRET, fill, wait_until

CONTENT = os.urandom(40 * MIB + 3)
HERE = Path(__file__).resolve().parent


def is_clean(service: Service) -> bool:
    """Whether neither a file nor a beginning of one is there."""
    return service.leftovers() == [] and not any(path.is_file() for path in service.root.rglob("*"))


def test_a_put_is_the_file_with_its_digests(service: Service, client: Client) -> None:
    said = client.put("sub/new.bin", pieces(CONTENT), size=len(CONTENT), modified_ns=10**18, mode=0o640)
    path = service.root / "sub" / "new.bin"
    assert path.read_bytes() == CONTENT
    assert (path.stat().st_mtime_ns, path.stat().st_mode & 0o777) == (10**18, 0o640)
    assert said[-1]["size"] == len(CONTENT)
    assert [each["written"] for each in said[:-1]] == sorted(each["written"] for each in said[:-1])
    assert said[-1] == client.act("checksum", path="sub/new.bin")[0]
    assert service.leftovers() == []


def test_a_put_with_the_right_checksum_is_published_and_with_a_wrong_one_not(service: Service, client: Client) -> None:
    right = client.put("a.bin", pieces(CONTENT))[-1]["crc64nvme"]
    client.put("b.bin", pieces(CONTENT), crc64nvme=right)
    wrong = f"{int(right, 16) ^ 1:016x}"
    with pytest.raises(pa.ArrowException):
        client.put("c.bin", pieces(CONTENT), crc64nvme=wrong)
    assert sorted(path.name for path in service.root.iterdir() if path.is_file()) == ["a.bin", "b.bin"]
    assert service.leftovers() == []


@pytest.mark.parametrize(
    ("rows", "command"),
    [
        ([(0, b"ab"), (3, b"d")], {}),
        ([(0, b"ab"), (1, b"cd")], {}),
        ([(1, b"ab")], {}),
        ([(0, b"ab")], {"size": 3}),
        ([(0, b"abcd")], {"size": 3}),
    ],
    ids=["gap", "overlap", "late-start", "short", "long"],
)
def test_a_put_that_is_not_one_whole_file_is_refused(
    service: Service, client: Client, rows: list[tuple[int, bytes]], command: dict[str, int]
) -> None:
    with pytest.raises(pa.ArrowException):
        client.put("new.bin", rows, **command)
    wait_until(lambda: is_clean(service), "the end of the put")


def test_an_empty_file_can_be_put(service: Service, client: Client) -> None:
    assert client.put("empty", [], size=0)[-1]["size"] == 0
    assert (service.root / "empty").read_bytes() == b""


def test_a_put_replaces_a_file_unless_it_must_not(service: Service, client: Client) -> None:
    fill(service.root / "there.bin", 10, "old")
    old = (service.root / "there.bin").read_bytes()
    with pytest.raises((pa.ArrowException, OSError)):
        client.put("there.bin", [(0, b"new")], overwrite="never")
    assert (service.root / "there.bin").read_bytes() == old
    client.put("there.bin", [(0, b"new")])
    assert (service.root / "there.bin").read_bytes() == b"new"


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([pa.field("data", pa.binary())]),
        pa.schema([pa.field("offset", pa.int32()), pa.field("data", pa.binary())]),
        pa.schema([pa.field("offset", pa.uint64()), pa.field("data", pa.list_(pa.uint8()))]),
    ],
    ids=["no-offset", "wrong-offset", "wrong-data"],
)
def test_bytes_in_other_columns_are_refused(service: Service, client: Client, schema: pa.Schema) -> None:
    with refused(pa.ArrowInvalid, "offset"):
        writer, replies = client.flight.do_put(named("x.bin", **{"as": "bytes"}), schema, client.call)
        with writer:
            writer.done_writing()
            replies.read()
    assert is_clean(service)


def test_an_upload_takes_rows_in_any_order_on_many_streams(service: Service, client: Client) -> None:
    begun = client.act("begin", path="up.bin", size=len(CONTENT), modified_ns=10**18)[0]
    assert begun["ranges"] == []
    rows = pieces(CONTENT)
    rows.reverse()

    def stream(number: int) -> list[list[int]]:
        with service.client() as own:
            said = own.put("up.bin", rows[number::4], upload=begun["upload"])
        return [span for each in said for span in each["ranges"]]

    with ThreadPoolExecutor(4) as pool:
        told = [span for spans in pool.map(stream, range(4)) for span in spans]
    assert sum(count for _, count in told) == len(CONTENT)
    assert not (service.root / "up.bin").exists()
    digests = client.act("commit", upload=begun["upload"])[0]
    assert (service.root / "up.bin").read_bytes() == CONTENT
    assert (service.root / "up.bin").stat().st_mtime_ns == 10**18
    assert digests == client.act("checksum", path="up.bin")[0]
    assert service.leftovers() == []


def test_an_upload_with_a_key_goes_on_after_sigkill_of_the_service(service: Service) -> None:
    half = len(CONTENT) // 2 // MIB * MIB
    body = {"path": "up.bin", "size": len(CONTENT), "key": "mine"}
    with service.client() as client:
        begun = client.act("begin", **body)[0]
        client.put("up.bin", pieces(CONTENT[:half]), upload=begun["upload"])
    service.kill()
    service.start()
    with service.client() as client:
        again = client.act("begin", **body)[0]
        missing = not_in(again["ranges"], len(CONTENT))
        assert 0 < sum(count for _, count in missing) <= len(CONTENT) - half + 4 * MIB
        rows = [(first, CONTENT[first : first + count]) for first, count in missing]
        for first, data in rows:
            client.put("up.bin", [(first + at, piece) for at, piece in pieces(data)], upload=again["upload"])
        client.act("commit", upload=again["upload"])
    assert (service.root / "up.bin").read_bytes() == CONTENT
    assert service.leftovers() == []


def not_in(ranges: list[list[int]], size: int) -> list[tuple[int, int]]:
    """The gaps between ranges."""
    gaps, at = [], 0
    for first, count in [*ranges, [size, 0]]:
        if first > at:
            gaps.append((at, first - at))
        at = first + count
    return gaps


def test_an_upload_that_is_not_whole_is_not_published(service: Service, client: Client) -> None:
    begun = client.act("begin", path="up.bin", size=len(CONTENT))[0]
    client.put("up.bin", pieces(CONTENT[: 8 * MIB]), upload=begun["upload"])
    with pytest.raises(pa.ArrowException):
        client.act("commit", upload=begun["upload"])
    assert not (service.root / "up.bin").exists()
    client.act("abort", upload=begun["upload"])
    assert is_clean(service)


def test_a_row_that_does_not_fit_into_the_upload_is_refused(service: Service, client: Client) -> None:
    begun = client.act("begin", path="up.bin", size=10)[0]
    for offset in (8, 10, 2**63, 2**64 - 2):
        with refused(pa.ArrowInvalid):
            client.put("up.bin", [(offset, b"abc")], upload=begun["upload"])
    client.act("abort", upload=begun["upload"])
    assert is_clean(service)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather", "t.ipc"])
def test_a_table_is_written_as_its_name_says(service: Service, client: Client, name: str) -> None:
    table = sample()
    client.put_table(f"sub/{name}", table)
    path = service.root / "sub" / name
    read = pa.parquet.read_table if name.endswith("parquet") else lambda path: pa.ipc.open_file(path).read_all()
    assert read(path).equals(table)
    assert client.table(f"sub/{name}").equals(table)
    assert service.leftovers() == []


def test_a_table_for_another_name_is_refused(service: Service, client: Client) -> None:
    with refused(pa.ArrowInvalid, "t.csv"):
        client.put_table("t.csv", sample(10))
    assert is_clean(service)


def test_a_written_parquet_file_is_compressed_by_zstd(service: Service, client: Client) -> None:
    client.put_table("t.parquet", sample())
    assert pa.parquet.ParquetFile(service.root / "t.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("name", ["x.bin", "x.parquet", "x.arrow"])
def test_a_client_that_is_killed_in_mid_put_leaves_nothing_behind(service: Service, client: Client, name: str) -> None:
    # The child says when it has sent what it sends, and then waits to be killed.
    child = subprocess.Popen(
        [sys.executable, HERE / "half_put.py", str(service.flight_port), name],
        env={**os.environ, "EDT_TOKEN": SECRET},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "sent\n"
    assert not (service.root / name).exists()
    wait_until(lambda: bool(service.leftovers()), "the beginning of the put")
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    wait_until(lambda: is_clean(service), "the end of the put")
    client.put("after.bin", [(0, b"the service goes on")])


@pytest.mark.parametrize("name", ["x.bin", "x.parquet"])
def test_a_client_that_says_so_gives_its_put_up(service: Service, client: Client, name: str) -> None:
    first = batch((0, CONTENT[:MIB])) if name == "x.bin" else sample(5000).to_batches()[0]
    form = "bytes" if name == "x.bin" else "table"
    writer, _ = client.flight.do_put(named(name, **{"as": form}), first.schema, client.call)
    writer.write_batch(first)
    writer.write_metadata(b'{"abort": true}')
    with pytest.raises(pa.ArrowException):
        writer.close()
    wait_until(lambda: is_clean(service), "the end of the put")


def test_a_service_that_is_killed_in_mid_put_publishes_nothing(service: Service) -> None:
    with service.client() as client:
        writer, _ = client.flight.do_put(named("x.bin", **{"as": "bytes"}), BYTES, client.call)
        writer.write_batch(batch((0, CONTENT[:MIB])))
        wait_until(lambda: bool(service.leftovers()), "the beginning of the put")
        service.kill()
        with pytest.raises(pa.ArrowException):
            writer.close()
    service.start()
    assert not (service.root / "x.bin").exists()
    with service.client() as client:
        client.put("x.bin", pieces(CONTENT))
    assert (service.root / "x.bin").read_bytes() == CONTENT

"""Files as tables: Parquet, Arrow IPC, CSV and folders of them; projection, rows, batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import flight

from flight.service import Client, Service, refused
from flight.tables import GROUP_ROWS, flat, sample, write_csv, write_ipc, write_parquet
from harness import MIB

ROWS = 10_000
GROUPS = -(-ROWS // GROUP_ROWS)


@pytest.fixture
def table(service: Service) -> pa.Table:
    """The same table in files of all kinds."""
    table = sample(ROWS)
    write_parquet(service.root / "t.parquet", table)
    write_ipc(service.root / "file.arrow", table)
    write_ipc(service.root / "stream.arrow", table, "stream")
    write_csv(service.root / "t.csv", flat(ROWS))
    return table


def test_a_parquet_file_has_an_endpoint_for_each_row_group(client: Client, table: pa.Table) -> None:
    info = client.info("t.parquet")
    assert (len(info.endpoints), info.total_records) == (GROUPS, ROWS)
    assert info.schema.equals(table.schema)
    parts = [client.flight.do_get(endpoint.ticket, client.call).read_all() for endpoint in info.endpoints]
    assert [part.num_rows for part in parts] == [3000, 3000, 3000, 1000]
    assert pa.concat_tables(parts).equals(table)


@pytest.mark.parametrize("name", ["file.arrow", "stream.arrow"])
def test_an_ipc_file_or_stream_is_its_table(client: Client, table: pa.Table, name: str) -> None:
    assert client.info(name).schema.equals(table.schema)
    assert client.table(name).equals(table)


def test_an_ipc_file_tells_its_rows(client: Client, table: pa.Table) -> None:
    assert client.info("file.arrow").total_records == ROWS


def test_a_csv_file_has_the_types_that_its_first_rows_show(client: Client, table: pa.Table) -> None:
    found = client.table("t.csv")
    expected = flat(ROWS)
    assert found.schema.names == expected.schema.names
    assert [str(field.type) for field in found.schema] == ["int64", "double", "string"]
    assert found.to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("compression", ["zstd", "lz4", "snappy", "gzip", "brotli", "none"])
def test_every_compression_of_parquet_is_read(service: Service, client: Client, compression: str) -> None:
    write_parquet(service.root / "c.parquet", sample(1000), compression=compression)
    assert client.table("c.parquet").equals(sample(1000))


@pytest.mark.parametrize("name", ["t.parquet", "file.arrow", "stream.arrow"])
@pytest.mark.parametrize("columns", [["name"], ["parts", "id"]])
def test_only_the_chosen_columns_come_in_their_order(
    client: Client, table: pa.Table, name: str, columns: list[str]
) -> None:
    found = client.table(name, columns=columns)
    assert found.equals(table.select(columns))


def test_a_column_that_is_not_there_is_named(client: Client, table: pa.Table) -> None:
    with refused(pa.ArrowException, "no_such_column"):
        client.table("t.parquet", columns=["no_such_column"])


@pytest.mark.parametrize("name", ["t.parquet", "file.arrow", "stream.arrow", "t.csv"])
@pytest.mark.parametrize("rows", [(0, 1), (2999, 2), (100, 8000), (9999, 1), (0, ROWS)])
def test_a_range_of_rows_is_exactly_that(client: Client, table: pa.Table, name: str, rows: tuple[int, int]) -> None:
    expected = flat(ROWS) if name.endswith(".csv") else table
    found = client.table(name, rows=list(rows), columns=["id", "value"])
    assert found.equals(expected.select(["id", "value"]).slice(*rows))


def test_batches_have_at_most_the_rows_that_were_asked_for(client: Client, table: pa.Table) -> None:
    for rows in (1, 500, 2048):
        info = client.info("t.parquet", batch_rows=rows, rows=[0, 4000])
        for endpoint in info.endpoints:
            batches = client.flight.do_get(endpoint.ticket, client.call).read_all().to_batches()
            assert max(batch.num_rows for batch in batches) <= rows
    assert client.table("t.parquet", batch_rows=777).equals(table)


def test_a_batch_of_long_rows_stays_small(service: Service, client: Client) -> None:
    table = pa.table({"text": ["x" * 100_000] * 300})
    write_parquet(service.root / "wide.parquet", table, row_group_size=300)
    for endpoint in client.info("wide.parquet").endpoints:
        reader = client.flight.do_get(endpoint.ticket, client.call)
        assert max(chunk.data.nbytes for chunk in reader if chunk.data is not None) <= 2 * MIB
    assert client.table("wide.parquet").equals(table)


@pytest.mark.parametrize(
    ("write", "ending"),
    [(write_parquet, "parquet"), (write_ipc, "arrow"), (write_csv, "csv")],
    ids=["parquet", "arrow", "csv"],
)
def test_a_folder_is_the_table_of_its_files_by_name(
    service: Service, client: Client, write: object, ending: str
) -> None:
    assert callable(write)
    (service.root / "folder").mkdir()
    parts = [flat(1000, number) for number in range(3)]
    for number in (2, 0, 1):
        write(service.root / "folder" / f"part-{number}.{ending}", parts[number])
    info = client.info("folder")
    assert len(info.endpoints) >= 3
    assert client.table("folder").equals(pa.concat_tables(parts))
    rows = client.table("folder", rows=[900, 1200])
    assert rows.equals(pa.concat_tables(parts).slice(900, 1200))


def test_files_of_a_folder_that_do_not_agree_are_named(service: Service, client: Client) -> None:
    write_parquet(service.root / "folder" / "a.parquet", sample(10))
    write_parquet(service.root / "folder" / "odd.parquet", sample(10).drop_columns(["name"]))
    with refused(pa.ArrowException, "odd.parquet"):
        client.table("folder")


def test_types_survive(service: Service, client: Client) -> None:
    table = pa.table(
        {
            "when": pa.array([1, None, 3], pa.timestamp("us", "UTC")),
            "exact": pa.array(["1.25", None, "3.50"]).cast(pa.decimal128(9, 2)),
            "pair": pa.array([{"a": 1, "b": "x"}, None, {"a": 3, "b": None}]),
            "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
            "large": pa.array(["p", None, "q"], pa.large_string()),
            "flag": [True, False, None],
        }
    )
    write_parquet(service.root / "types.parquet", table)
    write_ipc(service.root / "types.arrow", table)
    assert client.table("types.parquet").to_pylist() == table.to_pylist()
    assert client.table("types.arrow").schema.equals(table.schema)
    assert client.table("types.arrow").equals(table)


def test_a_table_without_rows_has_its_schema(service: Service, client: Client) -> None:
    write_parquet(service.root / "none.parquet", sample(0))
    info = client.info("none.parquet")
    assert info.schema.equals(sample(0).schema) and info.total_records == 0
    assert client.table("none.parquet").num_rows == 0


def test_a_file_that_is_not_what_its_name_says_is_refused(service: Service, client: Client) -> None:
    for name in ("bad.parquet", "bad.arrow"):
        (service.root / name).write_bytes(b"this is no table")
        with refused(pa.ArrowException, name):
            client.table(name)
    with refused(pa.ArrowException, "t.txt"):
        (service.root / "t.txt").write_text("a,b\n1,2\n")
        client.table("t.txt")


def test_a_parquet_file_can_still_be_read_as_bytes(service: Service, client: Client, table: pa.Table) -> None:
    assert client.content("t.parquet") == (service.root / "t.parquet").read_bytes()


def test_a_table_that_changed_since_it_was_described_is_refused(
    service: Service, client: Client, table: pa.Table
) -> None:
    info = client.info("t.parquet")
    write_parquet(service.root / "t.parquet", sample(ROWS + 1, "changed"))
    with refused(pa.ArrowException, "changed"):
        client.flight.do_get(info.endpoints[0].ticket, client.call).read_all()


def test_an_exchange_gives_a_table(client: Client, table: pa.Table) -> None:
    descriptor = flight.FlightDescriptor.for_command(b'{"path": "t.parquet", "as": "table"}')
    writer, reader = client.flight.do_exchange(descriptor, client.call)
    with writer:
        writer.done_writing()
        assert reader.read_all().equals(table)

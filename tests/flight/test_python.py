"""`edt.flight` in Python: tables read whole and as streams, written, and handed to pandas, Polars and DuckDB."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyarrow import flight

import edt
from edt._flight.place import Place
from endpoints.servers.certificate import certificate
from flight.service import Service, Start
from flight.tables import TableService, sample, write_parquet
from harness import MIB, SECRET, Edt, wait_until


@pytest.fixture(autouse=True)
def environment(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret and a configuration of the test's own, for this process."""
    monkeypatch.setenv("EDT_TOKEN", SECRET)
    monkeypatch.setenv("EDT_CONFIG_DIR", str(scratch / "config"))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)


@pytest.fixture
def table(service: Service) -> pa.Table:
    """A table of the service."""
    write_parquet(service.root / "t.parquet", sample())
    return sample()


def test_a_table_is_read_whole_in_its_order(service: Service, table: pa.Table) -> None:
    for streams in (1, 3, 64):
        assert edt.flight.read_table(service.flight("t.parquet"), streams=streams).equals(table)


def test_columns_and_rows_are_chosen_by_the_service(service: Service, table: pa.Table) -> None:
    found = edt.flight.read_table(service.flight("t.parquet"), columns=["name", "id"], rows=(2500, 1000), batch_rows=99)
    assert found.equals(table.select(["name", "id"]).slice(2500, 1000))
    assert max(batch.num_rows for batch in found.to_batches()) <= 99


def test_an_option_that_there_is_not_is_refused(service: Service, table: pa.Table) -> None:
    url = service.flight("t.parquet")
    with pytest.raises(TypeError, match="unexpected keyword argument 'colums'"):
        edt.flight.read_table(url, colums=["id"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'stream'"):
        edt.flight.open_stream(url, stream=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'columns'"):
        edt.flight.write_table(table, url, columns=["id"])  # type: ignore[call-arg]


def test_a_server_that_is_read_only_is_asked_for_columns_and_rows_too(serve_flight: Start) -> None:
    service = serve_flight("--read-only")
    write_parquet(service.root / "t.parquet", sample())
    found = edt.flight.read_table(service.flight("t.parquet"), columns=["id"], rows=(2500, 1000))
    assert found.equals(sample().select(["id"]).slice(2500, 1000))


def test_a_stream_gives_the_same_in_the_same_order(service: Service, table: pa.Table) -> None:
    with edt.flight.open_stream(service.flight("t.parquet"), columns=["id"], buffer="1MiB") as reader:
        assert reader.schema.names == ["id"]
        assert reader.read_all().equals(table.select(["id"]))


def test_a_stream_that_nobody_reads_holds_the_service_back(service: Service) -> None:
    wide = pa.table({"text": ["x" * 1000] * 300_000})
    write_parquet(service.root / "wide.parquet", wide, row_group_size=50_000, compression="none", use_dictionary=False)
    before = pa.total_allocated_bytes()
    reader = edt.flight.open_stream(service.flight("wide.parquet"), buffer="16MiB", streams=3)
    first = reader.read_next_batch()
    sizes: list[int] = []

    def still() -> bool:
        sizes.append(pa.total_allocated_bytes() - before)
        return len(sizes) > 30 and sizes[-1] == sizes[-30]

    wait_until(still, "the stream to stand still")
    assert first.num_rows > 0 and sizes[-1] < 16 * MIB + 16 * MIB
    assert first.num_rows + sum(batch.num_rows for batch in reader) == wide.num_rows


def test_a_stream_that_is_dropped_ends_its_threads(service: Service, table: pa.Table) -> None:
    def threads() -> int:
        return sum(thread.name.startswith("edt-flight") for thread in threading.enumerate())

    reader = edt.flight.open_stream(service.flight("t.parquet"), batch_rows=10)
    reader.read_next_batch()
    assert threads() > 0
    del reader
    gc.collect()
    wait_until(lambda: threads() == 0, "the end of the threads")


@pytest.mark.parametrize("name", ["w.parquet", "sub/w.arrow"])
def test_a_table_is_written(service: Service, name: str) -> None:
    edt.flight.write_table(sample(), service.flight(name))
    assert edt.flight.read_table(service.flight(name)).equals(sample())
    edt.flight.write_table(sample(10), service.flight(name))
    with pytest.raises(edt.AlreadyExistsError):
        edt.flight.write_table(sample(20), service.flight(name), overwrite="never")
    assert edt.flight.read_table(service.flight(name)).num_rows == 10


def test_a_reader_that_raises_leaves_nothing_behind(service: Service) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from sample().to_batches(max_chunksize=1000)
        raise ZeroDivisionError("the source failed")

    reader = pa.RecordBatchReader.from_batches(sample().schema, batches())
    with pytest.raises(ZeroDivisionError):
        edt.flight.write_table(reader, service.flight("w.parquet"))
    wait_until(lambda: service.leftovers() == [], "the end of the put")
    assert not (service.root / "w.parquet").exists()


def test_a_stream_goes_from_one_table_to_another(service: Service, table: pa.Table) -> None:
    with edt.flight.open_stream(service.flight("t.parquet")) as reader:
        edt.flight.write_table(reader, service.flight("copy.parquet"))
    assert pa.parquet.read_table(service.root / "copy.parquet").equals(table)


def test_a_table_of_another_service_is_read_and_written(table_service: Callable[..., TableService]) -> None:
    service = table_service("--token", SECRET)
    write_parquet(service.folder / "t.parquet", sample())
    assert edt.flight.read_table(service.url("t")).equals(sample())
    picked = edt.flight.open_stream(service.url("t"), columns=["name"]).read_all()
    assert picked.equals(sample().select(["name"]))
    with pytest.raises(edt.UnsupportedError, match="rows"):
        edt.flight.read_table(service.url("t"), rows=(0, 5))
    edt.flight.write_table(sample(77), service.url("new"))
    assert edt.flight.read_table(service.url("new")).equals(sample(77))


def test_failures_are_those_of_edt(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(edt.NotFoundError, match=r"nothing\.parquet"):
        edt.flight.read_table(service.flight("nothing.parquet"))
    with pytest.raises(edt.InvalidInputError):
        edt.flight.write_table(sample(5), service.flight("t.txt"))
    with pytest.raises(edt.InvalidInputError, match="Arrow stream"):
        edt.flight.write_table([1, 2, 3], service.flight("t.parquet"))
    for url in ("http://localhost/x", "flight:///x", "flight://h:0/x", "flight://h:1/x?columns=a"):
        with pytest.raises(edt.InvalidInputError, match="hint"):
            edt.flight.read_table(url)
    with pytest.raises(edt.UnreachableError):
        edt.flight.read_table("flight://127.0.0.1:1/x")
    monkeypatch.setenv("EDT_TOKEN", "another secret that is long enough")
    with pytest.raises(edt.RefusedError, match="hint"):
        edt.flight.read_table(service.flight("t.parquet"))


def test_the_secret_is_found_in_a_file_too(
    service: Service, table: pa.Table, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDT_TOKEN")
    (scratch / "token").write_text(SECRET)
    assert edt.flight.read_table(service.flight("t.parquet"), token_file=scratch / "token").equals(table)


def test_a_certificate_is_trusted_by_its_authority(serve_flight: Start, scratch: Path) -> None:
    made = certificate(scratch)
    service = serve_flight("--tls-cert", str(made.chain), "--tls-key", str(made.key))
    write_parquet(service.root / "t.parquet", sample(10))
    url = service.flight("t.parquet", "flight+tls")
    assert edt.flight.read_table(url, tls_roots=made.authority).equals(sample(10))
    with pytest.raises(edt.UnreachableError):
        edt.flight.read_table(url)


def test_a_server_of_this_process_has_a_flight_port(scratch: Path) -> None:
    write_parquet(scratch / "t.parquet", sample(10))
    with edt.serve(scratch, flight="127.0.0.1:0") as server:
        assert server.flight_url
        assert edt.flight.read_table(f"{server.flight_url}t.parquet").equals(sample(10))
    with pytest.raises(edt.UnreachableError):
        edt.flight.read_table(f"{server.flight_url}t.parquet")
    with edt.serve(scratch) as server:
        assert server.flight_url is None


def test_the_secret_stays_with_the_host_of_the_url() -> None:
    plain, tls = (Place(f"{scheme}://127.0.0.1:1/t") for scheme in ("flight", "flight+tls"))
    for uri, after_plain, after_tls in (
        ("grpc+tcp://127.0.0.1:2", True, False),
        ("grpc+tls://127.0.0.2:2", True, True),
        ("grpc+tls://192.0.2.1:1", False, False),
        ("grpc+tcp://192.0.2.1:1", False, False),
    ):
        location = flight.Location(uri)
        assert [bool(place.call(location).headers) for place in (plain, tls)] == [after_plain, after_tls], uri
    with pytest.raises(edt.RefusedError):
        plain.client(flight.Location("grpc+tcp://192.0.2.1:1"))


def test_an_identity_that_edt_pinned_is_trusted(edt_command: Edt, serve_flight: Start, scratch: Path) -> None:
    service = serve_flight(flight_host="0.0.0.0")
    write_parquet(service.root / "t.parquet", sample(10))
    url = service.flight("t.parquet", "flight+tls")
    with pytest.raises(edt.UnreachableError):
        edt.flight.read_table(url)
    assert edt_command.run("stat", service.url("t.parquet").replace("edt://", "edts://")).code == 0
    assert edt.flight.read_table(url).equals(sample(10))
    known = scratch / "config" / "known_hosts"
    known.write_text(known.read_text().replace("SHA256:", "SHA256:0"))
    with pytest.raises(edt.Error):
        edt.flight.read_table(url)


@pytest.fixture(name="edt_command")
def command_line(edt: Edt) -> Edt:
    """The command line, under a name that is not the package's."""
    return edt


def test_data_frames_take_and_give_tables(service: Service, table: pa.Table) -> None:
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    url = service.flight("t.parquet")
    assert edt.flight.read_table(url, columns=["id", "value"]).to_pandas()["value"].sum() > 0
    frame = polars.from_arrow(edt.flight.read_table(url))
    assert frame["id"].sum() == sum(range(10_000))
    stream = edt.flight.open_stream(url, columns=["id"])
    assert duckdb.from_arrow(stream).sum("id").fetchall() == [(sum(range(10_000)),)]
    for data in (frame, pandas.DataFrame({"id": [1, 2]}), duckdb.sql("SELECT 1 AS id")):
        edt.flight.write_table(data, service.flight("frame.parquet"))
        assert edt.flight.read_table(service.flight("frame.parquet")).column_names[0] == "id"


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["pyarrow"] = None
import edt
try:
    edt.flight.read_table("flight://h:1/x")
except edt.UnsupportedError as error:
    print(error.hint)
"""
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert outcome.stdout == "install PyArrow: pip install 'edt[flight]'\n", outcome.stderr


def test_the_package_loads_pyarrow_only_when_it_is_needed() -> None:
    code = "import sys, edt; print('pyarrow' in sys.modules, edt.flight.read_table.__name__)"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert outcome.stdout == "False read_table\n", outcome.stderr

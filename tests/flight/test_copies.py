"""`edt cp` and its neighbours from and to Flight services: edt's own, and a service of tables that is not."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from flight.service import Service, Start
from flight.tables import TableService, sample, write_ipc, write_parquet
from harness import MIB, SECRET, Edt, assert_no_wrong_file, at_least, contents, fill, mixed_tree, snapshot

Tables = Callable[..., TableService]
SLOW = ("--json", "--interval", "0.05", "--chunk-size", "8MiB", "--max-streams", "2", "--limit-rate", "50MB")
SIZE = 72 * MIB + 5
SEEN = 32 * MIB


@pytest.mark.parametrize("optimizer", ["auto", "fixed", "falcon", "marlin"])
def test_a_tree_goes_there_and_back(edt: Edt, service: Service, source: Path, scratch: Path, optimizer: str) -> None:
    mixed_tree(source, optimizer)
    edt.copy("--optimizer", optimizer, source, service.flight("tree"))
    assert contents(service.root / "tree") == contents(source)
    edt.copy("--optimizer", optimizer, service.flight("tree"), scratch / "back")
    assert snapshot(scratch / "back") == snapshot(source)
    assert service.leftovers() == []


def test_a_file_goes_to_a_name_and_the_flight_port_and_the_native_one_show_the_same(
    edt: Edt, service: Service, source: Path, scratch: Path
) -> None:
    fill(source / "a.bin", 3 * MIB, "a")
    edt.copy(source / "a.bin", service.flight("sub/b.bin"))
    edt.copy(service.url("sub/b.bin"), scratch / "c.bin")
    assert (scratch / "c.bin").read_bytes() == (source / "a.bin").read_bytes()


def test_a_parquet_file_stays_what_it_is_byte_by_byte(edt: Edt, service: Service, source: Path, scratch: Path) -> None:
    write_parquet(source / "t.parquet", sample())
    edt.copy(source / "t.parquet", service.flight("t.parquet"))
    edt.copy(service.flight("t.parquet"), scratch / "t.parquet")
    assert (scratch / "t.parquet").read_bytes() == (source / "t.parquet").read_bytes()


def test_streams_are_connections(edt: Edt, serve_flight: Start, source: Path) -> None:
    service = serve_flight("--worker-rate", "30MB")
    fill(source / "a.bin", 192 * MIB, "a")
    words = ("--json", "--optimizer", "fixed", "--concurrency", "5", "--chunk-size", "8MiB")
    client = edt.start("cp", *words, source, service.flight("tree"))
    most = 0
    while client.process.poll() is None:
        most = max(most, connections(service.flight_port))
    assert client.end().code == 0
    # The call that begins the upload may have one of its own.
    assert 5 <= most <= 6


def connections(port: int) -> int:
    """How many connections a port of this machine has."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    found = (line.split() for line in lines)
    return sum(local.endswith(f":{port:04X}") and state == "01" for _, local, _, state, *_ in found)


@pytest.mark.parametrize("victim", ["client", "service"])
def test_an_upload_goes_on_after_sigkill(edt: Edt, service: Service, source: Path, victim: str) -> None:
    fill(source / "large.bin", SIZE, "large")
    fill(source / "small.bin", 1000, "small")
    client = edt.start("cp", *SLOW, source, service.flight("tree"))
    seen = client.totals_until(at_least(SEEN))["bytes_verified"]
    if victim == "service":
        service.kill()
    client.kill()
    if victim == "service":
        service.start()
    assert SEEN <= seen < SIZE and not (service.root / "tree" / "large.bin").exists()
    totals = edt.copy(source, service.flight("tree")).totals()
    assert totals["bytes_resumed"] >= seen / 2
    assert contents(service.root / "tree") == contents(source)
    assert service.leftovers() == []


def test_a_download_goes_on_after_sigkill(edt: Edt, service: Service, scratch: Path) -> None:
    fill(service.root / "tree" / "large.bin", SIZE, "large")
    client = edt.start("cp", *SLOW, service.flight("tree"), scratch / "back")
    seen = client.totals_until(at_least(SEEN))["bytes_verified"]
    client.kill()
    assert_no_wrong_file(service.root / "tree", scratch / "back")
    totals = edt.copy(service.flight("tree"), scratch / "back").totals()
    assert totals["bytes_resumed"] >= seen / 2
    assert contents(scratch / "back") == contents(service.root / "tree")


def test_entries_are_listed_described_verified_and_removed(edt: Edt, service: Service, source: Path) -> None:
    mixed_tree(source, "listed", large=MIB, small=5)
    manifest = source.parent / "manifest"
    edt.copy("--manifest", manifest, source, service.flight("tree"))
    listed = edt.run("ls", "-r", service.flight("tree"))
    native = edt.run("ls", "-r", service.url("tree"))
    assert listed.code == 0 and sorted(listed.out.splitlines()) == sorted(native.out.splitlines())
    assert "large.bin" in edt.run("stat", service.flight("tree/large.bin")).out
    assert edt.run("verify", manifest, service.flight("tree")).code == 0
    with (service.root / "tree" / "large.bin").open("r+b") as file:
        file.write(b"other")
    assert edt.run("verify", manifest, service.flight("tree")).code == 1
    assert edt.run("rm", "-r", service.flight("tree")).code == 0
    assert not (service.root / "tree").exists()


def test_a_table_of_edts_service_is_taken_as_one_where_the_url_says_so(
    edt: Edt, service: Service, scratch: Path
) -> None:
    table = sample()
    write_parquet(service.root / "t.parquet", table)
    edt.copy(service.flight("t.parquet?as=table&columns=value,id"), scratch / "some.parquet")
    assert pa.parquet.read_table(scratch / "some.parquet").equals(table.select(["value", "id"]))
    edt.copy(service.flight("t.parquet?as=table&rows=100,5000"), scratch / "some.arrow")
    assert pa.ipc.open_file(scratch / "some.arrow").read_all().equals(table.slice(100, 5000))


@pytest.fixture
def foreign(table_service: Tables) -> TableService:
    """A service of tables with one table."""
    service = table_service()
    write_parquet(service.folder / "numbers.parquet", sample(20_000))
    return service


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
def test_a_table_of_another_service_comes_over_all_its_endpoints(
    edt: Edt, foreign: TableService, scratch: Path, name: str
) -> None:
    outcome = edt.copy(foreign.url("numbers"), scratch / name)
    read = pa.parquet.read_table if name.endswith("parquet") else lambda path: pa.ipc.open_file(path).read_all()
    assert read(scratch / name).sort_by("id").equals(sample(20_000))
    assert sorted(set(foreign.calls())) == sorted({"info", *(f"get {group}" for group in range(7))})
    report = outcome.events()[-1]
    assert report["totals"]["files_done"] == 1


def test_a_table_goes_to_a_directory_as_a_file_for_each_endpoint(
    edt: Edt, foreign: TableService, scratch: Path
) -> None:
    edt.copy(foreign.url("numbers"), f"{scratch / 'parts'}/")
    files = sorted((scratch / "parts").rglob("*.parquet"))
    assert len(files) == 7
    table = pa.concat_tables([pa.parquet.ParquetFile(file).read() for file in files])
    assert table.sort_by("id").equals(sample(20_000))


@pytest.mark.parametrize("name", ["in.parquet", "in.arrow"])
def test_a_local_table_is_put_to_another_service(edt: Edt, table_service: Tables, source: Path, name: str) -> None:
    service, table = table_service(), sample(9000)
    write = write_parquet if name.endswith("parquet") else write_ipc
    write(source / name, table)
    edt.copy(source / name, service.url("copied"))
    assert pa.parquet.read_table(service.folder / "copied.parquet").equals(table)
    kept = json.loads(edt.run("history", "export", "--format", "json").out)
    assert (kept["source"], kept["destination"].startswith("flight_"), kept["outcome"]) == ("local", True, "complete")
    assert (kept["listed_files"], kept["listed_bytes"]) == (1, (source / name).stat().st_size)


def test_flights_of_another_service_are_listed(edt: Edt, foreign: TableService) -> None:
    outcome = edt.run("ls", foreign.url())
    assert outcome.code == 0 and "numbers" in outcome.out


def test_a_table_that_is_not_there_is_not_found(edt: Edt, foreign: TableService, scratch: Path) -> None:
    outcome = edt.run("cp", foreign.url("nothing"), scratch / "x.parquet")
    assert outcome.code in (1, 4) and "nothing" in outcome.err
    assert not (scratch / "x.parquet").exists()


@pytest.mark.parametrize("login", [(), ("--login",)], ids=["header", "login"])
def test_another_service_takes_the_token_or_a_user_of_the_netrc_file(
    edt: Edt, table_service: Tables, scratch: Path, login: tuple[str, ...]
) -> None:
    service = table_service("--token", SECRET, "--user", "me:a-password", *login)
    write_parquet(service.folder / "t.parquet", sample(100))
    edt.copy(service.url("t"), scratch / "by-token.parquet")
    (scratch / "netrc").write_text("machine 127.0.0.1 login me password a-password\n")
    edt.environment["NETRC"] = str(scratch / "netrc")
    edt.environment["EDT_TOKEN"] = ""
    user = service.url("t").replace("://", "://me@")
    outcome = edt.run("cp", user, scratch / "by-user.parquet", secret="")
    assert outcome.code == 0, outcome.err
    assert pa.parquet.read_table(scratch / "by-user.parquet").equals(sample(100))
    assert edt.run("cp", service.url("t"), scratch / "x.parquet", secret="x" * 20).code == 3


def test_an_interrupted_table_leaves_no_file_under_its_name(edt: Edt, table_service: Tables, scratch: Path) -> None:
    service = table_service()
    write_parquet(service.folder / "t.parquet", sample(200_000), row_group_size=2000)
    client = edt.start("cp", "--json", "--limit-rate", "200KB", service.url("t"), scratch / "x.parquet")
    client.totals_until(lambda totals: bool(totals["bytes_done"] or totals["bytes_verified"] or totals["bytes_sent"]))
    client.signal(signal.SIGINT)
    outcome = client.end()
    assert outcome.code == 130
    assert [path.name for path in scratch.iterdir() if "x.parquet" in path.name] == []
    assert json.loads(outcome.out.splitlines()[-1])

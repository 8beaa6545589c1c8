"""What `edt` says of a Flight service that it cannot use as it was told to, and how a service ends."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pyarrow as pa

from flight.service import Service, Start
from flight.tables import sample, write_parquet
from harness import MIB, Edt, at_least, contents, fill


def test_a_copy_to_a_service_that_is_read_only_is_refused_at_once(edt: Edt, serve_flight: Start, source: Path) -> None:
    service = serve_flight("--read-only")
    write_parquet(source / "t.parquet", sample())
    native = edt.run("cp", source / "t.parquet", service.url("t.parquet"))
    for name in ("t.parquet", "t.parquet?as=table"):
        outcome = edt.run("cp", source / "t.parquet", service.flight(name))
        assert outcome.code == native.code
        assert str(service.flight_port) in outcome.err and outcome.err.count("read-only") == 2
    assert edt.run("ls", service.flight()).code == 0


def test_who_calls_hears_whether_a_secret_was_sent(edt: Edt, service: Service) -> None:
    wrong = edt.run("ls", service.flight(), secret="another secret that is long enough")
    none = edt.run("ls", service.flight(), secret="")
    for outcome, words in ((wrong, "refused the secret that was sent"), (none, "none was sent")):
        assert words in outcome.err and "EDT_TOKEN" in outcome.err and "authorization:" not in outcome.err
        assert str(service.flight_port) in outcome.err


def test_what_is_no_plain_flight_service_is_said_to_be_tls_or_another(edt: Edt, service: Service) -> None:
    outcome = edt.run("ls", f"flight://127.0.0.1:{service.port}/")
    assert outcome.code != 0 and "flight+tls://" in outcome.err and "native port" in outcome.err
    outcome = edt.run("ls", "--plain", service.flight(scheme="flight+tls"))
    assert outcome.code != 0 and "`flight://`" in outcome.err and "--plain" not in outcome.err


def test_a_table_in_one_batch_keeps_to_the_rate(edt: Edt, service: Service, source: Path) -> None:
    table = pa.table({"x": pa.array(range(4 * MIB), pa.int64())})
    with pa.ipc.new_file(str(source / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    begin = time.monotonic()
    edt.copy("--limit-rate", "10MB", source / "t.arrow", service.flight("t.arrow?as=table"))
    assert time.monotonic() - begin > 2.5
    assert pa.ipc.open_file(service.root / "t.arrow").read_all().equals(table)


def test_a_copy_that_runs_goes_on_while_the_service_ends(edt: Edt, service: Service, source: Path) -> None:
    fill(source / "large.bin", 48 * MIB, "large")
    fill(source / "small.bin", 1000, "small")
    words = ("--json", "--interval", "0.05", "--chunk-size", "4MiB", "--limit-rate", "10MB")
    client = edt.start("cp", *words, source, service.flight("tree"))
    client.totals_until(at_least(8 * MIB))
    service.process.send_signal(signal.SIGTERM)
    assert client.end().code == 0
    assert service.close() == 0
    assert contents(service.root / "tree") == contents(source)


def test_a_service_that_nobody_uses_ends_at_once(service: Service) -> None:
    assert service.stop(timeout=1.5) == 0

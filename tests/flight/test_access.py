"""Who may call the service: secrets, TLS, and a root that may only be read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from endpoints.servers.certificate import certificate
from flight.service import HOST, Client, Service, Start, named, refused
from flight.tables import sample
from harness import SECRET, Edt, fill

CALLS: dict[str, Callable[[Client], object]] = {
    "list": lambda client: list(client.flight.list_flights(b"", client.call)),
    "info": lambda client: client.info("a.bin"),
    "schema": lambda client: client.flight.get_schema(named("a.bin"), client.call),
    "get": lambda client: client.content("a.bin"),
    "put": lambda client: client.put("new.bin", [(0, b"new")]),
    "put-table": lambda client: client.put_table("new.parquet", sample(10)),
    "actions": lambda client: client.flight.list_actions(client.call),
    "stat": lambda client: client.act("stat", path="a.bin"),
    "remove": lambda client: client.act("remove", path="a.bin"),
    "exchange": lambda client: client.flight.do_exchange(named("a.bin"), client.call)[1].read_all(),
}


@pytest.mark.parametrize("secret", [None, "another secret that is long enough"], ids=["none", "wrong"])
def test_nobody_without_the_secret_learns_or_changes_anything(service: Service, secret: str | None) -> None:
    fill(service.root / "a.bin", 10, "a")

    def told(call: Callable[[Client], object]) -> BaseException:
        with (
            service.client(secret=secret) as client,
            refused(Exception, "does not know the shared secret", "hint") as error,
        ):
            call(client)
        return error.value

    # Each waits half a second for its answer.
    with ThreadPoolExecutor(len(CALLS)) as pool:
        for name, error in zip(CALLS, pool.map(told, CALLS.values()), strict=True):
            # PyArrow tells the code of a refused GetSchema in words alone.
            known = isinstance(error, flight.FlightUnauthenticatedError) or "unauthenticated" in str(error)
            assert known, (name, error)
    assert [path.name for path in service.root.iterdir() if path.is_file()] == ["a.bin"]


def test_the_secret_is_also_a_password(service: Service) -> None:
    fill(service.root / "a.bin", 10, "a")
    with service.client(secret=None) as client:
        header = client.flight.authenticate_basic_token("anybody", SECRET)
        client.call = flight.FlightCallOptions(headers=[header])
        assert len(client.content("a.bin")) == 10
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.flight.authenticate_basic_token("anybody", "another secret that is long enough")


def test_guessing_is_slow(service: Service) -> None:
    begin = time.monotonic()
    with service.client(secret="another secret that is long enough") as client:
        for _ in range(2):
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.act("stat", path="")
    assert time.monotonic() - begin > 0.5


@pytest.mark.parametrize("name", ["put", "put-table", "remove"])
def test_a_root_that_may_only_be_read_is_not_changed(serve_flight: Start, name: str) -> None:
    service = serve_flight("--read-only")
    fill(service.root / "a.bin", 10, "a")
    with service.client() as client:
        assert len(client.content("a.bin")) == 10
        with refused(flight.FlightUnauthorizedError, "could not"):
            CALLS[name](client)
        for action, body in (
            ("mkdir", {"path": "d"}),
            ("rename", {"from": "a.bin", "to": "b.bin"}),
            ("begin", {"path": "b.bin", "size": 1}),
        ):
            with pytest.raises(flight.FlightUnauthorizedError):
                client.act(action, **body)
    assert [path.name for path in service.root.iterdir()] == ["a.bin"]


@pytest.fixture
def tls(serve_flight: Start, scratch: Path) -> tuple[Service, bytes]:
    """A service with a certificate, and the authority that signed it."""
    made = certificate(scratch)
    service = serve_flight("--tls-cert", str(made.chain), "--tls-key", str(made.key))
    return service, made.authority.read_bytes()


def encrypted(service: Service, **options: Any) -> Client:
    """A client that speaks TLS."""
    return Client(f"grpc+tls://{HOST}:{service.flight_port}", **options)


def test_a_service_with_a_certificate_speaks_tls(tls: tuple[Service, bytes]) -> None:
    service, authority = tls
    fill(service.root / "a.bin", 3_000_000, "a")
    with encrypted(service, tls_root_certs=authority) as client:
        assert client.content("a.bin") == (service.root / "a.bin").read_bytes()
        client.put("b.bin", [(0, b"new")])


def test_tls_without_trust_in_the_certificate_fails(tls: tuple[Service, bytes]) -> None:
    service, _ = tls
    with encrypted(service) as client, pytest.raises(flight.FlightUnavailableError):
        client.act("stat", path="")


def test_a_plain_client_of_a_service_with_a_certificate_gets_nothing(tls: tuple[Service, bytes]) -> None:
    service, _ = tls
    with service.client() as client, pytest.raises((pa.ArrowException, OSError)):
        client.act("stat", path="")


def test_edt_copies_over_tls_with_a_trusted_authority(edt: Edt, tls: tuple[Service, bytes], scratch: Path) -> None:
    service, authority = tls
    (scratch / "trusted.pem").write_bytes(authority)
    edt.environment["SSL_CERT_FILE"] = str(scratch / "trusted.pem")
    fill(service.root / "a.bin", 3_000_000, "a")
    edt.copy(service.flight("a.bin", "flight+tls"), scratch / "copy.bin")
    assert (scratch / "copy.bin").read_bytes() == (service.root / "a.bin").read_bytes()


def test_edt_sends_nothing_to_a_service_whose_identity_is_not_known(
    edt: Edt, serve_flight: Start, scratch: Path
) -> None:
    service = serve_flight(flight_host="0.0.0.0")
    fill(service.root / "a.bin", 1000, "a")
    url, known = service.flight("a.bin", "flight+tls"), scratch / "config" / "known_hosts"
    outcome = edt.run("cp", url, scratch / "a.bin")
    assert outcome.code == 3 and not (scratch / "a.bin").exists()
    assert not known.exists()
    line = re.search(f"{HOST}:{service.flight_port} SHA256:[0-9a-f]{{64}}", outcome.err)
    assert line, outcome.err
    known.write_text(line[0] + "\n")
    edt.copy(url, scratch / "a.bin")
    known.write_text(line[0].replace("SHA256:", "SHA256:0000"))
    outcome = edt.run("cp", url, scratch / "b.bin")
    assert outcome.code == 3 and "remove line 1" in outcome.err and not (scratch / "b.bin").exists()


def test_a_server_that_proved_itself_by_its_native_port_is_known(edt: Edt, serve_flight: Start, scratch: Path) -> None:
    service = serve_flight(flight_host="0.0.0.0")
    fill(service.root / "a.bin", 1000, "a")
    native = edt.run("stat", service.url("a.bin").replace("edt://", "edts://"))
    assert native.code == 0, native.err
    edt.copy(service.flight("a.bin", "flight+tls"), scratch / "a.bin")
    assert (scratch / "a.bin").read_bytes() == (service.root / "a.bin").read_bytes()


def test_edt_says_that_the_secret_is_wrong(edt: Edt, service: Service, scratch: Path) -> None:
    fill(service.root / "a.bin", 10, "a")
    outcome = edt.run("cp", service.flight("a.bin"), scratch / "a.bin", secret="another secret that is long enough")
    assert outcome.code == 3 and "hint" in outcome.err
    assert not (scratch / "a.bin").exists()

"""Where a Flight service is, whom to be there, and clients that are connected to it."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import netrc
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from pyarrow import flight

from edt import _edt
from edt._flight.failure import Kinds, reported
from edt.errors import InvalidInputError, RefusedError, UnreachableError
from edt.flight import FlightOptions
from edt.options import Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

SCHEMES = ("flight", "flight+tls")
PORT = 8815
"""The port where a URL names none."""
REUSE = "arrow-flight-reuse-connection"
"""The scheme of a location that means the connection by which one came."""
TIMEOUT_S = 20.0
"""How long to wait for the certificate of a service."""

_EDT_ACTIONS = frozenset(("stat", "list", "checksum"))
"""What edt's service lists among its actions, read-only or not; a service that has them all is one."""


@dataclass(frozen=True)
class Trust:
    """What makes a client believe a service that it is the right one."""

    roots: bytes | None = None
    """Certificates in PEM; `None` for those of the system."""
    name: str | None = None
    """The name that the certificate has to have, if it is not that of the host."""


class Place:
    """A path on a Flight service, and how to come there."""

    def __init__(self, url: str, **options: Unpack[FlightOptions]) -> None:
        if unknown := options.keys() - FlightOptions.__annotations__.keys():
            raise TypeError(f"got an unexpected keyword argument '{min(unknown)}'")
        parts = self._parts(url)
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.host, self.port = parts.hostname or "", parts.port or PORT
        self.path = unquote(parts.path).strip("/")
        self.is_local = is_loopback(self.host)
        self._options = options
        self.tls = parts.scheme == "flight+tls" or not (self.is_local or options.get("plain", False))
        self._trust = self._trusted() if self.tls else Trust()
        self._headers = self._authorization(parts)
        self._is_edt: bool | None = None

    @staticmethod
    def _parts(url: str) -> SplitResult:
        try:
            parts = urlsplit(url)
            known = parts.scheme in SCHEMES and parts.hostname and parts.port != 0
        except ValueError:
            known = False
        if not known or parts.query or parts.fragment:
            raise InvalidInputError(
                f"could not use the URL `{url}`",
                cause="what follows its path is said by arguments here" if known else "it names no Flight service",
                hint="write flight://HOST[:PORT]/PATH, or flight+tls:// for encryption on loopback too",
            )
        return parts

    def client(self, location: flight.Location | None = None) -> flight.FlightClient:
        """A new client with a connection of its own, to the service or to where it says that the data is."""
        if location is not None and not self.is_here(location):
            if not (self._options.get("plain", False) or is_private(location)):
                raise RefusedError(
                    f"could not connect to `{location.uri.decode()}`",
                    cause="it is not on this machine, and is spoken to without encryption",
                    hint="let the service use TLS, or allow plain connections with `plain=True`",
                )
            return flight.FlightClient(location, tls_root_certs=self._roots(None))
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "grpc+tls" if self.tls else "grpc+tcp"
        return flight.FlightClient(
            f"{scheme}://{host}:{self.port}",
            tls_root_certs=self._trust.roots,
            override_hostname=self._trust.name,
            middleware=[Kinds()],
        )

    def call(self, location: flight.Location | None = None) -> flight.FlightCallOptions:
        """What goes with every call: the secret, if there is one, to the host itself and as safe as to the service."""
        known = location is None or self.is_here(location) or self._may_know(location)
        return flight.FlightCallOptions(headers=self._headers if known else [])

    def _may_know(self, location: flight.Location) -> bool:
        """Whether a location that the service named may learn who calls."""
        parts = urlsplit(location.uri.decode())
        same = parts.hostname == self.host.lower() or (self.is_local and is_loopback(parts.hostname or ""))
        return same and (parts.scheme == "grpc+tls" or not self.tls)

    def is_here(self, location: flight.Location) -> bool:
        """Whether a location is the service itself."""
        parts = urlsplit(location.uri.decode())
        return parts.scheme == REUSE or (parts.hostname, parts.port) == (self.host, self.port)

    def is_edt(self, client: flight.FlightClient) -> bool:
        """Whether the service is edt's, which can be asked for more than others."""
        if self._is_edt is None:
            with reported(f"could not connect to `{self.url}`"):
                try:
                    self._is_edt = {action.type for action in client.list_actions(self.call())} >= _EDT_ACTIONS
                except (NotImplementedError, flight.FlightServerError):
                    # Many services have no actions at all.
                    self._is_edt = False
        return self._is_edt

    def _trusted(self) -> Trust:
        file = self._options.get("tls_roots")
        known = [] if file else _edt.trusted(server_name(self.host, self.port), self._options.get("known_hosts"))
        return self._pinned(known) if known else Trust(self._roots(file))

    def _roots(self, file: Path | None) -> bytes | None:
        chosen = file or os.environ.get("SSL_CERT_FILE")
        with reported(f"could not read the certificates of `{chosen}`"):
            return LocalPath(chosen).read_bytes() if chosen else None

    def _pinned(self, fingerprints: list[str]) -> Trust:
        """Trust in the certificate with one of the fingerprints: that which the service shows, if it has it."""
        try:
            shown = ssl.get_server_certificate((self.host, self.port), timeout=TIMEOUT_S)
            if f"SHA256:{hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest()}" not in fingerprints:
                # The roots do not have it, so the client will refuse what the service shows.
                return Trust(self._roots(None))
            return Trust(shown.encode(), certified_name(self.host, self.port, shown))
        except OSError as cause:
            raise UnreachableError(f"could not connect to `{self.url}`", cause=str(cause)) from cause

    def _authorization(self, parts: SplitResult) -> list[tuple[bytes, bytes]]:
        if parts.username:
            user, secret = unquote(parts.username), _edt.secret(self._options.get("token_file"))
            pair = f"{user}:{password(self.host, user, parts.password, secret)}"
            return [(b"authorization", b"Basic " + base64.b64encode(pair.encode()))]
        secret = _edt.secret(self._options.get("token_file"))
        return [] if secret is None else [(b"authorization", b"Bearer " + secret)]


def _of_netrc(host: str) -> tuple[str, str | None, str | None] | None:
    """User, account and password for a host; `None` without a netrc file, unless `NETRC` names one."""
    named = os.environ.get("NETRC") or None
    try:
        return netrc.netrc(named).authenticators(host)
    except FileNotFoundError:
        if named is not None:
            raise
        return None
    except netrc.NetrcParseError as cause:
        raise InvalidInputError("could not read the netrc file", cause=str(cause)) from cause


def password(host: str, user: str, written: str | None, secret: bytes | None) -> str:
    """The password of a user: from a netrc file, or else the shared secret. A URL may stand where others read it."""
    if written is None:
        with reported(f"could not find the password of `{user}` for `{host}`"):
            found = _of_netrc(host)
        if found and found[0] == user and found[2]:
            return found[2]
        if secret is not None:
            return secret.decode()
    raise InvalidInputError(
        f"could not find the password of `{user}` for `{host}`",
        cause="a URL holds no password" if written else "the netrc file has none",
        hint=f"write `machine {host} login {user} password ...` to ~/.netrc, or set EDT_TOKEN for an edt server",
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by all its addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in found)


def is_private(location: flight.Location) -> bool:
    """Whether nobody on the way to a location can read what goes there."""
    parts = urlsplit(location.uri.decode())
    return parts.scheme in ("grpc+tls", "grpc+unix") or is_loopback(parts.hostname or "")


def server_name(host: str, port: int) -> str:
    """A server as the file of known hosts names it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def certified_name(host: str, port: int, certificate: str) -> str | None:
    """The first name that a certificate is for: trust in a pinned one does not rest on its name."""
    context = ssl.create_default_context(cadata=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with (
        socket.create_connection((host, port), timeout=TIMEOUT_S) as connection,
        context.wrap_socket(connection) as encrypted,
    ):
        facts = encrypted.getpeercert() or {}
    names: Any = facts.get("subjectAltName", ())
    return next((name for kind, name in names if kind == "DNS"), None)

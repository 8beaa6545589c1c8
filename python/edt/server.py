"""A server on background threads: many clients at once, and a root that none of them leaves."""

from __future__ import annotations

import ipaddress
from types import TracebackType
from typing import TYPE_CHECKING

from edt import _edt
from edt.options import Path, ServeOptions

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Server:
    """A running server, from `edt.serve`. Leaving its `with` block closes it."""

    def __init__(self, native: _edt.Server) -> None:
        self._native = native

    @property
    def address(self) -> tuple[str, int]:
        """Address and port where it listens."""
        return self._native.address

    @property
    def url(self) -> str:
        """The URL of the root for callers on this machine."""
        host, port = self.address
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
        return f"edt://{address}:{port}/" if address.version == 4 else f"edt://[{address}]:{port}/"

    @property
    def flight_url(self) -> str | None:
        """The URL of the Flight port, if there is one; where it listens on all addresses, put a host in."""
        return self._native.flight_url

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the server's certificate, as clients pin it."""
        return self._native.fingerprint

    @property
    def secret(self) -> str | None:
        """The shared secret, if it was generated just now; `None` if it was there before."""
        return self._native.secret

    def wait(self) -> None:
        """Waits until the server has ended; raises what ended it, if that was an error."""
        self._native.wait()

    def close(self) -> None:
        """Takes no new sessions, lets running ones go on for the grace time, and waits; Ctrl-C ends them at once."""
        self._native.shutdown()
        try:
            self._native.wait()
        except KeyboardInterrupt:
            self._native.shutdown()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<edt.Server {self.url}>"


def serve(root: Path, *, listen: str = "127.0.0.1:0", **options: Unpack[ServeOptions]) -> Server:
    """Serves a directory to `edt://` clients, and with `flight` to those of Arrow Flight, from threads of its own.

    Args:
        root: The directory that clients see as the root and never leave.
        listen: Address and port; port 0 takes a free one.
        **options: See `edt.ServeOptions`.

    Raises:
        NotFoundError, PermissionDeniedError, InvalidInputError: the root, the secret or an option cannot be used.
        UnreachableError: the address is in use, or not one of this machine.
    """
    flight = options.pop("flight", None)
    return Server(_edt.Server(root, {"listen": listen, **options}, flight))

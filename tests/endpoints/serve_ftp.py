"""Runs the FTP server of pyftpdlib: `python serve_ftp.py PORT IMPLICIT_PORT ROOT CHAIN KEY USER PASSWORD`."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def serve(port: int, implicit_port: int, root: str, chain: str, key: str, user: str, password: str) -> None:
    """Serves a folder as `/`, with TLS for who asks for it, and with TLS from the start on the second port."""
    handlers: Any = importlib.import_module("pyftpdlib.handlers")
    servers: Any = importlib.import_module("pyftpdlib.servers")
    authorizer = importlib.import_module("pyftpdlib.authorizers").DummyAuthorizer()
    authorizer.add_user(user, password, root, perm="elradfmwMT")
    shared = {"authorizer": authorizer, "certfile": chain, "keyfile": key}
    explicit = type("Explicit", (handlers.TLS_FTPHandler,), shared)

    def greet_over_tls(handler: Any) -> None:
        handler.secure_connection(handler.get_ssl_context())
        explicit.handle(handler)  # type: ignore[attr-defined]

    implicit = type("Implicit", (explicit,), {"handle": greet_over_tls})
    # Both servers share the loop that the second one runs.
    servers.FTPServer(("127.0.0.1", port), explicit).max_cons = 512
    servers.FTPServer(("127.0.0.1", implicit_port), implicit).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:8])

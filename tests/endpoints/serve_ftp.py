"""Runs the FTP server of pyftpdlib: `python serve_ftp.py PORT IMPLICIT_PORT ROOT CHAIN KEY USER PASSWORD [plain]`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any


def serve(port: int, implicit_port: int, root: str, chain: str, key: str, user: str, password: str, *how: str) -> None:
    """Serves a folder as `/`, with TLS for who asks for it, and with TLS from the start on the second port."""
    handlers: Any = importlib.import_module("pyftpdlib.handlers")
    servers: Any = importlib.import_module("pyftpdlib.servers")
    authorizer = importlib.import_module("pyftpdlib.authorizers").DummyAuthorizer()
    authorizer.add_user(user, password, root, perm="elradfmwMT")
    shared: dict[str, Any] = {"authorizer": authorizer, "certfile": chain, "keyfile": key}
    if "plain" in how:
        shared |= plain(handlers)
    explicit = type("Explicit", (handlers.TLS_FTPHandler,), shared)

    def greet_over_tls(handler: Any) -> None:
        handler.secure_connection(handler.get_ssl_context())
        explicit.handle(handler)  # type: ignore[attr-defined]

    implicit = type("Implicit", (explicit,), {"handle": greet_over_tls})
    # Both servers share the loop that the second one runs.
    servers.FTPServer(("127.0.0.1", port), explicit).max_cons = 512
    servers.FTPServer(("127.0.0.1", implicit_port), implicit).serve_forever()


def plain(handlers: Any) -> dict[str, Any]:
    """Lists for people alone, with a space in the name of the group; a file `odd` has a line of another form."""
    lists: Any = importlib.import_module("pyftpdlib.filesystems").AbstractedFS

    def format_list(fs: Any, *words: Any, **options: Any) -> Iterator[bytes]:
        for line in lists.format_list(fs, *words, **options):
            yield b"+s5,\todd\r\n" if line.endswith(b" odd\r\n") else line

    named: dict[str, Any] = {"format_list": format_list, "get_group_by_gid": lambda fs, gid: "domain users"}
    commands = handlers.TLS_FTPHandler.proto_cmds.items()
    known = {name: command for name, command in commands if name not in ("MLST", "MLSD")}
    return {"abstracted_fs": type("Lists", (lists,), named), "proto_cmds": known}


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

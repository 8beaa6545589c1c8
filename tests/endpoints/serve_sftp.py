"""Runs the SFTP server of asyncssh: `python serve_sftp.py PORT ROOT HOST_KEY CLIENT_KEYS`."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any


async def serve(port: int, root: str, host_key: str, client_keys: str) -> None:
    """Serves a folder as `/` to whoever has a key, in version 3 as OpenSSH has it."""
    asyncssh: Any = importlib.import_module("asyncssh")
    acceptor = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[host_key],
        authorized_client_keys=client_keys,
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=root.encode()),
    )
    await acceptor.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), *sys.argv[2:5]))

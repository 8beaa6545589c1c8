"""asyncssh: a second SFTP server, which shares no code with OpenSSH."""

from __future__ import annotations

import sys
from pathlib import Path

from endpoints.servers.server import USER
from endpoints.servers.ssh import SftpServer


class AsyncSsh(SftpServer):
    """The SFTP server of the library; the root is all that clients see."""

    name = "asyncssh"
    needs = ("asyncssh", "openssh")
    account = USER

    def command(self) -> list[str | Path]:
        self.prepare()
        assert self.root
        program = Path(__file__).resolve().parents[1] / "serve_sftp.py"
        keys = (self.keys / "host", self.keys / "client.pub")
        return [sys.executable, program, str(self.port), self.root, *keys]

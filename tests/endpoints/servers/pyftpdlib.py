"""pyftpdlib: FTP and FTPS in Python, with MLSD, REST, APPE and MFMT."""

from __future__ import annotations

import sys
from pathlib import Path

from endpoints.servers.ftp import FtpServer
from endpoints.servers.server import PASSWORD, USER


class PyFtpdLib(FtpServer):
    """The server of the library; the root is all that clients see."""

    name = "pyftpdlib"
    needs = ("pyftpdlib", "clients")

    def command(self) -> list[str | Path]:
        assert self.root
        program = Path(__file__).resolve().parents[1] / "serve_ftp.py"
        ports = (str(self.port), str(self.implicit_port))
        made = self.certificate
        return [sys.executable, program, *ports, self.root, made.chain, made.key, USER, PASSWORD]


class PlainFtpdLib(PyFtpdLib):
    """The same without MLST and MLSD, so that its lists are those for people."""

    name = "pyftpdlib-plain"

    def command(self) -> list[str | Path]:
        return [*super().command(), "plain"]

"""What all FTP servers have in common: a password, a certificate, and ports for data."""

from __future__ import annotations

from pathlib import Path

from endpoints.servers.certificate import Certificate, certificate
from endpoints.servers.server import HOST, PASSWORD, USER, Place, Server
from servers import free_port


class FtpServer(Server):
    """A server in passive mode whose files lie below the root; it offers TLS to who asks for it (`AUTH TLS`)."""

    def __init__(self, scratch: Path | None = None) -> None:
        super().__init__(scratch)
        self.implicit_port = free_port()
        """Where TLS begins with the connection."""

    @property
    def url(self) -> str:
        return f"ftp://{USER}:{PASSWORD}@{HOST}:{self.port}"

    @property
    def implicit_url(self) -> str:
        """Where it is, with TLS from the first byte on."""
        return f"ftps://{USER}:{PASSWORD}@{HOST}:{self.implicit_port}"

    @property
    def certificate(self) -> Certificate:
        return certificate(self.scratch)

    @property
    def environment(self) -> dict[str, str]:
        return self.certificate.environment

    def place(self) -> Place:
        assert self.root
        name = self.folder()
        return Place(f"{self.url}/{name}/", self.environment, self.root / name)

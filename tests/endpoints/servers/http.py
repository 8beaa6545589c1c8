"""What all servers that speak HTTP have in common."""

from __future__ import annotations

from endpoints.servers.server import HOST, PASSWORD, USER, Server


class HttpServer(Server):
    """A server that answers to HTTP."""

    greeting = b"HEAD / HTTP/1.0\r\nHost: localhost\r\n\r\n"

    @property
    def address(self) -> str:
        """What stands between the scheme and the path."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def netrc(self) -> dict[str, str]:
        """Writes user and password into a netrc file, and returns the environment in which it is found."""
        file = self.home / ".netrc"
        file.write_text(f"machine {HOST} login {USER} password {PASSWORD}\n")
        file.chmod(0o600)
        return {"HOME": str(self.home), "NETRC": str(file)}

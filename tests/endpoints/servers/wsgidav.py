"""WsgiDAV on cheroot: WebDAV with locks, properties, COPY and MOVE."""

from __future__ import annotations

import json

from endpoints.programs import located
from endpoints.servers.certificate import Certificate, certificate, handshakes
from endpoints.servers.http import HttpServer
from endpoints.servers.server import HOST, PASSWORD, USER, Place


class WsgiDav(HttpServer):
    """With a password, in the clear."""

    name = "wsgidav"
    needs = ("wsgidav", "clients")
    scheme = "webdav"

    @property
    def environment(self) -> dict[str, str]:
        return self.netrc()

    def command(self) -> list[str]:
        configuration = self.scratch / "wsgidav.json"
        configuration.write_text(json.dumps(self.settings()))
        return [located("wsgidav"), f"--config={configuration}"]

    def settings(self) -> dict[str, object]:
        """The configuration file."""
        return {
            "host": HOST,
            "port": self.port,
            "server": "cheroot",
            "server_args": {"numthreads": 50},
            "provider_mapping": {"/": str(self.root)},
            "simple_dc": {"user_mapping": {"*": {USER: {"password": PASSWORD}}}},
            "http_authenticator": {"accept_basic": True, "accept_digest": True, "default_to_digest": False},
            "lock_storage": True,
            "property_manager": True,
            "verbose": 1,
        }

    def place(self) -> Place:
        assert self.root
        name = self.folder()
        return Place(f"{self.scheme}://{self.address}/{name}/", self.environment, self.root / name)


class WsgiDavTls(WsgiDav):
    """With a password, over TLS."""

    name = "wsgidav-tls"
    scheme = "webdavs"
    greeting = b""

    @property
    def certificate(self) -> Certificate:
        return certificate(self.scratch)

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.certificate.environment}

    def settings(self) -> dict[str, object]:
        made = self.certificate
        return {
            **super().settings(),
            "ssl_certificate": str(made.chain),
            "ssl_private_key": str(made.key),
            "ssl_adapter": "builtin",
        }

    def answers(self) -> bool:
        return handshakes(self.port, self.certificate)

"""nginx: files over HTTP and HTTPS, with ranges, ETags, passwords, bearer tokens, PUT and DELETE."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from endpoints.programs import located
from endpoints.servers.certificate import Certificate, certificate
from endpoints.servers.http import HttpServer
from endpoints.servers.server import HOST, PASSWORD, USER, Place
from servers import free_port

BEARER = "edt-bearer-token"
KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
METHODS = "dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on;"


class Nginx(HttpServer):
    """One root, four places: `/` for all, `/password/`, `/bearer/`, and `/plain/` without ranges and ETags."""

    name = "nginx"
    needs = ("nginx", "clients")

    def __init__(self, scratch: Path | None = None) -> None:
        super().__init__(scratch)
        self.tls_port = free_port()

    @property
    def tls_url(self) -> str:
        """Where it is, over TLS."""
        return f"https://{HOST}:{self.tls_port}"

    @property
    def certificate(self) -> Certificate:
        return certificate(self.scratch)

    @property
    def environment(self) -> dict[str, str]:
        return {**self.netrc(), **self.certificate.environment}

    def command(self) -> list[str | Path]:
        configuration = self.scratch / "nginx.conf"
        # `{SHA}` because nginx knows it without the crypt of the system.
        digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
        (self.scratch / "passwords").write_text(f"{USER}:{{SHA}}{digest}\n")
        temporary = "".join(f"{kind}_temp_path {self.scratch}/{kind};" for kind in KINDS)
        user = "user root;" if self.scratch.stat().st_uid == 0 else ""
        made = self.certificate
        configuration.write_text(
            f"daemon off; {user} worker_processes 2; pid {self.scratch}/pid; error_log stderr error;\n"
            f"events {{ worker_connections 4096; }}\n"
            f"http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; {temporary}\n"
            f"client_max_body_size 0; autoindex on; default_type application/octet-stream;\n"
            f"server {{ listen {self.address}; listen {HOST}:{self.tls_port} ssl;\n"
            f"ssl_certificate {made.chain}; ssl_certificate_key {made.key};\n"
            f"location / {{ root {self.root}; {METHODS} }}\n"
            f"location /plain/ {{ alias {self.root}/; max_ranges 0; etag off; if_modified_since off; }}\n"
            f"location /password/ {{ alias {self.root}/; auth_basic edt; auth_basic_user_file {self.scratch}/passwords;"
            f" {METHODS} }}\n"
            f'location /bearer/ {{ if ($http_authorization != "Bearer {BEARER}") {{ return 401; }} alias {self.root}/;'
            f" {METHODS} }}\n"
            "}}\n"
        )
        return [located("nginx"), "-c", configuration, "-p", self.scratch]

    def place(self) -> Place:
        assert self.root
        name = self.folder()
        return Place(f"{self.url}/{name}/", self.environment, self.root / name)

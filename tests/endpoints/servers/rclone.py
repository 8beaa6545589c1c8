"""rclone as a server of S3, WebDAV, SFTP and FTP."""

from __future__ import annotations

import base64
import http.client
from pathlib import Path

from endpoints.programs import located
from endpoints.servers.http import HttpServer
from endpoints.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from endpoints.servers.server import HOST, PASSWORD, USER, Place, Server
from endpoints.servers.ssh import SftpServer
from servers import free_port


def serve(protocol: str, server: Server, *options: str | Path) -> list[str | Path]:
    """The command that serves the root by a protocol."""
    assert server.root
    address = ("--addr", f"{HOST}:{server.port}")
    return [located("rclone"), "serve", protocol, *address, "--config", "/dev/null", *options, server.root]


class RcloneS3(S3Server):
    """`rclone serve s3`; objects are files below the root, parts are held in memory."""

    name = "rclone-s3"
    needs = ("rclone", "clients")

    def command(self) -> list[str | Path]:
        return serve("s3", self, "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}")


class RcloneWebdav(HttpServer):
    """`rclone serve webdav` with a password."""

    name = "rclone-webdav"
    needs = ("rclone",)

    @property
    def environment(self) -> dict[str, str]:
        return self.netrc()

    def command(self) -> list[str | Path]:
        return serve("webdav", self, "--user", USER, "--pass", PASSWORD)

    def place(self) -> Place:
        assert self.root
        name = self.folder()
        # It remembers what was in the root: only what it made itself is there for certain.
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        connection = http.client.HTTPConnection(self.address, timeout=10)
        connection.request("MKCOL", f"/{name}/", headers={"Authorization": f"Basic {login}"})
        connection.getresponse().read()
        connection.close()
        return Place(f"webdav://{self.address}/{name}/", self.environment, self.root / name)


class RcloneSftp(SftpServer):
    """`rclone serve sftp` with a password and a key."""

    name = "rclone-sftp"
    needs = ("rclone", "openssh")
    account = USER

    def command(self) -> list[str | Path]:
        self.prepare()
        keys = ("--key", self.keys / "host", "--authorized-keys", self.keys / "client.pub")
        return serve("sftp", self, *keys, "--user", USER, "--pass", PASSWORD)


class RcloneFtp(Server):
    """`rclone serve ftp` with a password."""

    name = "rclone-ftp"
    needs = ("rclone",)

    @property
    def url(self) -> str:
        return f"ftp://{USER}:{PASSWORD}@{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {}

    def command(self) -> list[str | Path]:
        begin = free_port()
        passive = ("--passive-port", f"{begin}-{min(begin + 50, 65535)}")
        return serve("ftp", self, "--user", USER, "--pass", PASSWORD, *passive)

    def place(self) -> Place:
        assert self.root
        name = self.folder()
        return Place(f"{self.url}/{name}/", self.environment, self.root / name)

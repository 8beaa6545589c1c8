"""VersityGW: S3 in front of a file system."""

from __future__ import annotations

import os
from pathlib import Path

from endpoints.programs import located
from endpoints.servers.certificate import certificate, handshakes
from endpoints.servers.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from endpoints.servers.server import Place


class VersityGw(S3Server):
    """Objects are files below the root, and their metadata are extended attributes or files beside it."""

    name = "versitygw"
    needs = ("versitygw", "clients")

    def command(self) -> list[str | Path]:
        assert self.root
        command: list[str | Path] = [
            *(located("versitygw"), "--port", self.address, "--access", ACCESS_KEY, "--secret", SECRET_KEY),
            *("--region", REGION, "--quiet", "--keep-alive", *self.security(), "posix"),
        ]
        if not keeps_attributes(self.root):
            (self.scratch / "metadata").mkdir(exist_ok=True)
            command += ["--sidecar", self.scratch / "metadata"]
        return [*command, self.root]

    def security(self) -> list[str | Path]:
        """The options that make it speak TLS."""
        return []

    def place(self) -> Place:
        place = super().place()
        assert self.root
        return Place(place.url, place.environment, self.root / place.url.removeprefix("s3://"))


class VersityGwTls(VersityGw):
    """Over TLS."""

    name = "versitygw-tls"

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    @property
    def authority(self) -> Path:
        return certificate(self.scratch).authority

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **certificate(self.scratch).environment}

    def security(self) -> list[str | Path]:
        made = certificate(self.scratch)
        return ["--cert", made.chain, "--key", made.key]

    def speaks(self) -> bool:
        return handshakes(self.port, certificate(self.scratch))


def keeps_attributes(folder: Path) -> bool:
    """Whether files there can have extended attributes of users; some versions of tmpfs have none."""
    try:
        os.setxattr(folder, "user.edt", b"")
    except OSError:
        return False
    os.removexattr(folder, "user.edt")
    return True

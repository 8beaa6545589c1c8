"""moto: S3 as a model in memory, written to answer like the original."""

from __future__ import annotations

from endpoints.programs import located
from endpoints.servers.s3 import S3Server
from endpoints.servers.server import HOST


class Moto(S3Server):
    """`moto_server`; it holds everything in memory, asks for no keys, and is slow."""

    name = "moto"
    needs = ("moto", "clients")
    keeps_files = False

    def command(self) -> list[str]:
        return [located("moto_server"), "-H", HOST, "-p", str(self.port)]

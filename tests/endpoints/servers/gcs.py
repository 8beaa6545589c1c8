"""Google Cloud Storage, twice: fake-gcs-server has preconditions, gcp-storage-emulator resumes uploads."""

from __future__ import annotations

import json
import urllib.request

from endpoints.programs import located
from endpoints.servers.http import HttpServer
from endpoints.servers.server import HOST, Place

BUCKET = "edt-test"


class GcsServer(HttpServer):
    """A server that answers to the JSON interface of Google Cloud Storage, and asks for no credentials."""

    keeps_files = False

    @property
    def environment(self) -> dict[str, str]:
        return {
            "STORAGE_EMULATOR_HOST": self.url,
            "GOOGLE_CLOUD_PROJECT": "edt-test",
            "CLOUDSDK_CONFIG": str(self.home),
            "NO_GCE_CHECK": "true",
        }

    def start(self) -> None:
        super().start()
        self.bucket(BUCKET)

    def bucket(self, name: str | None = None) -> str:
        """A fresh bucket."""
        name = name or f"edt-{self.fresh()}"
        body = json.dumps({"name": name}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/storage/v1/b?project=edt-test", body, headers)
        urllib.request.urlopen(request, timeout=10).close()
        return name

    def place(self) -> Place:
        return Place(f"gs://{BUCKET}/{self.fresh()}/", self.environment)


class FakeGcs(GcsServer):
    """Objects are held in memory, and are gone when it is killed."""

    name = "fake-gcs-server"
    needs = ("fake-gcs-server",)
    greeting = b"GET /_internal/healthcheck HTTP/1.0\r\nHost: localhost\r\n\r\n"

    def command(self) -> list[str]:
        return [
            *(located("fake-gcs-server"), "-scheme", "http", "-host", HOST, "-port", str(self.port)),
            *("-backend", "memory", "-public-host", self.address, "-external-url", self.url, "-log-level", "error"),
        ]


class GcpStorageEmulator(GcsServer):
    """Objects are held in memory, and are gone when it is killed."""

    name = "gcp-storage-emulator"
    needs = ("gcp-storage-emulator",)
    greeting = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"

    def command(self) -> list[str]:
        program = located("gcp-storage-emulator")
        return [program, "start", "--host", HOST, "--port", str(self.port), "--in-memory", "--quiet"]

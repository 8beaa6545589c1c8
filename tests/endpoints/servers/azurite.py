"""Azurite: Azure Blob Storage, by its makers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from endpoints.programs import located
from endpoints.servers.http import HttpServer
from endpoints.servers.server import HOST, Place

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that everybody knows: it is part of the emulator's documentation."""
CONTAINER = "edt-test"


class Azurite(HttpServer):
    """The blob service alone; its files are extents, not blobs."""

    name = "azurite"
    needs = ("azurite", "clients")
    keeps_files = False

    @property
    def endpoint(self) -> str:
        """The URL of the account."""
        return f"{self.url}/{ACCOUNT}"

    @property
    def environment(self) -> dict[str, str]:
        parts = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.endpoint};"
        return {
            "AZURE_STORAGE_CONNECTION_STRING": parts,
            "AZURE_STORAGE_ACCOUNT": ACCOUNT,
            "AZURE_STORAGE_KEY": KEY,
        }

    def command(self) -> list[str | Path]:
        options = ("--silent", "--skipApiVersionCheck", "--disableTelemetry", "--location", self.scratch / "data")
        return [located("azurite"), "--blobHost", HOST, "--blobPort", str(self.port), *options]

    def client(self, url: str | None = None) -> Any:
        """A client of the account in Microsoft's library; each request is made once."""
        blob = importlib.import_module("azure.storage.blob")
        return blob.BlobServiceClient(url or self.endpoint, credential=KEY, retry_total=0)

    def start(self) -> None:
        super().start()
        client = self.client()
        if not client.get_container_client(CONTAINER).exists():
            client.create_container(CONTAINER)

    def place(self) -> Place:
        return Place(f"az://{CONTAINER}/{self.fresh()}/", self.environment)

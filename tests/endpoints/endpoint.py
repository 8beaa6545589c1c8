"""Places on the servers of the tests as edt is told of them, and what independent clients see there."""

from __future__ import annotations

import hashlib
import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from endpoints import servers
from endpoints.faulty import FaultyProxy
from endpoints.programs import located
from endpoints.servers.ftp import FtpServer
from endpoints.servers.gcs import GcsServer
from endpoints.servers.s3 import S3Server
from endpoints.servers.server import HOST, PASSWORD, USER, Place, Server
from endpoints.servers.ssh import SftpServer
from harness import Edt, contents

KINDS: dict[str, type[Server]] = {
    "versitygw": servers.VersityGw,
    "versitygw-tls": servers.VersityGwTls,
    "seaweedfs": servers.SeaweedFs,
    "moto": servers.Moto,
    "fake-gcs-server": servers.FakeGcs,
    "gcp-storage-emulator": servers.GcpStorageEmulator,
    "azurite": servers.Azurite,
    "wsgidav": servers.WsgiDav,
    "wsgidav-tls": servers.WsgiDavTls,
    "rclone-webdav": servers.RcloneWebdav,
    "openssh": servers.OpenSsh,
    "asyncssh": servers.AsyncSsh,
    "pyftpdlib": servers.PyFtpdLib,
    "pyftpdlib-plain": servers.PlainFtpdLib,
    "proftpd": servers.ProFtpd,
    "proftpd-tls": servers.ProFtpd,
    "nginx": servers.Nginx,
}
OBJECT_STORES = ("versitygw", "seaweedfs", "moto", "fake-gcs-server", "gcp-storage-emulator", "azurite")
FILE_SERVERS = ("wsgidav", "rclone-webdav", "openssh", "asyncssh", "pyftpdlib", "proftpd", "proftpd-tls")
WRITABLE = OBJECT_STORES + FILE_SERVERS
PARTIAL = ".edt-partial"
"""Where partial files lie on file servers, and what its name begins with where each transfer has a place of its own."""
FOREIGN = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "CLOUDSDK_", "STORAGE_", "BEARER_", "EDT_", "SSL_CERT_", "NETRC")
"""What variables of whoever runs the tests begin with that would lead edt elsewhere."""


@dataclass(frozen=True)
class Endpoint:
    """A fresh, empty folder or prefix."""

    server: Server
    url: str
    """Ends in a slash."""
    environment: Mapping[str, str]
    root: Path | None

    @property
    def keeps_directories(self) -> bool:
        """Whether directories exist by themselves."""
        return not self.url.startswith(("s3://", "gs://", "az://"))

    @property
    def bucket(self) -> str:
        """The bucket or container, of an object store."""
        return self.url.split("/")[2]

    @property
    def prefix(self) -> str:
        """What the keys of all objects begin with, of an object store."""
        return self.url.split("/", 3)[3]

    def at(self, name: str) -> str:
        """The URL of something below: keys are written as they are, all other names percent-encoded."""
        return self.url + (urllib.parse.quote(name) if self.keeps_directories else name)

    def through(self, proxy: FaultyProxy) -> Endpoint:
        """The same place, reached through a proxy."""
        old, new = f"{HOST}:{self.server.port}", proxy.url.removeprefix("http://")
        environment = {name: value.replace(old, new) for name, value in self.environment.items()}
        return replace(self, url=self.url.replace(old, new), environment=environment)

    def stored(self) -> dict[str, str]:
        """SHA-256 of every file under its final name, as an independent client sees them."""
        if self.root:
            found = contents(self.root)
            return {name: digest for name, digest in found.items() if PARTIAL not in name}
        return {
            name.removeprefix(self.prefix): hashlib.sha256(content).hexdigest()
            for name, content in objects(self.server, self.bucket, self.prefix)
        }

    def leftovers(self) -> list[str]:
        """Unfinished uploads and partial files, as an independent client sees them."""
        match self.server:
            case S3Server() as server:
                answer = server.client().list_multipart_uploads(Bucket=self.bucket, Prefix=self.prefix)
                return [upload["Key"] for upload in answer.get("Uploads", []) if upload["Key"].startswith(self.prefix)]
            case servers.Azurite() as server:
                container = server.client().get_container_client(self.bucket)
                whole = {blob.name for blob in container.list_blobs(self.prefix)}
                begun = {blob.name for blob in container.list_blobs(self.prefix, include=["uncommittedblobs"])}
                return sorted(begun - whole)
            case _:
                found = sorted(self.root.rglob(f"{PARTIAL}*/*")) if self.root else []
                return [str(path) for path in found]


class Client(Edt):
    """The command line, with the environment of some endpoints and a home of its own."""

    def __init__(self, home: Path, *endpoints: Endpoint) -> None:
        super().__init__(home)
        self.home = home / "home"
        self.home.mkdir(exist_ok=True)
        self.temporary = home / "tmp"
        self.temporary.mkdir(exist_ok=True)
        inherited = {name: value for name, value in self.environment.items() if not is_foreign(name)}
        names = ("EDT_TOKEN", "EDT_CONFIG_DIR", "EDT_DATA_DIR", "EDT_BROKER_DIR")
        own = {name: self.environment[name] for name in names}
        places = {"HOME": str(self.home), "XDG_STATE_HOME": str(home / "state"), "TMPDIR": str(self.temporary)}
        self.environment = {**inherited, **own, **places}
        self.transfers = home / "state" / "edt" / "transfers"
        """What is remembered of transfers under way to services."""
        for endpoint in endpoints:
            self.environment |= endpoint.environment

    def remembered(self) -> list[str]:
        """What is remembered of transfers under way to services."""
        return sorted(str(path) for path in self.transfers.rglob("*") if path.is_file())


def is_foreign(name: str) -> bool:
    """Whether a variable would lead edt elsewhere."""
    return name.startswith(FOREIGN) or name.lower().endswith("_proxy") or name.startswith("XDG_")


def endpoint_on(name: str, run: Callable[[type[Server]], Server]) -> Endpoint:
    """A fresh place on a server, which is started if it does not run."""
    server = run(KINDS[name])
    place: Place = server.place()
    environment = {key: value for key, value in place.environment.items() if key not in ("HOME", "EDT_SSH_CONFIG")}
    url = place.url
    if isinstance(server, SftpServer):
        environment["EDT_SSH"] = str(ssh_with(server.configuration, server.home / "ssh"))
        # One slash behind the host leads below the home directory, two from the root.
        url = place.url if server.jailed else place.url.replace(f"{server.url}/", f"{server.url}//")
    if isinstance(server, FtpServer):
        environment["NETRC"] = str(netrc(server.home / ".netrc"))
        url = place.url.replace(f":{PASSWORD}@", "@")
    if name == "proftpd-tls":
        url = url.replace("ftp://", "ftps://")
    return Endpoint(server, url, environment, place.root)


def ssh_with(configuration: Path, program: Path) -> Path:
    """Writes a program that runs ssh with a configuration, for OpenSSH does not look for one in `HOME`."""
    program.write_text(f'#!/bin/sh\nexec {located("ssh")} -F {configuration} "$@"\n')
    program.chmod(0o700)
    return program


def netrc(file: Path, *, host: str = HOST, password: str = PASSWORD) -> Path:
    """Writes a netrc file with user and password."""
    file.write_text(f"machine {host} login {USER} password {password}\n")
    file.chmod(0o600)
    return file


def objects(server: Server, bucket: str, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Key and content of every object below a prefix."""
    match server:
        case S3Server():
            client = server.client()
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for found in page.get("Contents", []):
                    yield found["Key"], client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
        case servers.Azurite():
            container = server.client().get_container_client(bucket)
            for blob in container.list_blobs(prefix):
                yield blob.name, container.download_blob(blob.name).readall()
        case GcsServer():
            base = f"{server.url}/storage/v1/b/{bucket}/o"
            with urllib.request.urlopen(f"{base}?prefix={urllib.parse.quote(prefix)}", timeout=20) as answer:
                names = [item["name"] for item in json.load(answer).get("items", [])]
            for name in names:
                with urllib.request.urlopen(
                    f"{base}/{urllib.parse.quote(name, safe='')}?alt=media", timeout=60
                ) as answer:
                    yield name, answer.read()
        case _:
            raise TypeError(f"`{server.name}` keeps no objects")


def described(endpoint: Endpoint, name: str) -> Mapping[str, Any]:
    """The metadata of an object that edt or a client gave it."""
    match endpoint.server:
        case S3Server() as server:
            answer = server.client().head_object(Bucket=endpoint.bucket, Key=endpoint.prefix + name)
            metadata: Mapping[str, Any] = answer["Metadata"]
            return metadata
        case servers.Azurite() as server:
            blob = server.client().get_blob_client(endpoint.bucket, endpoint.prefix + name)
            return dict(blob.get_blob_properties().metadata)
        case _:
            key = urllib.parse.quote(endpoint.prefix + name, safe="")
            url = f"{endpoint.server.url}/storage/v1/b/{endpoint.bucket}/o/{key}"
            with urllib.request.urlopen(url, timeout=20) as answer:
                found: Mapping[str, Any] = json.load(answer).get("metadata", {})
                return found

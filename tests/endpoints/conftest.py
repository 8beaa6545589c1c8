"""Fixtures of the endpoint tests: servers, each started once and only if a test asks for it, and fresh places."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import pytest

from endpoints import servers
from endpoints.endpoint import Endpoint, endpoint_on
from endpoints.faulty import FaultyProxy, Meets
from endpoints.servers.ftp import FtpServer
from endpoints.servers.gcs import GcsServer
from endpoints.servers.http import HttpServer
from endpoints.servers.s3 import S3Server
from endpoints.servers.server import Place, Server
from endpoints.servers.ssh import SftpServer

S = TypeVar("S", bound=Server)
Run = Callable[[type[S]], S]


def absent(name: str, reason: str) -> None:
    """Skips the test by name; fails it where all servers have to be there (`EDT_ENDPOINTS=all`)."""
    message = f"{name}: not installed: {reason}; run `python tests/endpoints/install.py`"
    if os.environ.get("EDT_ENDPOINTS") == "all":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def run() -> Iterator[Run[Server]]:
    """Starts servers, each once; all are stopped at the end of the session, and after Ctrl-C."""
    started: dict[type[Server], Server] = {}
    with ExitStack() as stack:

        def start(kind: type[Server]) -> Server:
            if reason := kind.missing():
                absent(kind.name, reason)
            if kind not in started:
                started[kind] = stack.enter_context(kind())
            return started[kind]

        yield start


@pytest.fixture(scope="session")
def versitygw(run: Run[servers.VersityGw]) -> servers.VersityGw:
    """S3 in front of files."""
    return run(servers.VersityGw)


@pytest.fixture(scope="session")
def versitygw_tls(run: Run[servers.VersityGwTls]) -> servers.VersityGwTls:
    """S3 over TLS."""
    return run(servers.VersityGwTls)


@pytest.fixture(scope="session")
def seaweedfs(run: Run[servers.SeaweedFs]) -> servers.SeaweedFs:
    """S3 of another family."""
    return run(servers.SeaweedFs)


@pytest.fixture(scope="session")
def moto(run: Run[servers.Moto]) -> servers.Moto:
    """S3 in memory."""
    return run(servers.Moto)


@pytest.fixture(scope="session")
def rclone_s3(run: Run[servers.RcloneS3]) -> servers.RcloneS3:
    """S3 without conditions and checksums; not one of `s3`, because it does what it cannot without saying so."""
    return run(servers.RcloneS3)


@pytest.fixture(
    scope="session", params=[servers.VersityGw, servers.SeaweedFs, servers.Moto], ids=lambda kind: kind.name
)
def s3(request: pytest.FixtureRequest, run: Run[S3Server]) -> S3Server:
    """Each S3 server in turn."""
    return run(request.param)


@pytest.fixture
def s3_place(s3: S3Server) -> Place:
    """A fresh prefix on each S3 server in turn."""
    return s3.place()


@pytest.fixture(scope="session")
def fake_gcs(run: Run[servers.FakeGcs]) -> servers.FakeGcs:
    """Google Cloud Storage with preconditions."""
    return run(servers.FakeGcs)


@pytest.fixture(scope="session")
def gcp_storage_emulator(run: Run[servers.GcpStorageEmulator]) -> servers.GcpStorageEmulator:
    """Google Cloud Storage with uploads that can be resumed."""
    return run(servers.GcpStorageEmulator)


@pytest.fixture(scope="session", params=[servers.FakeGcs, servers.GcpStorageEmulator], ids=lambda kind: kind.name)
def gcs(request: pytest.FixtureRequest, run: Run[GcsServer]) -> GcsServer:
    """Each server of Google Cloud Storage in turn."""
    return run(request.param)


@pytest.fixture
def gcs_place(gcs: GcsServer) -> Place:
    """A fresh prefix on each server of Google Cloud Storage in turn."""
    return gcs.place()


@pytest.fixture(scope="session")
def azurite(run: Run[servers.Azurite]) -> servers.Azurite:
    """Azure Blob Storage."""
    return run(servers.Azurite)


@pytest.fixture
def azure_place(azurite: servers.Azurite) -> Place:
    """A fresh prefix on Azurite."""
    return azurite.place()


@pytest.fixture(scope="session")
def nginx(run: Run[servers.Nginx]) -> servers.Nginx:
    """HTTP and HTTPS."""
    return run(servers.Nginx)


@pytest.fixture
def http_place(nginx: servers.Nginx) -> Place:
    """A fresh folder on nginx."""
    return nginx.place()


@pytest.fixture(scope="session")
def wsgidav_tls(run: Run[servers.WsgiDavTls]) -> servers.WsgiDavTls:
    """WebDAV over TLS."""
    return run(servers.WsgiDavTls)


@pytest.fixture(scope="session", params=[servers.WsgiDav, servers.RcloneWebdav], ids=lambda kind: kind.name)
def webdav(request: pytest.FixtureRequest, run: Run[HttpServer]) -> HttpServer:
    """Each WebDAV server in turn."""
    return run(request.param)


@pytest.fixture
def webdav_place(webdav: HttpServer) -> Place:
    """A fresh folder on each WebDAV server in turn."""
    return webdav.place()


@pytest.fixture(scope="session")
def openssh(run: Run[servers.OpenSsh]) -> servers.OpenSsh:
    """An sshd of its own."""
    return run(servers.OpenSsh)


@pytest.fixture(
    scope="session", params=[servers.OpenSsh, servers.AsyncSsh, servers.RcloneSftp], ids=lambda kind: kind.name
)
def sftp(request: pytest.FixtureRequest, run: Run[SftpServer]) -> SftpServer:
    """Each SFTP server in turn."""
    return run(request.param)


@pytest.fixture
def sftp_place(sftp: SftpServer) -> Place:
    """A fresh folder on each SFTP server in turn."""
    return sftp.place()


@pytest.fixture(scope="session", params=[servers.PyFtpdLib, servers.ProFtpd], ids=lambda kind: kind.name)
def ftp(request: pytest.FixtureRequest, run: Run[FtpServer]) -> FtpServer:
    """Each FTP server in turn; both have TLS, on request and from the start."""
    return run(request.param)


@pytest.fixture
def ftp_place(ftp: FtpServer) -> Place:
    """A fresh folder on each FTP server in turn."""
    return ftp.place()


@pytest.fixture(scope="session")
def rclone_ftp(run: Run[servers.RcloneFtp]) -> servers.RcloneFtp:
    """A third FTP server, without TLS."""
    return run(servers.RcloneFtp)


@pytest.fixture
def faulty() -> Iterator[Callable[..., FaultyProxy]]:
    """Puts proxies with faults in front of URLs; they are closed at the end of the test."""
    with ExitStack() as stack:

        def front(url: str, *faults: Meets) -> FaultyProxy:
            return stack.enter_context(FaultyProxy(url, *faults))

        yield front


@pytest.fixture
def on(run: Run[Server]) -> Callable[[str], Endpoint]:
    """Makes a fresh place on a server that is named."""
    return lambda name: endpoint_on(name, run)


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, on: Callable[[str], Endpoint]) -> Endpoint:
    """A fresh place on each server that the test names as an indirect parameter."""
    return on(request.param)

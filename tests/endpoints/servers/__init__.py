"""The servers."""

from __future__ import annotations

from endpoints.servers.async_ssh import AsyncSsh
from endpoints.servers.azurite import Azurite
from endpoints.servers.gcs import FakeGcs, GcpStorageEmulator
from endpoints.servers.moto import Moto
from endpoints.servers.nginx import Nginx
from endpoints.servers.openssh import OpenSsh
from endpoints.servers.proftpd import ProFtpd
from endpoints.servers.pyftpdlib import PlainFtpdLib, PyFtpdLib
from endpoints.servers.rclone import RcloneFtp, RcloneS3, RcloneSftp, RcloneWebdav
from endpoints.servers.seaweedfs import SeaweedFs
from endpoints.servers.versitygw import VersityGw, VersityGwTls
from endpoints.servers.wsgidav import WsgiDav, WsgiDavTls

__all__ = [
    "AsyncSsh",
    "Azurite",
    "FakeGcs",
    "GcpStorageEmulator",
    "Moto",
    "Nginx",
    "OpenSsh",
    "PlainFtpdLib",
    "ProFtpd",
    "PyFtpdLib",
    "RcloneFtp",
    "RcloneS3",
    "RcloneSftp",
    "RcloneWebdav",
    "SeaweedFs",
    "VersityGw",
    "VersityGwTls",
    "WsgiDav",
    "WsgiDavTls",
]

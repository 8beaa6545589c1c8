"""OpenSSH: an sshd of its own, for the account that runs the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from endpoints.programs import located
from endpoints.servers.server import ACCOUNT, HOST
from endpoints.servers.ssh import SftpServer


class OpenSsh(SftpServer):
    """`sshd -D` on a high port; clients see the whole file system, so that paths are absolute."""

    name = "openssh"
    needs = ("openssh",)
    account = ACCOUNT
    jailed = False

    def command(self) -> list[str | Path]:
        self.prepare()
        configuration = self.scratch / "sshd_config"
        configuration.write_text(
            f"ListenAddress {HOST}:{self.port}\nHostKey {self.keys}/host\nAuthorizedKeysFile {self.keys}/client.pub\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            f"SetEnv HOME={self.home}\n"
            "MaxStartups 500\nMaxSessions 500\nLogLevel ERROR\nSubsystem sftp internal-sftp\n"
        )
        # sshd as root insists on this directory, which a system without a service manager lacks.
        subprocess.run(["mkdir", "-p", "/run/sshd"], check=False)
        return [located("sshd"), "-D", "-e", "-f", configuration]

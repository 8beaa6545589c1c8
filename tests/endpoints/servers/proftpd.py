"""ProFTPD: FTP and FTPS as many sites run it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from endpoints.programs import located
from endpoints.servers.ftp import FtpServer
from endpoints.servers.server import ACCOUNT, HOST, PASSWORD, USER


class ProFtpd(FtpServer):
    """Sees the files as the account that runs the tests; the root is all that clients see."""

    name = "proftpd"
    needs = ("proftpd", "clients")

    def command(self) -> list[str | Path]:
        made = self.certificate
        # By default TLS sessions of data connections must continue that of the control connection; few clients can.
        tls = (
            f"TLSEngine on\nTLSRSACertificateFile {made.chain}\nTLSRSACertificateKeyFile {made.key}\n"
            "TLSRequired off\nTLSRenegotiate none\nTLSOptions NoSessionReuseRequired"
        )
        shared = f"AuthUserFile {self.passwords()}\nAuthOrder mod_auth_file.c\nRequireValidShell off\nRootLogin on\n"
        shared += "DefaultRoot ~\nAllowOverwrite on\nAllowStoreRestart on\nAllowRetrieveRestart on\nTimesGMT on\n"
        configuration = self.scratch / "proftpd.conf"
        configuration.write_text(
            f"LoadModule mod_tls.c\nServerType standalone\nServerName edt\nDefaultAddress {HOST}\nPort {self.port}\n"
            f"User {ACCOUNT}\nMaxInstances 512\nUseReverseDNS off\nUseIPv6 off\nDelayEngine off\nWtmpLog off\n"
            f"PidFile {self.scratch}/pid\nScoreboardFile {self.scratch}/scoreboard\nTransferLog none\n"
            f"{shared}{tls}\n"
            f"<VirtualHost {HOST}>\nPort {self.implicit_port}\n{shared}{tls} UseImplicitSSL\n</VirtualHost>\n"
        )
        return [located("proftpd"), "-n", "-c", configuration]

    def passwords(self) -> Path:
        """Writes the file of users: one, with the rights of the account that runs the tests."""
        command = [located("openssl"), "passwd", "-6", PASSWORD]
        digest = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        file = self.scratch / "users"
        file.write_text(f"{USER}:{digest}:{os.getuid()}:{os.getgid()}::{self.root}:/bin/sh\n")
        file.chmod(0o600)
        return file

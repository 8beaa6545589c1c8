"""A certificate for this machine, and the authority that signed it, which clients have to be told."""

from __future__ import annotations

import importlib
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """PEM files: the certificate with its chain, its key, and the authority."""

    chain: Path
    key: Path
    authority: Path

    @property
    def environment(self) -> dict[str, str]:
        """How clients are told: OpenSSL's and rustls' own variable, and those of curl, AWS and Python's requests."""
        variables = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
        return dict.fromkeys(variables, str(self.authority))


def certificate(folder: Path) -> Certificate:
    """Makes a certificate for `localhost` and 127.0.0.1, once for each folder."""
    made = Certificate(folder / "chain.pem", folder / "key.pem", folder / "authority.pem")
    if not made.authority.exists():
        trustme = importlib.import_module("trustme")
        authority = trustme.CA()
        issued = authority.issue_cert("localhost", "127.0.0.1")
        issued.private_key_pem.write_to_path(made.key)
        for number, part in enumerate(issued.cert_chain_pems):
            part.write_to_path(made.chain, append=number > 0)
        authority.cert_pem.write_to_path(made.authority)
    return made


def handshakes(port: int, made: Certificate) -> bool:
    """Whether a server on this machine completes a TLS handshake with the certificate."""
    context = ssl.create_default_context(cafile=str(made.authority))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as connection,
            context.wrap_socket(connection, server_hostname="localhost"),
        ):
            return True
    except OSError:
        return False

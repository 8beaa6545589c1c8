"""Files of other services, staged with `edt.schemes`: real servers over TLS, FTP and SSH, and one that breaks off."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256

import pytest

from endpoints.endpoint import endpoint_on
from endpoints.servers import Nginx
from endpoints.servers.server import Server
from harness import MIB, fill
from pipeline import Pipeline

EACH = """
process each {
    input: path x
    output: stdout
    script: "sha256sum < $x"
}
workflow { each(Channel.of(FILES)) | view { 'sum ' + it.split(' ')[0] } }
"""
LISTED = "println \"listed ${files('URL*.bin').collect { it.name }.sort()}\"\n"
SIZES = {"large one.bin": 12 * MIB, "small.bin": 1000}


@pytest.mark.parametrize(
    ("name", "scheme"), [("nginx", "https"), ("pyftpdlib", "ftp"), ("pyftpdlib", "ftps"), ("asyncssh", "sftp")]
)
def test_files_of_other_services_are_staged(
    pipeline: Pipeline, serving: Callable[[type[Server]], Server], name: str, scheme: str
) -> None:
    endpoint = endpoint_on(name, serving)
    assert endpoint.root
    for file, size in SIZES.items():
        fill(endpoint.root / file, size, file)
    url = endpoint.url
    if isinstance(endpoint.server, Nginx):
        url = url.replace(endpoint.server.url, endpoint.server.tls_url)
    if scheme == "ftps":
        url = url.replace("ftp:", "ftps:")
    assert url.startswith(f"{scheme}://")
    pipeline.environment |= endpoint.environment
    pipeline.configure(f"edt.schemes = ['{scheme}']")
    files = ", ".join(f"file('{url}{file.replace(' ', '%20')}')" for file in SIZES)
    # Web servers list nothing.
    listed = LISTED.replace("URL", url) if scheme != "https" else ""
    run = pipeline.run(listed + EACH.replace("FILES", files))
    assert sorted(run.lines("sum ")) == sorted(
        sha256((endpoint.root / file).read_bytes()).hexdigest() for file in SIZES
    )
    assert run.lines("listed ") == ([f"[{', '.join(SIZES)}]"] if listed else [])
    assert run.staged() == len(SIZES)


class Cutting(http.server.BaseHTTPRequestHandler):
    """Announces 2 MiB, sends one, breaks off, and refuses all that comes later."""

    protocol_version = "HTTP/1.1"
    cut = threading.Event()

    def do_HEAD(self) -> None:
        self.announce(200, 2 * MIB)

    def do_GET(self) -> None:
        if self.cut.is_set():
            self.announce(403, 0)
            return
        self.announce(200, 2 * MIB)
        self.wfile.write(b"x" * MIB)
        self.cut.set()
        self.close_connection = True

    def announce(self, status: int, size: int) -> None:
        """Begins an answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture
def cutting() -> Iterator[str]:
    """The address of a file that a server cuts short."""
    Cutting.cut.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cutting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/cut"
    server.shutdown()


def test_a_file_that_a_server_cuts_short_never_counts_as_complete(pipeline: Pipeline, cutting: str) -> None:
    pipeline.configure("edt { schemes = ['http']; retries = 0 }")
    run = pipeline.run(EACH.replace("FILES", f"file('{cutting}')"), expected=1)
    assert Cutting.cut.is_set()
    assert f"Can't stage file {cutting}" in run.out
    assert not run.submitted()
    assert not pipeline.staged()

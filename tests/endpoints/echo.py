"""A real HTTP server at which each file holds the path that it was asked for by, as it came."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from endpoints.listener import Service


class Echo(Service):
    """Has a file at every path."""

    def __init__(self) -> None:
        super().__init__(Handler)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *words: object) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        # `path` has its slashes at the begin put together.
        content = self.requestline.split(" ")[1].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def do_GET(self) -> None:
        self.do_HEAD()

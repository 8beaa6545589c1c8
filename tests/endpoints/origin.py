"""A real HTTP server of one file that behaves oddly: no ranges, no lengths, no HEAD, a file that changes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from enum import Flag, auto
from functools import lru_cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler

from endpoints.listener import Listener, Service

PIECE = 1 << 20


class Oddity(Flag):
    """What the server does unlike others."""

    NONE = 0
    IGNORES_RANGE = auto()
    """A range is answered with 200 and the whole file, and ranges are not announced."""
    CHUNKED = auto()
    """No Content-Length, neither of GET nor of HEAD."""
    NO_HEAD = auto()
    """HEAD is answered with 405."""
    EMPTY_HEAD = auto()
    """HEAD is answered with a Content-Length of 0, whatever the file's is."""
    NO_ETAG = auto()
    """No ETag, and no Last-Modified."""
    WEAK_ETAG = auto()
    """The ETag promises no equal bytes, so that If-Range with it never holds."""


class Origin(Service):
    """Serves `content` at every path; `change` replaces it, and with `change_after` so many GETs do."""

    def __init__(
        self, content: bytes, oddity: Oddity = Oddity.NONE, *, changed: bytes | None = None, change_after: int = 0
    ) -> None:
        super().__init__(Handler)
        self.content = content
        self.oddity = oddity
        self.changed = changed
        self.change_after = change_after
        self.gets = 0
        self.ranges = 0
        """How many GETs were answered with 206."""
        self.lock = threading.Lock()
        self.url = f"{self.root}/file.bin"

    def change(self, content: bytes) -> None:
        """Replaces the file, and with it the ETag, for all requests that come after."""
        with self.lock:
            self.content = content

    def current(self, *, get: bool) -> bytes:
        """The file for one request; GETs are counted, and bring about the change that was planned."""
        with self.lock:
            if get:
                if self.changed is not None and self.gets == self.change_after:
                    self.content, self.changed = self.changed, None
                self.gets += 1
            return self.content


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD, with one range, If-Range, If-Match and If-None-Match."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    server: Listener[Origin]

    def log_message(self, format: str, *words: object) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        if Oddity.NO_HEAD in self.server.service.oddity:
            self.refuse(405)
        else:
            self.serve(self.server.service.current(get=False))

    def do_GET(self) -> None:
        self.serve(self.server.service.current(get=True))

    def refuse(self, status: int) -> None:
        """An answer without a body."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def serve(self, content: bytes) -> None:
        """Answers with the file or a range of it."""
        etag = etag_of(content, self.server.service.oddity)
        wanted = self.headers.get("If-Match")
        if wanted not in (None, "*", etag):
            self.refuse(412)
            return
        if etag and self.headers.get("If-None-Match") in (etag, "*"):
            self.refuse(304)
            return
        begin, end = self.span(content, etag)
        if begin >= end and content:
            self.refuse(416)
            return
        self.send_head(content, etag, begin, end)
        if self.command == "GET":
            self.send_body(memoryview(content)[begin:end])

    def span(self, content: bytes, etag: str | None) -> tuple[int, int]:
        """The bytes that are asked for; all of them without a range that holds."""
        whole = (0, len(content))
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not found or Oddity.IGNORES_RANGE in self.server.service.oddity:
            return whole
        condition = self.headers.get("If-Range")
        if condition and (condition != etag or condition.startswith("W/")):
            return whole
        if not found[1]:
            return max(0, len(content) - int(found[2] or 0)), len(content)
        return int(found[1]), min(len(content), int(found[2]) + 1 if found[2] else len(content))

    def send_head(self, content: bytes, etag: str | None, begin: int, end: int) -> None:
        """Status and headers."""
        oddity = self.server.service.oddity
        partial = end - begin != len(content)
        if partial:
            with self.server.service.lock:
                self.server.service.ranges += 1
        self.send_response(206 if partial else 200)
        if partial:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        if Oddity.IGNORES_RANGE not in oddity:
            self.send_header("Accept-Ranges", "bytes")
        if etag:
            self.send_header("ETag", etag)
        if Oddity.CHUNKED in oddity:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            hidden = self.command == "HEAD" and Oddity.EMPTY_HEAD in oddity
            self.send_header("Content-Length", "0" if hidden else str(end - begin))
        self.end_headers()

    def send_body(self, body: memoryview) -> None:
        """The bytes, in chunks if that is the oddity."""
        chunked = Oddity.CHUNKED in self.server.service.oddity
        for piece in split(body):
            if chunked:
                self.wfile.write(b"%x\r\n" % len(piece))
            self.wfile.write(piece)
            if chunked:
                self.wfile.write(b"\r\n")
        if chunked:
            self.wfile.write(b"0\r\n\r\n")


def etag_of(content: bytes, oddity: Oddity) -> str | None:
    """An ETag by content."""
    if Oddity.NO_ETAG in oddity:
        return None
    return f"W/{strong_etag(content)}" if Oddity.WEAK_ETAG in oddity else strong_etag(content)


@lru_cache
def strong_etag(content: bytes) -> str:
    """The digest of the content, in quotes."""
    return f'"{sha256(content).hexdigest()[:32]}"'


def split(body: memoryview) -> Iterator[memoryview]:
    """Pieces of at most a mebibyte."""
    for begin in range(0, len(body), PIECE):
        yield body[begin : begin + PIECE]

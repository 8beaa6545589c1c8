"""A real HTTP proxy in front of any server of the tests, that does to requests what faults say; threads, no TLS."""

from __future__ import annotations

import select
import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Protocol
from urllib.parse import urlsplit

from endpoints.faults import Answer, Body, Cut, Deed, Flip, Lose, Request, Shift, Wait
from endpoints.listener import Listener, Service

PIECE = 256 * 1024
BODILESS = (204, 304)


class Meets(Protocol):
    """Whatever says what happens to a request; asked from many threads."""

    def meets(self, request: Request) -> Deed | None:
        """What happens to a request, if anything."""


class Broken(Exception):
    """The exchange ends here, and the connection with it."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self.reset = reset


class FaultyProxy(Service):
    """Listens on a port of its own and passes requests on; the first fault that meets a request is done to it."""

    def __init__(self, url: str, *faults: Meets) -> None:
        super().__init__(Connection)
        self.url = self.root
        target = urlsplit(url)
        self.target = (target.hostname or "", target.port or 80)
        self.faults = list(faults)
        self.requests: Counter[str] = Counter()
        """How many requests came, by method."""
        self.lock = threading.Lock()

    def judge(self, request: Request) -> Deed | None:
        """Counts a request and asks the faults; delays are done here."""
        with self.lock:
            self.requests[request.method] += 1
        for fault in self.faults:
            deed = fault.meets(request)
            if isinstance(deed, Wait):
                time.sleep(deed.seconds)
            elif deed:
                return deed
        return None


class Connection(socketserver.BaseRequestHandler):
    """One connection of a client, and the one to the server that stands behind it."""

    server: Listener[FaultyProxy]
    request: socket.socket

    def handle(self) -> None:
        self.client = Stream(self.request)
        self.origin: Stream | None = None
        try:
            while head := self.client.head():
                if not self.exchange(head):
                    break
        except Broken as broken:
            if broken.reset:
                linger_not(self.request)
        except OSError:
            linger_not(self.request)
        finally:
            self.request.close()
            if self.origin:
                self.origin.socket.close()

    def exchange(self, head: bytes) -> bool:
        """Passes one request and its response on; false if the connection ends after it."""
        request, version = parse_request(head)
        framing = Framing.of(request.headers, default=0)
        expects = request.headers.get("expect", "").lower() == "100-continue"
        deed = self.server.service.judge(request)
        if isinstance(deed, Answer):
            if not expects:
                for _ in self.client.body(framing):
                    pass
            self.client.socket.sendall(deed.encoded(close=expects))
            return not expects
        origin = self.connected()
        origin.socket.sendall(head)
        response = origin.head() if expects else None
        if response is None or status_of(response) == 100:
            if response:
                self.client.socket.sendall(response)
            try:
                pass_on(self.client.body(framing), origin, meant(deed, Body.REQUEST), framing.length)
            except BrokenPipeError:
                # The server had its answer ready before the end of the body.
                framing = Framing(length=None)
            response = origin.head()
        while response and status_of(response) // 100 == 1:
            self.client.socket.sendall(response)
            response = origin.head()
        if response and isinstance(deed, Shift):
            response = deed.applied(response)
        if isinstance(deed, Lose):
            raise Broken(reset=True)
        return self.answer(request, response, meant(deed, Body.RESPONSE)) and version == "HTTP/1.1"

    def answer(self, request: Request, head: bytes | None, deed: Cut | Flip | None) -> bool:
        """Passes a response on; false if the connection ends after it."""
        if not head or not self.origin:
            raise Broken(reset=True)
        headers = parse_headers(head)
        framing = Framing.of(headers, default=None)
        if request.method == "HEAD" or status_of(head) in BODILESS:
            framing = Framing(length=0)
        self.client.socket.sendall(head)
        pass_on(self.origin.body(framing), self.client, deed, framing.length)
        stays = "close" not in (headers.get("connection", "").lower(), request.headers.get("connection", "").lower())
        return stays and (framing.chunked or framing.length is not None)

    def connected(self) -> Stream:
        """The connection to the server; a new one, if the server has ended the last."""
        if self.origin and (self.origin.rest or select.select([self.origin.socket], [], [], 0)[0]):
            self.origin.socket.close()
            self.origin = None
        if self.origin is None:
            self.origin = Stream(socket.create_connection(self.server.service.target, timeout=120))
        return self.origin


class Framing:
    """How the end of a body is found: by its length, by chunks, or by the end of the connection (`None`)."""

    def __init__(self, length: int | None, *, chunked: bool = False) -> None:
        self.length = length
        self.chunked = chunked

    @staticmethod
    def of(headers: dict[str, str], *, default: int | None) -> Framing:
        """What headers say."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return Framing(None, chunked=True)
        length = headers.get("content-length")
        return Framing(int(length) if length is not None else default)


class Stream:
    """A socket from which heads and bodies are read in turn."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(120)
        self.socket = connection
        self.rest = b""

    def head(self) -> bytes | None:
        """The next head up to its empty line; `None` at the end of the connection."""
        return self.until(b"\r\n\r\n")

    def until(self, mark: bytes) -> bytes | None:
        """All up to a mark, and the mark."""
        while mark not in self.rest:
            more = self.socket.recv(65536)
            if not more:
                return None
            self.rest += more
        end = self.rest.index(mark) + len(mark)
        found, self.rest = self.rest[:end], self.rest[end:]
        return found

    def body(self, framing: Framing) -> Iterator[tuple[bytes | memoryview, bool]]:
        """The pieces of a body, with the framing of chunks as it came; each with whether it is content.

        A piece is valid until the next is asked for.
        """
        if not framing.chunked:
            yield from ((piece, True) for piece in self.pieces(framing.length))
            return
        while line := self.until(b"\r\n"):
            yield line, False
            size = int(line.split(b";")[0], 16)
            if size == 0:
                break
            yield from ((piece, True) for piece in self.pieces(size))
            yield self.until(b"\r\n") or b"", False
        while line := self.until(b"\r\n"):
            yield line, False
            if line == b"\r\n":
                break

    def pieces(self, length: int | None) -> Iterator[bytes | memoryview]:
        """So many bytes, or all up to the end of the connection."""
        buffer = memoryview(bytearray(PIECE))
        left = length
        while left is None or left > 0:
            limit = PIECE if left is None else min(PIECE, left)
            if self.rest:
                piece: bytes | memoryview = self.rest[:limit]
                self.rest = self.rest[limit:]
            else:
                piece = buffer[: self.socket.recv_into(buffer, limit)]
            if not piece:
                if left:
                    raise Broken(reset=True)
                return
            left = None if left is None else left - len(piece)
            yield piece


def pass_on(
    pieces: Iterator[tuple[bytes | memoryview, bool]], target: Stream, deed: Cut | Flip | None, length: int | None
) -> None:
    """Sends a body, less what a deed takes away from it, or with the bit that it changes."""
    # Of a body whose length nobody knows, the deed is done within the first piece.
    place = int((deed.share if deed else 0) * (length or 1))
    done = 0
    for piece, content in pieces:
        if deed and content and done <= place < done + len(piece):
            within = place - done
            if isinstance(deed, Cut):
                target.socket.sendall(piece[:within])
                raise Broken(reset=deed.reset)
            changed = bytearray(piece)
            changed[within] ^= 1
            target.socket.sendall(changed)
        else:
            target.socket.sendall(piece)
        done += len(piece) if content else 0


def meant(deed: Deed | None, body: Body) -> Cut | Flip | None:
    """The deed, if it is one to that body."""
    return deed if isinstance(deed, Cut | Flip) and deed.body is body else None


def parse_request(head: bytes) -> tuple[Request, str]:
    """The request, and the version of HTTP."""
    method, target, version = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    return Request(method, target, parse_headers(head)), version


def parse_headers(head: bytes) -> dict[str, str]:
    """Headers by name in lower case; of repeated ones the last."""
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:] if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def status_of(head: bytes) -> int:
    """The status of a response."""
    return int(head.split(b" ", 2)[1])


def linger_not(connection: socket.socket) -> None:
    """Makes the end of a connection a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

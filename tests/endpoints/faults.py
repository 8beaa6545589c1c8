"""What a faulty proxy does to requests: which ones it picks, and what happens to them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True)
class Request:
    """The head of a request."""

    method: str
    target: str
    headers: dict[str, str]
    """Names are in lower case."""


class Body(Enum):
    """Which of the two bodies of an exchange is meant."""

    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True)
class Answer:
    """A response that the proxy gives itself; the server behind it never sees the request."""

    status: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def encoded(self, *, close: bool) -> bytes:
        """The response as it is sent."""
        ending = (("Content-Length", str(len(self.body))), *((("Connection", "close"),) if close else ()))
        lines = "".join(f"{name}: {value}\r\n" for name, value in (*self.headers, *ending))
        return f"HTTP/1.1 {self.status}\r\n{lines}\r\n".encode() + self.body


@dataclass(frozen=True)
class Cut:
    """A body ends after a share of its length, with an orderly end of the connection or with a reset."""

    share: float
    reset: bool
    body: Body = Body.RESPONSE


@dataclass(frozen=True)
class Flip:
    """One bit of the byte at a share of the body's length is another; the length stays."""

    share: float
    body: Body = Body.RESPONSE


@dataclass(frozen=True)
class Wait:
    """The request is passed on after a while."""

    seconds: float


@dataclass(frozen=True)
class Shift:
    """The answer to a range says that it is the one so many bytes later."""

    by: int

    def applied(self, head: bytes) -> bytes:
        """The head of the answer as it is passed on."""

        def shifted(found: re.Match[bytes]) -> bytes:
            return b"%s%d-%d" % (found[1], int(found[2]) + self.by, int(found[3]) + self.by)

        return re.sub(rb"(?i)(\r\ncontent-range: *bytes )(\d+)-(\d+)", shifted, head)


@dataclass(frozen=True)
class Lose:
    """The request is carried out, and the connection is reset before its answer."""


Deed = Answer | Cut | Flip | Wait | Shift | Lose


@dataclass
class Fault:
    """Does a deed to every Nth of the requests that it picks, at most `times` times; counts both."""

    deed: Deed
    methods: tuple[str, ...] = ("GET",)
    every: int = 1
    times: int | None = None
    matching: str = ""
    """A regular expression that the path with its query must contain."""
    picked: int = 0
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def meets(self, request: Request) -> Deed | None:
        """What happens to a request, if anything."""
        if request.method not in self.methods or not re.search(self.matching, request.target):
            return None
        with self.lock:
            self.picked += 1
            if self.picked % self.every or (self.times is not None and self.done >= self.times):
                return None
            self.done += 1
            return self.deed


ALL_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "COPY", "MOVE", "PROPFIND", "MKCOL", "OPTIONS")


def truncated(*, every: int = 1, share: float = 0.5, times: int | None = None, matching: str = "") -> Fault:
    """The body of every Nth GET ends early, without an error."""
    return Fault(Cut(share, reset=False), every=every, times=times, matching=matching)


def reset(*, every: int = 1, share: float = 0.5, times: int | None = None, matching: str = "") -> Fault:
    """The connection is reset within the body of every Nth GET."""
    return Fault(Cut(share, reset=True), every=every, times=times, matching=matching)


def reset_upload(*, every: int = 1, share: float = 0.5, times: int | None = None, matching: str = "") -> Fault:
    """The connection is reset while the body of every Nth PUT or POST comes in."""
    deed = Cut(share, reset=True, body=Body.REQUEST)
    return Fault(deed, ("PUT", "POST"), every=every, times=times, matching=matching)


def flipped(*, every: int = 1, share: float = 0.5, times: int | None = None, matching: str = "") -> Fault:
    """One bit in the body of every Nth GET is another."""
    return Fault(Flip(share), every=every, times=times, matching=matching)


def flipped_upload(*, every: int = 1, share: float = 0.5, times: int | None = None, matching: str = "") -> Fault:
    """One bit in the body of every Nth PUT is another when it comes to the server."""
    return Fault(Flip(share, Body.REQUEST), ("PUT",), every=every, times=times, matching=matching)


def lost(*methods: str, every: int = 1, times: int | None = None, matching: str = "") -> Fault:
    """Every Nth request of these methods is carried out, and its answer never comes."""
    return Fault(Lose(), methods, every=every, times=times, matching=matching)


def shifted(by: int = 1 << 20, *, every: int = 1, times: int | None = None, matching: str = "") -> Fault:
    """Every Nth GET of a range is answered with another range."""
    return Fault(Shift(by), every=every, times=times, matching=matching)


def delayed(seconds: float, *, every: int = 1, times: int | None = None) -> Fault:
    """Every Nth request is held up."""
    return Fault(Wait(seconds), ALL_METHODS, every=every, times=times)


def too_many(retry_after_s: int, *, every: int = 1, times: int | None = None, matching: str = "") -> Fault:
    """Every Nth request is answered with 429 and told when to come again."""
    deed = Answer("429 Too Many Requests", b"", (("Retry-After", str(retry_after_s)),))
    return Fault(deed, ALL_METHODS, every=every, times=times, matching=matching)


S3_SLOW_DOWN = Answer(
    "503 Slow Down",
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.'
    b"</Message><RequestId>edt-test</RequestId><HostId>edt-test</HostId></Error>",
    (("Content-Type", "application/xml"), ("x-amz-request-id", "edt-test")),
)
AZURE_BUSY = Answer(
    "503 The server is busy.",
    b'<?xml version="1.0" encoding="utf-8"?>\n<Error><Code>ServerBusy</Code><Message>The server is busy.</Message>'
    b"</Error>",
    (("Content-Type", "application/xml"), ("x-ms-error-code", "ServerBusy"), ("Retry-After", "1")),
)
GCS_TOO_MANY = Answer(
    "429 Too Many Requests",
    b'{"error": {"code": 429, "message": "rate limit exceeded", "errors": [{"domain": "usageLimits", "reason": '
    b'"rateLimitExceeded", "message": "rate limit exceeded"}]}}',
    (("Content-Type", "application/json"),),
)


@dataclass
class SlowDown:
    """Refuses requests beyond a rate, by a token bucket; counts those let through and those refused.

    `rate` is in requests per second; `burst` is how many may come at once after a pause.
    """

    rate: float
    burst: float = 1.0
    answer: Answer = S3_SLOW_DOWN
    clock: Callable[[], float] = time.monotonic
    passed: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.burst = max(self.burst, 1.0)
        self.tokens = self.burst
        self.filled = self.clock()

    def meets(self, request: Request) -> Deed | None:
        """Refuses the request if no token is left."""
        with self.lock:
            now = self.clock()
            self.tokens = min(self.burst, self.tokens + (now - self.filled) * self.rate)
            self.filled = now
            if self.tokens < 1:
                self.refused += 1
                return self.answer
            self.tokens -= 1
            self.passed += 1
            return None

"""The paths that a transfer can be measured over, by name: loopback, and those of the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class End:
    """One end of a path: its address, and the words before a command that make it run there."""

    address: str
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ends:
    """Both ends of a path: data goes from near to far. `rate_bps` is the path's rate; `None` where nothing limits it."""

    path: str
    near: End
    far: End
    rate_bps: float | None
    rtt_ms: float


LOOPBACK = Ends("loopback", End("127.0.0.1"), End("127.0.0.1"), None, 0.0)


@contextmanager
def opened(path: str) -> Iterator[Ends]:
    """Brings up a path, and takes it down at the end."""
    if path != LOOPBACK.path:
        raise ValueError(f"no path `{path}`")
    yield LOOPBACK

"""The paths that copies are measured over, by name: loopback, and the profiles of the emulator (`edt-path`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import emulated


@dataclass(frozen=True)
class End:
    """One end of a path: its address, and the words before a command that make it run there."""

    address: str
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ends:
    """Both ends of a path: data goes from near to far. A rate is `None` where nothing limits all, or a stream."""

    path: str
    near: End
    far: End
    rate_bps: float | None
    rtt_ms: float
    stream_rate_bps: float | None = None


LOOPBACK = Ends("loopback", End("127.0.0.1"), End("127.0.0.1"), None, 0.0)


@contextmanager
def opened(path: str) -> Iterator[Ends]:
    """Brings up a path, and takes it down at the end."""
    if path == LOOPBACK.path:
        yield LOOPBACK
        return
    with emulated.Path.start(path) as running:
        yield ends_of(path, running)


def ends_of(name: str, running: emulated.Path) -> Ends:
    """Both ends of a path that is running."""
    near = End(running.near.address, tuple(running.command("near", [])))
    far = End(running.far.address, tuple(running.command("far", [])))
    profile = running.profile
    return Ends(name, near, far, profile["rate_bps"], profile["rtt_ms"], profile["stream_rate_bps"])

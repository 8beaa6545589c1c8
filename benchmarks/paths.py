"""The paths that copies are measured over, by name: loopback, and the profiles of the emulator (`edt-path`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import EDT, Failed, Measured

EMULATOR = Path(os.environ.get("EDT_PATH_BINARY", EDT.parent / "edt-path"))


@dataclass(frozen=True)
class End:
    """One end of a path: its address, and the words before a command that make it run there."""

    address: str
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ends:
    """Both ends of a path: data goes from near to far. `rate_bps` is `None` where nothing limits it."""

    path: str
    near: End
    far: End
    rate_bps: float | None
    rtt_ms: float


LOOPBACK = Ends("loopback", End("127.0.0.1"), End("127.0.0.1"), None, 0.0)


@contextmanager
def opened(path: str) -> Iterator[Ends]:
    """Brings up a path, and takes it down at the end."""
    if path == LOOPBACK.path:
        yield LOOPBACK
        return
    if not EMULATOR.exists():
        raise Failed(f"`{EMULATOR.name}` is not built: `cargo build --release -p edt-path`")
    emulator = Measured([EMULATOR, "run", "--profile", path], {})
    try:
        ready = json.loads(emulator.line())
        near, far = (
            End(ready[end]["address"], ("ip", "netns", "exec", ready[end]["namespace"])) for end in ("near", "far")
        )
        parameters = ready["profile"]
        yield Ends(path, near, far, parameters["rate_bps"], parameters["rtt_ms"])
    finally:
        if emulator in Measured.running:
            emulator.stop()

"""What a transfer tells whoever watches. Events are bounded and lossy: a slow watcher never slows the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from edt.optimizer import Buffers, Decision, PerStage, decision_of


@dataclass(frozen=True)
class Planned:
    """What is known of the work so far: more of the source was listed."""

    items: int
    """Files, directories and links found."""
    bytes: int
    """Bytes of the files found."""
    complete: bool
    """Whether the listing is complete."""


@dataclass(frozen=True)
class Totals:
    """Counters of a transfer."""

    files_done: int
    """Files published, with verified content."""
    files_skipped: int
    """Files that needed no bytes."""
    others_done: int
    """Directories and links made."""
    failed: int
    """Items that failed."""
    removed: int
    """Items removed at the destination because the source does not have them."""
    bytes_done: int
    """Bytes of published files."""
    bytes_skipped: int
    """Bytes of files that needed no bytes."""
    bytes_resumed: int
    """Bytes of partial files found verified at the destination and not sent again."""
    bytes_sent: int
    """Bytes put on the streams, repeated ones counted again."""
    bytes_verified: int
    """Bytes that the destination has written and acknowledged."""
    retries: int
    """Retries of streams, connections and files."""
    elapsed_s: float
    """Wall time in seconds."""

    @property
    def goodput(self) -> float:
        """Bytes of published files per second of wall time."""
        return self.bytes_done / self.elapsed_s if self.elapsed_s > 0 else 0.0


@dataclass(frozen=True)
class Sampled:
    """One measured interval, for progress displays and timelines."""

    elapsed_s: float
    """Seconds since the transfer began."""
    throughput: PerStage[float]
    """Bytes per second out of each stage."""
    concurrency: PerStage[float]
    """Time-averaged workers of each stage."""
    busy: PerStage[float]
    """Share of their time that the workers of each stage worked, 0 to 1."""
    buffers: Buffers
    """Free buffer at both ends."""
    rtt_ms: float | None
    """Round trip time in milliseconds."""
    loss: float | None
    """Retransmitted share of the segments sent."""
    totals: Totals
    """The work so far."""
    bottleneck: Literal["read", "network", "write"] | None
    """Which stage limits at present."""


@dataclass(frozen=True)
class Tuned:
    """A decision and when it was made."""

    elapsed_s: float
    """Seconds since the transfer began."""
    decision: Decision
    """The decision, with its reason."""


@dataclass(frozen=True)
class FileDone:
    """A file is complete, verified and under its final name."""

    path: str
    """The name at the destination, relative to the destination given."""
    size: int
    """Size in bytes."""
    crc64nvme: str
    """Digest of the content, 16 hexadecimal digits."""
    blake3: str | None
    """BLAKE3 of the content, if it was asked for."""


@dataclass(frozen=True)
class FileSkipped:
    """A file needs no bytes: it was complete after an earlier attempt, or unchanged."""

    path: str
    """The name, relative to the source given."""
    size: int
    """Size in bytes."""


@dataclass(frozen=True)
class Failure:
    """An item that failed for good."""

    path: str
    """The name, relative to the source given."""
    kind: str
    """The kind of the error, as in `edt.Error.kind`."""
    what: str
    """What failed and where."""
    cause: str | None
    """Why, if known."""
    hint: str | None
    """What to do about it, if known."""

    def __str__(self) -> str:
        return f"`{self.path}`: {self.what}" + ("" if self.cause is None else f": {self.cause}")


@dataclass(frozen=True)
class FileFailed:
    """An item failed for good; the others go on."""

    failure: Failure
    """What failed, and why."""


@dataclass(frozen=True)
class Retried:
    """Something temporary went wrong and is tried again."""

    place: str
    """The file, stream or connection."""
    cause: str
    """Why."""
    wait_ms: int
    """Milliseconds before the next attempt."""


@dataclass(frozen=True)
class Finished:
    """The transfer ended; nothing follows."""

    totals: Totals
    """The counters at the end."""


Event: TypeAlias = Planned | Sampled | Tuned | FileDone | FileSkipped | FileFailed | Retried | Finished
"""Something that happened during a transfer."""


def event_of(text: str) -> Event:
    """Takes an event from JSON."""
    data = json.loads(text)
    return _EVENTS[data.pop("event")](data)


def sampled_of(data: dict[str, Any]) -> Sampled:
    """Takes a sample from JSON."""
    return Sampled(
        **{
            **data,
            "throughput": PerStage(**data["throughput"]),
            "concurrency": PerStage(**data["concurrency"]),
            "busy": PerStage(**data["busy"]),
            "buffers": Buffers(**data["buffers"]),
            "totals": Totals(**data["totals"]),
        }
    )


def tuned_of(data: dict[str, Any]) -> Tuned:
    """Takes a decision and its time from JSON."""
    return Tuned(data["elapsed_s"], decision_of(data["decision"]))


_EVENTS: dict[str, Callable[[dict[str, Any]], Event]] = {
    "planned": lambda data: Planned(**data),
    "sampled": sampled_of,
    "tuned": tuned_of,
    "file_done": lambda data: FileDone(**data),
    "file_skipped": lambda data: FileSkipped(**data),
    "file_failed": lambda data: FileFailed(Failure(**data)),
    "retried": lambda data: Retried(**data),
    "finished": lambda data: Finished(Totals(**data)),
}

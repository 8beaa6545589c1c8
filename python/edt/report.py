"""What a transfer answers at its end."""

from __future__ import annotations

import html
import json
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from edt import _plot
from edt.events import Failure, Sampled, Totals, Tuned, sampled_of, tuned_of
from edt.options import Path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edt import _edt

# How many failures a notebook shows; the report holds more.
_FAILURES_SHOWN = 20


@dataclass(frozen=True)
class ManifestEntry:
    """A file of a finished transfer."""

    path: str
    """The name below the destination."""
    size: int
    """Size in bytes."""
    modified_ns: int | None
    """Modification time in nanoseconds since 1970."""
    mode: int | None
    """Unix permission bits."""
    crc64nvme: str
    """Digest of the content, 16 hexadecimal digits."""
    blake3: str | None
    """BLAKE3 of the content as 64 hexadecimal digits, if the transfer had it."""


class Report:
    """The whole account of a transfer: every item is in one of the totals. It can be pickled, without its manifest."""

    source: str
    """The source, without secrets."""
    destination: str
    """The destination, without secrets."""
    optimizer: str
    """The optimizer that tuned."""
    totals: Totals
    """Counters."""
    timeline: list[Sampled]
    """One entry an interval; thinned evenly when a transfer is very long."""
    decisions: list[Tuned]
    """Every decision with its reason; thinned like the timeline."""
    bottleneck: Literal["read", "network", "write"] | None
    """The stage that limited most of the time, if one did and enough was moved to tell."""
    rate_limited: bool
    """Whether the option `limit_rate` is what limited."""
    host_limited: bool
    """Whether the rate that all transfers of this host share is what limited."""
    explanation: str | None
    """What limited for how much of the time, and how the streams went; None where too little was moved to tell."""
    advice: list[str]
    """What would help, for people."""
    failures: list[Failure]
    """The items that failed, the first 10,000 and the first of each further kind; `totals.failed` counts all."""
    dry_run: bool
    """Whether the transfer was a dry run."""
    summary: str
    """The report in a few lines for people."""

    def __init__(self, data: dict[str, Any], summary: str, native: _edt.Report | None = None) -> None:
        self.source = data["source"]
        self.destination = data["destination"]
        self.optimizer = data["optimizer"]
        self.totals = Totals(**data["totals"])
        self.timeline = [sampled_of(sample) for sample in data["timeline"]]
        self.decisions = [tuned_of(tuned) for tuned in data["decisions"]]
        self.bottleneck = data["bottleneck"]
        self.rate_limited = data["rate_limited"]
        self.host_limited = data["host_limited"]
        self.explanation = data["explanation"]
        self.advice = data["advice"]
        self.failures = [Failure(**failure) for failure in data["failures"]]
        self.dry_run = data["dry_run"]
        self.summary = summary
        self._data = data
        self._native = native

    @property
    def is_complete(self) -> bool:
        """Whether every item is there and verified."""
        return self.totals.failed == 0

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as `edt cp --report` writes it: dictionaries, lists, text and numbers."""
        return deepcopy(self._data)

    def manifest(self) -> list[ManifestEntry]:
        """Reads all files with their sizes and digests into memory, about 0.5 kB each; `save_manifest` needs none."""
        lines = (json.loads(line) for line in self._whole().manifest().splitlines())
        # A manifest of no files is one line that says so.
        return [_manifest_entry(line) for line in lines if line.keys() != {"files"}]

    def save_manifest(self, path: Path) -> None:
        """Writes the manifest as JSON lines, for `edt verify`."""
        self._whole().save_manifest(path)

    def plot(self) -> Figure:
        """Draws throughput and concurrency of the three stages over time. Needs matplotlib: `pip install edt[plot]`."""
        return _plot.draw(self)

    def _whole(self) -> _edt.Report:
        if self._native is None:
            raise ValueError("a report that was pickled has no manifest; call `save_manifest` before")
        return self._native

    def __reduce__(self) -> tuple[type[Report], tuple[dict[str, Any], str]]:
        return Report, (self._data, self.summary)

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"<edt.Report {self.summary.splitlines()[0]}>"

    def _repr_html_(self) -> str:
        failures = "".join(f"<li>{html.escape(str(failure))}</li>" for failure in self.failures[:_FAILURES_SHOWN])
        hidden = self.totals.failed - min(len(self.failures), _FAILURES_SHOWN)
        if hidden > 0:
            failures += f"<li>{hidden} more</li>"
        title = f"{html.escape(self.source)} &rarr; {html.escape(self.destination)}"
        lines = html.escape(self.summary).replace("\n", "<br>")
        return f"<p><b>{title}</b><br>{lines}</p>" + (f"<p>failed:</p><ul>{failures}</ul>" if failures else "")


def report_of(native: _edt.Report) -> Report:
    """Takes a report from the core."""
    return Report(json.loads(native.to_json()), native.summary(), native)


def _manifest_entry(line: dict[str, Any]) -> ManifestEntry:
    path = line.get("path")
    if path is None:
        path = bytes.fromhex(line["path_bytes"]).decode(errors="surrogateescape")
    return ManifestEntry(path, line["size"], line["modified_ns"], line["mode"], line["crc64nvme"], line.get("blake3"))

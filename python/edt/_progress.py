"""What becomes of the events of a transfer that nobody iterates over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edt.events import Event, Finished, Planned, Sampled, Totals, Tuned

if TYPE_CHECKING:
    from tqdm import tqdm

# The rate of tqdm counts bytes; here, as everywhere in edt, people see bits.
_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


@contextmanager
def watching(progress: bool | Callable[[Event], object] | None) -> Iterator[Callable[[Event], object]]:
    """Gives the function that takes every event; a bar is closed at the end."""
    if callable(progress):
        yield progress
    elif progress:
        from tqdm.auto import tqdm

        with tqdm(total=0, unit="B", unit_scale=True, bar_format=_FORMAT) as bar:
            yield _Display(bar).show
    else:
        yield lambda _event: None


class _Display:
    """A bar, and why there are as many streams as there are."""

    def __init__(self, bar: tqdm[Any]) -> None:
        self.bar = bar
        self.reason = ""

    def show(self, event: Event) -> None:
        """Takes an event."""
        if isinstance(event, Planned):
            self.bar.total = event.bytes
            self.bar.refresh()
        elif isinstance(event, Tuned):
            self.reason = event.decision.reason
        elif isinstance(event, Sampled):
            self.bar.set_postfix_str(_stages(event, self.reason), refresh=False)
            _advance(self.bar, event.totals)
        elif isinstance(event, Finished):
            _advance(self.bar, event.totals)
            self.bar.refresh()


def _advance(bar: tqdm[Any], totals: Totals) -> None:
    done = totals.bytes_verified + totals.bytes_skipped + totals.bytes_resumed
    # A chunk that was sent twice is verified twice.
    bar.update(max(0, min(done, bar.total or 0) - bar.n))


def _stages(sampled: Sampled, reason: str) -> str:
    streams = sampled.concurrency.map(round)
    text = f"{_bits(sampled.throughput.write * 8)}, streams {streams.read}/{streams.network}/{streams.write}"
    if sampled.bottleneck is not None:
        text += f", limited by {sampled.bottleneck}"
    return f"{text} ({reason})" if reason else text


def _bits(rate_bps: float) -> str:
    for prefix in ("", "k", "M", "G"):
        if rate_bps < 1000:
            return f"{rate_bps:.3g} {prefix}bit/s"
        rate_bps /= 1000
    return f"{rate_bps:.4g} Tbit/s"

"""What becomes of the events of a transfer that nobody iterates over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edt.events import Event, Finished, Planned, Sampled, Totals

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
            yield lambda event: _show(bar, event)
    else:
        yield lambda _event: None


def _show(bar: tqdm[Any], event: Event) -> None:
    if isinstance(event, Planned):
        bar.total = event.bytes
        bar.refresh()
    elif isinstance(event, Sampled):
        bar.set_postfix_str(_stages(event), refresh=False)
        _advance(bar, event.totals)
    elif isinstance(event, Finished):
        _advance(bar, event.totals)
        bar.refresh()


def _advance(bar: tqdm[Any], totals: Totals) -> None:
    done = totals.bytes_verified + totals.bytes_skipped + totals.bytes_resumed
    # A chunk that was sent twice is verified twice.
    bar.update(max(0, min(done, bar.total or 0) - bar.n))


def _stages(sampled: Sampled) -> str:
    streams = sampled.concurrency.map(round)
    text = f"{_bits(sampled.throughput.write * 8)}, streams {streams.read}/{streams.network}/{streams.write}"
    return text if sampled.bottleneck is None else f"{text}, limited by {sampled.bottleneck}"


def _bits(rate_bps: float) -> str:
    for prefix in ("", "k", "M", "G"):
        if rate_bps < 1000:
            return f"{rate_bps:.3g} {prefix}bit/s"
        rate_bps /= 1000
    return f"{rate_bps:.4g} Tbit/s"

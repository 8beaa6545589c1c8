"""What `--limit-rate` promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import MIB, Edt, Server, fill, mixed_tree


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_rate_limit_is_kept_within_a_tenth(
    edt: Edt, server: Server, source: Path, scratch: Path, direction: str
) -> None:
    rate, size = 20e6, 60_000_000
    fill(source / "a.bin" if direction == "up" else server.root / "a.bin", size, "rate")
    ends = (source, server.url()) if direction == "up" else (server.url(), scratch / "back")
    totals = edt.copy("--limit-rate", "20MB", *ends).totals()
    assert totals["bytes_done"] / totals["elapsed_s"] == pytest.approx(rate, rel=0.1)


def test_a_rate_limit_holds_for_many_small_files(edt: Edt, server: Server, source: Path) -> None:
    size = mixed_tree(source, "rate", large=MIB, small=1500)
    totals = edt.copy("--limit-rate", "5MB", source, server.url()).totals()
    assert size / totals["elapsed_s"] < 5e6 * 1.1

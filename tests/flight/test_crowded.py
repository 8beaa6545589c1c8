"""Uploads with more streams than the service has places for calls."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from flight.service import Start
from flight.test_strain import stalled
from harness import MIB, Edt, contents, fill

SIZE = 64 * MIB
STREAMS = ("--optimizer", "fixed", "--concurrency", "9", "--chunk-size", "4MiB")
LIMIT = 60.0
"""Seconds that a copy may take."""


@pytest.mark.parametrize("places", [2, 4, 8])
def test_an_upload_with_more_streams_than_places_ends(edt: Edt, serve_flight: Start, source: Path, places: int) -> None:
    service = serve_flight("--max-sessions", str(places))
    fill(source / "large.bin", SIZE, "large")
    for number in range(20):
        fill(source / f"small-{number}.bin", 1000 * number, f"small-{number}")
    edt.copy(*STREAMS, source, service.flight("tree"), timeout=LIMIT)
    assert contents(service.root / "tree") == contents(source)
    assert service.leftovers() == []


def test_an_upload_goes_on_when_others_give_their_places_back(edt: Edt, serve_flight: Start, source: Path) -> None:
    service = serve_flight("--max-sessions", "4")
    with (service.root / "held.bin").open("wb") as file:
        file.truncate(300 * MIB)
    fill(source / "large.bin", SIZE, "large")
    clients = [service.client() for _ in range(3)]
    readers = [stalled(client, "held.bin") for client in clients]

    def give_back() -> None:
        for reader, client in zip(readers, clients, strict=True):
            reader.cancel()
            client.flight.close()

    later = threading.Timer(5, give_back)
    later.start()
    edt.copy(*STREAMS, source, service.flight("tree"), timeout=LIMIT)
    later.join()
    assert contents(service.root / "tree") == contents(source)

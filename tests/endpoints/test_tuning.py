"""How transfers with services are tuned."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from endpoints.endpoint import Client, Endpoint
from harness import MIB, fill

On = Callable[[str], Endpoint]


def test_workers_that_make_requests_are_given_a_second_and_not_half_of_one(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("versitygw")
    for number in range(36):
        fill(source / f"{number}.bin", MIB, number)
    report = Client(scratch, endpoint).copy("--limit-rate", "6MB", source, endpoint.url).events()[-1]
    # The last one may come early, at the end.
    times = [each["elapsed_s"] for each in report["decisions"][:-1]]
    assert len(times) >= 3, report["decisions"]
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times)), times

"""Transfers that are ended after their time, beside one another."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import timed
from harness import wait_until
from processes import Failed, Measured, Processors, Workplace
from together import Room, together

CLIENT = """
import json, signal, sys, time

def tell(second):
    each = {"read": 1.0, "network": 1.0, "write": 1.0}
    totals = {"bytes_verified": int(second * 1e6)}
    print(json.dumps({"event": "sampled", "elapsed_s": second, "concurrency": each, "loss": None, "totals": totals}))
    sys.stdout.flush()

def tuned(reason):
    print(json.dumps({"event": "tuned", "decision": {"reason": reason}}))

signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
tell(1.0)
tell(1.0)
tuned("guard: back to 4")
tell(2.0)
tuned("falcon: 5")
tell(3.0)
if sys.argv[1] == "stays":
    time.sleep(60)
"""


def client(scratch: Path, word: str) -> Measured:
    """A program that tells of three intervals as `edt cp --json` does."""
    file = scratch / "client.py"
    file.write_text(CLIENT)
    return Measured([sys.executable, file, word], {})


def test_a_transfer_is_ended_after_its_time_and_its_intervals_are_kept(scratch: Path) -> None:
    found = timed.followed(client(scratch, "stays"), 3.0)
    assert [sample["elapsed_s"] for sample in found.timeline] == [1.0, 2.0, 3.0]
    assert [sample["overruled"] for sample in found.timeline] == [False, True, False]
    assert [sample["throughput"]["network"] for sample in found.timeline] == [1_000_000] * 3


def test_a_transfer_that_ends_before_its_time_has_failed(scratch: Path) -> None:
    with pytest.raises(Failed, match="ended with 0"):
        timed.followed(client(scratch, "ends"), 9.0)
    assert not Measured.running


def test_files_are_more_than_the_path_can_move_and_take_no_memory(scratch: Path) -> None:
    source = scratch / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_bytes(name.encode())
    found = list(timed.supply(source, Workplace(scratch), 1e9, 60.0).iterdir())
    assert len(found) * timed.FILE > 60 * 1e9 / 8
    assert {file.stat().st_ino for file in found} == {file.stat().st_ino for file in source.iterdir()}


def test_what_has_arrived_is_removed_and_what_is_on_its_way_is_not(scratch: Path) -> None:
    target, own = scratch / "target", scratch / "target" / ".edt"
    own.mkdir(parents=True)
    (own / "partial").touch()
    with timed.Sweeper(target):
        (target / "000000.bin").touch()
        wait_until(lambda: not (target / "000000.bin").exists(), "the end of what arrived")
    assert (own / "partial").exists()


def test_what_does_not_fit_beside_others_waits_for_its_turn() -> None:
    room, sums, used = Room(600, 3), [], {0: 0.0, 1: 0.0, 2: 0.0}
    lock = threading.Lock()

    def job(part: float, first: str | None, _: object) -> None:
        alone = partial(check_alone, first) if first else None
        with room.taken(part, alone_first=alone) as place:
            with lock:
                assert used[place] == 0.0
                used[place] = part
                sums.append(sum(used.values()))
            time.sleep(0.02)
            with lock:
                used[place] = 0.0

    def check_alone(first: str) -> None:
        with lock:
            assert not any(used.values())
        if first == "fails":
            raise Failed(first)

    jobs = [(200.0, None), (400.0, None), (200.0, "trained"), (2000.0, None), (50.0, None)] * 3
    together([partial(job, *each) for each in jobs])
    assert len(sums) == len(jobs) and max(min(each, 2000.0) for each in sums) == 2000.0
    assert all(each <= 600.0 or each == 2000.0 for each in sums)
    with pytest.raises(Failed, match="fails"):
        together([partial(job, 200.0, "fails")])
    together([partial(job, 600.0, None)])


def test_processors_that_work_are_not_idle() -> None:
    processors, until = Processors(), time.monotonic() + 0.5
    while time.monotonic() < until:
        pass
    assert 0.0 <= processors.idle() <= 1.0 - 0.5 / (os.cpu_count() or 1)


def test_jobs_run_side_by_side_and_the_first_error_is_told() -> None:
    both = threading.Barrier(2, timeout=20)
    assert sorted(together([lambda _: both.wait(), lambda _: both.wait()])) == [0, 1]

    def fails(_: object) -> bool:
        raise Failed("no path")

    with pytest.raises(Failed, match="no path"):
        together([lambda over: over.wait(0.0), fails])

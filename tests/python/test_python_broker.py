"""Transfers of a Python program share the host with all others."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import edt


def decided(report: edt.Report) -> set[int]:
    """The streams of all decisions."""
    return {tuned.decision.concurrency.network for tuned in report.decisions}


def test_the_limits_of_the_host_are_options(tree: Path, target: Path) -> None:
    report = edt.copy(tree, target / "a", optimizer="fixed", concurrency=6, host_streams=2, interval=0.05)
    assert decided(report) == {2}
    report = edt.copy(tree, target / "b", optimizer="fixed", concurrency=6, broker=False, host_streams=2)
    assert decided(report) == {6}
    # There is no server, and both halves have a buffer.
    report = edt.copy(tree, target / "c", optimizer="fixed", concurrency=6, server_streams=2, host_memory="64MiB")
    assert decided(report) == {6}
    assert {sample.buffers.sender_capacity for sample in report.timeline} == {32 << 20}


def test_two_transfers_of_one_process_share(target: Path) -> None:
    def start(name: str) -> edt.TransferHandle:
        transfer = edt.Transfer(
            "zero:32x250000",
            target / name,
            optimizer="fixed",
            concurrency=8,
            limit_rate="2MB",
            interval=0.1,
            host_streams=8,
        )
        return transfer.start()

    both = [start(name) for name in "ab"]
    reports = [running.join() for running in both]
    reasons = [tuned.decision.reason for report in reports for tuned in report.decisions]
    assert any("4 of 8 streams: 2 transfers share this host" in reason for reason in reasons), reasons


def test_a_process_that_was_forked_off_holds_no_share(target: Path) -> None:
    context = multiprocessing.get_context("fork")
    running = edt.Transfer("zero:16x250000", target / "a", limit_rate="2MB", interval=0.1).start()
    done = context.Event()
    child = context.Process(target=done.wait, args=(30,))
    child.start()
    try:
        running.join()
        report = edt.copy("zero:4x250000", target / "b", optimizer="fixed", concurrency=4, host_streams=4)
        assert decided(report) == {4}
    finally:
        done.set()
        child.join()

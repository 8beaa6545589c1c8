"""Events, handles, cancelling, and the event loop."""

from __future__ import annotations

import asyncio
import threading
import traceback
from pathlib import Path

import pytest

import edt
from edt._progress import watching


def endless(target: Path) -> edt.Transfer:
    """A transfer that would take an hour."""
    return edt.Transfer("zero:4x1GiB", target, limit_rate="1MB", interval=0.05)


def test_iterating_runs_the_transfer_and_leaves_the_report(tree: Path, target: Path) -> None:
    transfer = edt.Transfer(tree, target)
    assert transfer.report is None
    events = list(transfer)
    assert isinstance(events[-1], edt.Finished)
    assert transfer.report is not None
    assert events[-1].totals == transfer.report.totals


def test_a_transfer_can_run_again(tree: Path, target: Path) -> None:
    transfer = edt.Transfer(tree, target, selection="changed")
    assert transfer.run().totals.files_done == 4
    assert transfer.run().totals.files_skipped == 4


def test_samples_are_typed_down_to_the_stage(tree: Path, target: Path) -> None:
    transfer = edt.Transfer(tree, target, limit_rate="8MB", interval=0.05)
    sample = next(event for event in transfer if isinstance(event, edt.Sampled))
    assert isinstance(sample.throughput, edt.PerStage)
    assert isinstance(sample.totals, edt.Totals)
    assert sample.buffers.sender <= sample.buffers.sender_capacity


def test_a_bar_shows_why_there_are_as_many_streams_as_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    stages = edt.PerStage.all(4.0)
    totals = edt.Totals(0, 0, 0, 0, 0, 0, 0, 0, 0, 50, 0, 1.0)
    sampled = edt.Sampled(
        1.0, stages.map(lambda _: 1e6), stages, stages, edt.Buffers(0, 0, 0, 0), None, None, totals, None
    )
    with watching(True) as show:
        show(edt.Planned(1, 100, True))
        show(edt.Tuned(0.5, edt.Decision.uniform(4, reason="testing 4 around 3")))
        show(sampled)
        show(edt.Finished(totals))
    assert "8 Mbit/s, streams 4/4/4 (testing 4 around 3)" in capsys.readouterr().err


def test_the_report_explains_what_limited(target: Path) -> None:
    report = edt.copy("zero:1x12MB", target, limit_rate="4MB")
    assert report.explanation is not None and report.explanation.startswith("held to --limit-rate; ")
    assert f"how it went: {report.explanation}" in report.summary
    assert edt.copy("zero:1x1kB", target).explanation is None


def test_leaving_the_loop_cancels(target: Path) -> None:
    for event in endless(target):
        if isinstance(event, edt.Sampled):
            break
    assert list(target.glob("[!.]*")) == []


def test_a_cancelled_transfer_says_so_to_everyone_who_joins(target: Path) -> None:
    handle = endless(target).start()
    errors: list[edt.Error] = []

    def join() -> None:
        with pytest.raises(edt.CancelledError) as raised:
            handle.join()
        errors.append(raised.value)

    threads = [threading.Thread(target=join) for _ in range(2)]
    for thread in threads:
        thread.start()
    handle.cancel()
    handle.cancel()
    for thread in threads:
        thread.join()
    assert [error.kind for error in errors] == ["cancelled", "cancelled"]


def test_an_error_that_a_block_dealt_with_is_not_raised_at_its_end(target: Path) -> None:
    with endless(target).start() as handle:
        handle.cancel()
        with pytest.raises(edt.CancelledError):
            handle.join()


def test_an_error_that_a_block_did_not_ask_for_is_raised_at_its_end(target: Path) -> None:
    with pytest.raises(edt.CancelledError), endless(target).start() as handle:
        handle.cancel()


def test_the_trace_of_an_error_does_not_grow_with_each_join(target: Path) -> None:
    handle = endless(target).start()
    handle.cancel()
    traces = []
    for _ in range(3):
        with pytest.raises(edt.CancelledError) as raised:
            handle.join()
        traces.append(len(traceback.extract_tb(raised.value.__traceback__)))
    assert len(set(traces)) == 1


def test_other_threads_run_while_bytes_move(target: Path) -> None:
    handle = endless(target).start()
    beats: list[int] = []

    def beat() -> None:
        beats.extend(range(100))
        handle.cancel()

    thread = threading.Thread(target=beat)
    thread.start()
    with pytest.raises(edt.CancelledError):
        handle.join()
    thread.join()
    assert len(beats) == 100


def test_join_gives_the_same_report_again(tree: Path, target: Path) -> None:
    with edt.Transfer(tree, target).start() as handle:
        assert handle.join() is handle.join()


def test_the_event_loop_goes_on_while_bytes_move(tree: Path, target: Path) -> None:
    async def main() -> tuple[edt.Report, list[edt.Event], int]:
        events: list[edt.Event] = []
        other = asyncio.create_task(asyncio.to_thread(threading.get_ident))
        report = await edt.Transfer(tree, target).run_async(progress=events.append)
        return report, events, await other

    report, events, _ = asyncio.run(main())
    assert report.totals.files_done == 4
    assert isinstance(events[-1], edt.Finished)


def test_a_cancelled_task_cancels_its_transfer(target: Path) -> None:
    async def main() -> None:
        moving = asyncio.Event()
        transfer = endless(target)
        task = asyncio.create_task(transfer.run_async(progress=lambda _event: moving.set()))
        await moving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transfer.report is None

    asyncio.run(main())


def test_events_can_be_taken_in_the_event_loop(tree: Path, target: Path) -> None:
    async def main() -> list[edt.Event]:
        handle = edt.Transfer(tree, target).start()
        return [event async for event in handle]

    assert isinstance(asyncio.run(main())[-1], edt.Finished)

"""How small, short and long-distance transfers begin, and how the report explains one when it has ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import emulated
from harness import EDT, MIB, Edt, Json, Running, Server, fill
from reset_proxy import ResetProxy

Start = Callable[..., emulated.Path]


def decided(report: Json) -> list[int]:
    """The streams of each decision."""
    return [tuned["decision"]["concurrency"]["network"] for tuned in report["decisions"]]


@pytest.mark.parametrize("size", [0, 10_000, 4 * MIB])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_small_file_has_one_connection_beside_that_of_the_session(
    edt: Edt, server: Server, scratch: Path, way: str, size: int
) -> None:
    fill(scratch / "here.bin", size, way)
    fill(server.root / "there.bin", size, way)
    with ResetProxy(server.port, seed=0, resets=0, after_bytes=(1, 1)) as proxy:
        url = server.url("new.bin" if way == "up" else "there.bin", port=proxy.port)
        outcome = edt.copy(*((scratch / "here.bin", url) if way == "up" else (url, scratch / "new.bin")))
    report = outcome.events()[-1]
    assert proxy.connections == 2
    assert decided(report)[0] == 1 and report["decisions"][0]["decision"]["reason"].startswith("start: 1 stream for ")
    arrived = server.root / "new.bin" if way == "up" else scratch / "new.bin"
    assert arrived.read_bytes() == (scratch / "here.bin").read_bytes()


def test_what_the_user_says_holds_for_a_small_file_too(edt: Edt, server: Server, scratch: Path) -> None:
    fill(scratch / "here.bin", 10_000, "fixed")
    report = edt.copy("--concurrency", "3", scratch / "here.bin", server.url("new.bin")).events()[-1]
    assert decided(report)[0] == 3


def over(path: emulated.Path, edt: Edt, scratch: Path, source: Path) -> Json:
    """The report of an upload over a path."""
    (scratch / "served").mkdir()
    server = Server(edt, scratch / "served", "--plain", host=path.far.address, within=path.command("far", []))
    try:
        command = path.command("near", [EDT, "cp", "--json", "--plain", source, server.url("tree/")])
        outcome = Running(command, edt.environment).end()
    finally:
        server.stop()
    assert outcome.code == 0, outcome.err
    report: Json = outcome.events()[-1]
    assert report["failures"] == []
    return report


def flows(path: emulated.Path) -> int:
    """The most flows that carried data in a second."""
    return max(int(sample["near_to_far"]["active_flows"]) for sample in path.samples())


def test_a_short_transfer_of_many_files_over_a_long_path_begins_with_many_streams(
    emulated_path: Start, edt: Edt, scratch: Path, source: Path
) -> None:
    path = emulated_path("cloudlab", rtt="80ms", rate="200M", stream_rate="none")
    for number in range(480):
        fill(source / f"{number}.bin", 110_000, number)
    report = over(path, edt, scratch, source)
    first = report["decisions"][0]["decision"]
    assert decided(report)[0] == 48
    assert first["reason"].startswith("start: 48 streams for 481 items of 52.8 MB")
    assert flows(path) >= 40


@pytest.mark.parametrize("files", [1, 8])
def test_few_large_files_are_not_held_to_as_many_streams_as_there_are_files(
    emulated_path: Start, edt: Edt, scratch: Path, source: Path, files: int
) -> None:
    # Queues that overflow would be a reason for fewer streams.
    path = emulated_path("cloudlab", rtt="2ms", rate="200M", stream_rate="5M", stream_queue="1MiB", mtu=1500)
    for number in range(files):
        fill(source / f"{number}.bin", 96 * MIB // files, number)
    streams = decided(over(path, edt, scratch, source))
    assert streams[0] == 4 and max(streams) >= 11, streams
    assert flows(path) >= 11


def test_the_report_says_in_a_sentence_what_limited_and_how_the_streams_went(
    edt: Edt, serve: Callable[..., Server], source: Path
) -> None:
    for number in range(4):
        fill(source / f"{number}.bin", 32 * MIB, number)
    server = serve(None, "--worker-rate", "10MB")
    outcome = edt.copy("--max-streams", "4", source, server.url("tree/"))
    events = outcome.events()
    report = events[-1]
    went = r"(\S.*) (?:streams|workers \(read/network/write\))"
    found = re.fullmatch(rf"write-bound at the destination (\d+) % of the time; {went}", report["explanation"])
    assert found, report["explanation"]
    limited = [sample["bottleneck"] == "write" for sample in report["timeline"]]
    assert abs(int(found[1]) - 100 * sum(limited) / len(limited)) <= 25, (found[1], limited)
    # Writers may have got workers of their own by then: all stages began with as many.
    assert set(found[2].split(" -> ")[0].split("/")) == {str(decided(report)[0])}
    assert f"how it went: {report['explanation']}" in outcome.err
    tuned = [event["decision"]["reason"] for event in events if event["event"] == "tuned"]
    assert tuned and all(tuned) and tuned == [each["decision"]["reason"] for each in report["decisions"]]


def test_of_a_moment_nothing_is_explained(edt: Edt, server: Server, scratch: Path) -> None:
    fill(scratch / "here.bin", 10_000, "moment")
    outcome = edt.copy(scratch / "here.bin", server.url("new.bin"))
    assert outcome.events()[-1]["explanation"] is None and "how it went" not in outcome.err

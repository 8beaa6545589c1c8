"""The path emulator, held to what ping, iperf3 and edt itself measure over it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import emulated
from harness import EDT, Edt, Running, Server, contents, fill, mixed_tree, wait_until

Start = Callable[..., emulated.Path]

HEADERS = 40 + 12
"""Bytes of the IP and TCP headers of a segment with its timestamps; rates of a path count them."""


def needs(program: str) -> None:
    """Skips the test where a program is not installed."""
    if not shutil.which(program):
        pytest.skip(f"`{program}` is not installed")


def ping(path: emulated.Path, *options: str) -> str:
    """What ping says at the near end."""
    command = path.command("near", ["ping", "-n", *options, path.far.address])
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.fixture
def iperf3(emulated_path: Start) -> Iterator[Callable[..., list[float]]]:
    """Measures over a path of 1 Gbit/s and 67 ms; gives the rate of each stream in bits per second of IP packets."""
    needs("iperf3")
    path = emulated_path("cloudlab")
    server = subprocess.Popen(
        path.command("far", ["iperf3", "-s", "--forceflush"]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert server.stdout is not None
    lines = iter(server.stdout.readline, b"")
    assert any(b"listening" in line for line in lines), "the server of iperf3 ended"

    def measure(*, streams: int, warm_up_s: int, seconds: int) -> list[float]:
        words = ["-P", str(streams), "-O", str(warm_up_s), "-t", str(seconds), "--json"]
        command = path.command("near", ["iperf3", "-c", path.far.address, *words])
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
        report: dict[str, Any] = json.loads(outcome.stdout)
        assert "error" not in report, report["error"]
        segment = path.profile["mtu"] - HEADERS
        return [
            stream["receiver"]["bits_per_second"] * path.profile["mtu"] / segment for stream in report["end"]["streams"]
        ]

    yield measure
    server.kill()
    server.communicate()


def test_ping_takes_the_rtt_to_within_a_millisecond(emulated_path: Start) -> None:
    needs("ping")
    for rtt_ms in (2, 67):
        path = emulated_path("cloudlab", rtt=f"{rtt_ms}ms")
        times_ms = [float(time) for time in re.findall(r"time=([\d.]+) ms", ping(path, "-c", "25", "-i", "0.05"))]
        assert len(times_ms) == 25
        assert rtt_ms <= min(times_ms)
        assert statistics.median(times_ms) <= rtt_ms + 1


def test_enough_streams_fill_the_path_to_within_three_percent(iperf3: Callable[..., list[float]]) -> None:
    rates = iperf3(streams=10, warm_up_s=3, seconds=6)
    assert sum(rates) == pytest.approx(1e9, rel=0.03)
    assert max(rates) <= 1.03 * 150e6


def test_each_of_few_streams_gets_its_cap_to_within_three_percent(iperf3: Callable[..., list[float]]) -> None:
    for rate in iperf3(streams=3, warm_up_s=3, seconds=5):
        assert rate == pytest.approx(150e6, rel=0.03)


def test_loss_is_the_share_asked_for_and_every_packet_is_accounted_for(emulated_path: Start) -> None:
    needs("ping")
    path = emulated_path("open", rtt="4ms", loss="10%")
    said = ping(path, "-q", "-c", "500", "-i", "0.002", "-W", "1")
    received = int(re.findall(r"(\d+) received", said)[0])
    # 81 % survive both ways; five standard deviations are 44 of 500.
    assert 361 <= received <= 449

    def count(direction: str, key: str) -> int:
        return sum(sample[direction][key] for sample in path.samples())

    def lost(direction: str) -> int:
        return sum(sample[direction]["drops"]["loss"] for sample in path.samples())

    wait_until(lambda: count("near_to_far", "packets_in") >= 500, "the report of 500 packets")
    wait_until(lambda: count("far_to_near", "packets_out") >= received, "the report of the answers")
    # The system may send a few packets of its own.
    assert 500 <= count("near_to_far", "packets_in") <= 510
    assert received <= count("far_to_near", "packets_out") <= received + 10
    for direction in ("near_to_far", "far_to_near"):
        assert count(direction, "packets_in") == count(direction, "packets_out") + lost(direction)


def test_a_schedule_changes_the_path_while_it_runs(emulated_path: Start) -> None:
    path = emulated_path("open", schedule=[{"at": 0.5, "rate": "300M", "background": {"flows": 2, "rate": "50M"}}])
    assert path.profile["rate_bps"] == 1e9
    wait_until(lambda: len(path.samples()) >= 1, "the first second")
    assert path.samples()[0]["near_to_far"]["rate_bps"] == pytest.approx(200e6)
    assert path.samples()[0]["far_to_near"]["rate_bps"] == pytest.approx(200e6)


@pytest.mark.parametrize("transport", [[], ["--plain"]], ids=["tls", "plain"])
def test_edt_copies_a_tree_over_a_path(
    transport: list[str], emulated_path: Start, edt: Edt, scratch: Path, source: Path
) -> None:
    path = emulated_path("cloudlab", rtt="40ms")
    size = mixed_tree(source, "over a path", large=24 << 20)
    served = scratch / "served"
    served.mkdir()
    server = Server(edt, served, *transport, host=path.far.address, within=path.command("far", []))
    try:
        command = path.command("near", [EDT, "cp", "--json", *transport, source, server.url("tree/")])
        outcome = Running(command, edt.environment).end()
        assert outcome.code == 0, outcome.err
        assert contents(served / "tree") == contents(source)
        # Several round trips, and every byte once: nothing went around the path.
        assert outcome.totals()["elapsed_s"] >= 3 * 0.040
        wait_until(
            lambda: sum(sample["near_to_far"]["bits_out"] for sample in path.samples()) >= 8 * size,
            "the report of all bytes",
        )
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("task", "round_trips"), [("stat", 3), ("upload", 4), ("download", 5)], ids=["stat", "upload", "download"]
)
def test_a_session_takes_few_round_trips(
    task: str, round_trips: int, emulated_path: Start, edt: Edt, scratch: Path
) -> None:
    rtt_s = 0.6
    path = emulated_path("cloudlab", rtt=f"{rtt_s}s")
    fill(scratch / "served" / "there.bin", 10_000, "there")
    fill(scratch / "here.bin", 10_000, "here")
    server = Server(edt, scratch / "served", "--plain", host=path.far.address, within=path.command("far", []))
    words = {
        "stat": ["stat", "--plain", server.url("there.bin")],
        "upload": ["cp", "--plain", str(scratch / "here.bin"), server.url("new.bin")],
        "download": ["cp", "--plain", server.url("there.bin"), str(scratch / "new.bin")],
    }
    try:
        begun = time.monotonic()
        outcome = Running(path.command("near", [EDT, *words[task]]), edt.environment).end()
        elapsed_s = time.monotonic() - begun
    finally:
        server.stop()
    assert outcome.code == 0, outcome.err
    assert elapsed_s < (round_trips + 0.7) * rtt_s


def test_pipelining_bounds_how_much_a_stream_sends_in_a_round_trip(
    emulated_path: Start, edt: Edt, scratch: Path, source: Path
) -> None:
    rtt_s, files = 0.1, 24
    path = emulated_path("cloudlab", rtt=f"{rtt_s}s")
    for number in range(files):
        # Larger than what travels in packs.
        fill(source / f"{number}.bin", 200_000, number)
    (scratch / "served").mkdir()
    server = Server(edt, scratch / "served", "--plain", host=path.far.address, within=path.command("far", []))

    def took_s(*words: str) -> float:
        one = ["--plain", "--optimizer", "fixed", "--concurrency", "1", "--parallelism", "1", *words]
        command = path.command("near", [EDT, "cp", "--json", *one, source, server.url("-".join(["to", *words]))])
        outcome = Running(command, edt.environment).end()
        assert outcome.code == 0, outcome.err
        assert contents(scratch / "served" / "-".join(["to", *words])) == contents(source)
        return float(outcome.totals()["elapsed_s"])

    try:
        one_s, four_s, free_s = took_s("--pipelining", "1"), took_s("--pipelining", "4"), took_s()
    finally:
        server.stop()
    # So many chunks leave before the answer to the first of them is there.
    assert one_s >= files * rtt_s
    assert files / 4 * rtt_s <= four_s < one_s / 2
    assert free_s < one_s / 2


def test_a_path_leaves_nothing_behind(emulated_path: Start) -> None:
    path = emulated_path()
    names = {path.near.namespace, path.far.namespace}
    assert names <= namespaces()
    assert path.stop() == 0
    assert not names & namespaces()


def test_what_a_killed_path_left_is_removed_by_the_next(emulated_path: Start) -> None:
    killed = emulated_path()
    names = {killed.near.namespace, killed.far.namespace}
    killed.stop(signal.SIGKILL)
    assert names <= namespaces()
    emulated_path()
    assert not names & namespaces()


def test_a_name_is_taken_once(emulated_path: Start) -> None:
    path = emulated_path(name="twice")
    assert path.near.namespace == "edt-twice-near"
    with pytest.raises(emulated.Unavailable, match="a path named `twice` is running already"):
        emulated_path(name="twice")
    assert path.near.namespace in namespaces()


def test_a_command_runs_at_the_near_end_and_its_status_is_kept(emulated_path: Start) -> None:
    emulated_path()
    script = 'test "$(ip -4 -o address show dev path0 | grep -c "$EDT_PATH_NEAR/")" = 1 && exit 7'
    command = [str(emulated.PROGRAM), "run", "--", "sh", "-c", script]
    assert subprocess.run(command, timeout=20, check=False).returncode == 7


def namespaces() -> set[str]:
    """The names of all network namespaces."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines()}

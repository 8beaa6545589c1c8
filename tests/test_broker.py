"""Transfers of one host share its streams and its rate, without a service between them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import MIB, Edt, Json, Outcome, Running, Server, fill, wait_until

MB = 1_000_000
QUICK = ("--interval", "0.2", "--json")


def hosted(edt: Edt) -> Json:
    """What `edt jobs` tells."""
    outcome = edt.run("jobs", "--json")
    assert outcome.code == 0, outcome.err
    found: Json = json.loads(outcome.out)
    return found


def slow(edt: Edt, server: Server, name: str, megabytes: int, *, streams: int = 8) -> Running:
    """Begins a transfer of made-up files at 4 MB/s, with a fixed number of streams unless others share the host."""
    # So many files an interval that no interval looks to the guard as if the path had broken down.
    words = ("--concurrency", str(streams), "--limit-rate", "4MB", "--interval", "0.5", "--json")
    return edt.start("cp", *words, f"zero:{4 * megabytes}x{MB // 4}", server.url(f"{name}/"))


def report(outcome: Outcome) -> Json:
    """The report of a transfer that went well."""
    assert outcome.code == 0, outcome.err
    return outcome.events()[-1]


def reasons(report: Json) -> list[str]:
    """Why a transfer decided as it did."""
    return [tuned["decision"]["reason"] for tuned in report["decisions"]]


def streams(report: Json) -> list[int]:
    """The streams of all decisions."""
    return [tuned["decision"]["concurrency"]["network"] for tuned in report["decisions"]]


def test_eight_at_once_never_have_more_streams_than_the_host_allows(edt: Edt, server: Server) -> None:
    edt.environment["EDT_HOST_STREAMS"] = "16"
    began = [(time.time(), slow(edt, server, str(number), 40)) for number in range(8)]
    reports = [(start, report(running.end())) for start, running in began]
    assert all(found["totals"]["files_done"] == 160 for _, found in reports)
    # From when each has had some intervals beside all others until the first ends: what each used most, added up.
    begin = max(start for start, _ in reports) + 4
    end = min(start + found["totals"]["elapsed_s"] for start, found in reports)
    assert end - begin > 1, (begin, end)
    most = [
        max(
            sample["concurrency"]["network"]
            for sample in found["timeline"]
            if begin <= start + sample["elapsed_s"] <= end
        )
        for start, found in reports
    ]
    assert sum(most) <= 16.2 and min(most) > 1.9, most
    assert all("transfers share this host" in " ".join(reasons(found)) for _, found in reports)


def test_the_share_of_one_that_is_killed_is_free_at_once(edt: Edt, server: Server) -> None:
    edt.environment["EDT_HOST_STREAMS"] = "8"
    first, second = slow(edt, server, "a", 100), slow(edt, server, "b", 100)

    def used() -> dict[int, tuple[int, int]]:
        return {one["process"]: (one["streams"], one["share"]) for one in hosted(edt)["transfers"]}

    both = {first.process.pid: (4, 4), second.process.pid: (4, 4)}
    wait_until(lambda: used() == both, "sharing eight streams")
    first.kill()
    assert set(used()) == {second.process.pid}
    wait_until(lambda: used() == {second.process.pid: (8, 8)}, "taking what is free", timeout=10)
    second.kill()
    assert used() == {}


def test_what_one_does_not_need_goes_to_the_other(edt: Edt, server: Server) -> None:
    edt.environment["EDT_HOST_STREAMS"] = "24"
    modest, other = slow(edt, server, "a", 100, streams=2), slow(edt, server, "b", 100, streams=16)

    def used() -> dict[int, int]:
        return {one["process"]: one["streams"] for one in hosted(edt)["transfers"]}

    wait_until(lambda: used() == {modest.process.pid: 2, other.process.pid: 16}, "more than half for one that needs it")
    modest.kill()
    other.kill()


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_rate_of_the_host_holds_for_both_of_two(edt: Edt, server: Server, source: Path, direction: str) -> None:
    edt.environment["EDT_HOST_RATE"] = "8MB"
    size = 20 * MB
    begin = time.monotonic()
    running = []
    for name in ("a", "b"):
        fill((source if direction == "up" else server.root) / name, size, name)
        up, down = (str(source / name), server.url(f"{name}.copy")), (server.url(name), str(source / f"{name}.copy"))
        running.append(edt.start("cp", *QUICK, *(up if direction == "up" else down)))
    reports = [report(one.end()) for one in running]
    assert all(found["totals"]["bytes_done"] == size for found in reports)
    # The second to come has some of the rate before the first has given it up, and all of it when the first has ended.
    assert 0.8 * 2 * size / (8 * MB) < time.monotonic() - begin < 1.4 * 2 * size / (8 * MB) + 2
    assert any("the rate of this host" in reason for found in reports for reason in reasons(found))
    for found in reports:
        assert found["host_limited"] and found["bottleneck"] is None and not found["rate_limited"]
        assert "`--host-rate`" in found["advice"][0]


def test_the_memory_of_the_host_is_held_by_the_buffers(edt: Edt, server: Server) -> None:
    edt.environment["EDT_HOST_MEMORY"] = "48MiB"
    first = slow(edt, server, "a", 28)
    wait_until(lambda: hosted(edt)["transfers"] != [], "a transfer in the list")
    second = report(slow(edt, server, "b", 8).end())
    sizes = [
        [sample["buffers"]["sender_capacity"] / MIB for sample in found["timeline"]]
        for found in (report(first.end()), second)
    ]
    alone_and_beside = [size for number, size in enumerate(sizes[0]) if number == 0 or size != sizes[0][number - 1]]
    assert alone_and_beside in ([48, 24, 48], [24, 48]) and set(sizes[1]) == {24}, sizes


def test_a_limit_that_one_alone_reaches_is_told(edt: Edt, server: Server) -> None:
    edt.environment["EDT_HOST_STREAMS"] = "2"
    found = report(slow(edt, server, "a", 4, streams=5).end())
    assert set(streams(found)) == {2}
    assert all(reason.endswith("2 of 2 streams: the limit of this host") for reason in reasons(found)), reasons(found)


def switched_off(edt: Edt) -> list[str]:
    """By the variable."""
    edt.environment["EDT_BROKER"] = "off"
    return []


def left_out(_: Edt) -> list[str]:
    """By the option."""
    return ["--no-broker"]


@pytest.mark.parametrize("how", [switched_off, left_out])
def test_without_the_broker_nothing_is_shared(edt: Edt, server: Server, how: Callable[[Edt], list[str]]) -> None:
    edt.environment["EDT_HOST_STREAMS"] = "2"
    words = how(edt)
    found = report(edt.run("cp", "--concurrency", "5", *QUICK, *words, "zero:20x100kB", server.url("a/")))
    assert set(streams(found)) == {5}
    assert not any("this host" in reason for reason in reasons(found))


def test_who_finds_no_place_keeps_to_a_part_of_the_limits_and_says_so(edt: Edt, server: Server) -> None:
    edt.environment["EDT_BROKER_DIR"] = "/proc/none/edt"
    words = ("cp", "--concurrency", "5", *QUICK, "zero:20x100kB")
    outcome = edt.run(*words, server.url("a/"))
    assert set(streams(report(outcome))) == {5} and "limits of the host" not in outcome.err, outcome.err
    edt.environment["EDT_HOST_STREAMS"] = "8"
    outcome = edt.run(*words, server.url("b/"))
    assert set(streams(report(outcome))) == {2}
    assert outcome.err.count("this transfer counts as one of 4 within the limits of the host") == 1, outcome.err


def test_what_a_variable_says_is_understood_or_refused(edt: Edt, source: Path, scratch: Path) -> None:
    fill(source / "a", 10, "a")
    for name, value in (("EDT_HOST_STREAMS", "many"), ("EDT_BROKER", "perhaps"), ("EDT_HOST_RATE", "fast")):
        edt.environment[name] = value
        outcome = edt.run("cp", source, scratch / "copy")
        assert outcome.code == 2 and name in outcome.err, outcome
        del edt.environment[name]


def test_jobs_are_listed_for_people(edt: Edt, server: Server) -> None:
    assert "0 transfers, 0 of 256 streams" in edt.run("jobs").err
    running = slow(edt, server, "a", 100)
    wait_until(lambda: hosted(edt)["transfers"] != [], "a transfer in the list")
    outcome = edt.run("jobs")
    assert outcome.code == 0
    (line,) = outcome.out.splitlines()
    assert str(running.process.pid) in line and f"127.0.0.1_{server.port}" in line and "streams" in line
    assert outcome.err.startswith("1 transfer, ")
    running.kill()

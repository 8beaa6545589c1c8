"""File servers under transfers that share a directory, break, are refused or give up: all arrives, nothing is left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from endpoints import faults
from endpoints.endpoint import FILE_SERVERS, PARTIAL, Client, Endpoint
from endpoints.faulty import FaultyProxy
from endpoints.servers.ssh import SftpServer
from endpoints.test_between_services import Seen
from harness import MIB, Outcome, Running, at_least, contents, fill, wait_until

On = Callable[[str], Endpoint]
Front = Callable[..., FaultyProxy]

SIZE = 40 * MIB + 7
SLOW = ("--json", "--interval", "0.05", "--chunk-size", "4MiB", "--limit-rate", "20MB")
LONG_AGO = 1_000_000_000
everywhere = pytest.mark.parametrize("name", [name for name in FILE_SERVERS if name != "proftpd-tls"])


def places(endpoint: Endpoint) -> list[Path]:
    """The directories for partial files that are there."""
    assert endpoint.root
    return sorted(endpoint.root.rglob(f"{PARTIAL}*"))


@everywhere
def test_many_transfers_into_one_directory_do_not_disturb_each_other(on: On, scratch: Path, name: str) -> None:
    endpoint = on(name)
    outcomes: list[Outcome] = []

    def copy(number: int) -> None:
        home = scratch / str(number)
        home.mkdir()
        fill(home / "small.bin", 3000, number)
        fill(home / "large.bin", 3 * MIB, number)
        edt = Client(home, endpoint)
        for turn in range(3):
            target = endpoint.at(f"{number}-{turn}")
            outcomes.append(edt.run("cp", home / "small.bin", f"{target}.small"))
            outcomes.append(edt.run("cp", home / "large.bin", f"{target}.large"))

    threads = [threading.Thread(target=copy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.err for outcome in outcomes if outcome.code] == []
    assert len(endpoint.stored()) == len(outcomes) == 24
    assert places(endpoint) == []


@everywhere
def test_what_must_not_be_replaced_is_refused_before_it_is_sent_and_leaves_nothing(
    on: On, source: Path, scratch: Path, name: str
) -> None:
    endpoint = on(name)
    assert endpoint.root
    for file in ("large.bin", "small.bin"):
        (endpoint.root / file).write_text("there")
    fill(source / "large.bin", 9 * MIB, "large")
    fill(source / "small.bin", 3000, "small")
    before = contents(endpoint.root)
    outcome = Client(scratch, endpoint).copy("--no-overwrite", source, endpoint.url, expected=1)
    assert [failure["kind"] for failure in outcome.events()[-1]["failures"]] == ["already-exists"] * 2
    assert contents(endpoint.root) == before and places(endpoint) == []


def test_nothing_is_put_to_a_server_that_would_refuse_it(on: On, faulty: Front, source: Path, scratch: Path) -> None:
    endpoint = on("wsgidav")
    fill(source / "large.bin", 9 * MIB, "large")
    fill(source / "small.bin", 3000, "small")
    Client(scratch, endpoint).copy(source, endpoint.url)
    seen = Seen()
    proxied = endpoint.through(faulty(endpoint.server.url, seen))
    Client(scratch, proxied).copy("--no-overwrite", source, proxied.url, expected=1)
    Client(scratch, proxied).copy("--no-overwrite", proxied.at("large.bin"), proxied.at("small.bin"), expected=1)
    assert seen.requests and not seen.of("PUT") and not seen.of("COPY")


@everywhere
def test_an_empty_directory_for_partial_files_is_removed_by_clean(on: On, scratch: Path, name: str) -> None:
    endpoint = on(name)
    assert endpoint.root
    for folder in (endpoint.root, endpoint.root / "deep" / "down"):
        (folder / PARTIAL).mkdir(parents=True)
    edt = Client(scratch, endpoint)
    assert edt.run("clean", endpoint.url).out == "", "what is young may be in use"
    now = ("--older-than", "0s")
    shown = edt.run("clean", *now, "--dry-run", endpoint.url)
    assert shown.code == 0 and shown.out.count("would remove") == 2
    assert len(places(endpoint)) == 2
    assert edt.run("clean", *now, endpoint.url).out.count("removed") == 2
    assert places(endpoint) == []


def test_clean_goes_on_behind_what_it_may_not_list(on: On, faulty: Front, scratch: Path) -> None:
    endpoint = on("wsgidav")
    assert endpoint.root
    for folder in ("closed", "open"):
        (endpoint.root / folder / PARTIAL).mkdir(parents=True)
        (endpoint.root / folder / PARTIAL / "k.1").write_text("part")
    denied = faults.Fault(faults.Answer("403 Forbidden"), ("PROPFIND",), matching="/closed")
    proxied = endpoint.through(faulty(endpoint.server.url, denied))
    outcome = Client(scratch, proxied).run("clean", "--older-than", "0s", proxied.url)
    assert outcome.code == 1 and "closed" in outcome.err, outcome.err
    assert outcome.out.startswith("removed") and "open" in outcome.out
    assert [place.parent.name for place in places(endpoint)] == ["closed"]


@pytest.mark.parametrize("name", ["openssh", "asyncssh", "pyftpdlib", "proftpd"])
def test_a_file_that_is_being_published_is_never_taken_for_an_old_one(
    on: On, source: Path, scratch: Path, name: str
) -> None:
    endpoint = on(name)
    assert endpoint.root
    for number in range(60):
        fill(source / f"{number}.bin", 1000, number)
        os.utime(source / f"{number}.bin", (LONG_AGO, LONG_AGO))
    client = Client(scratch, endpoint).start("cp", "--quiet", source, endpoint.url)
    oldest = time.time()
    while client.process.poll() is None:
        # Files and their directory come and go meanwhile.
        with suppress(FileNotFoundError):
            for partial in (endpoint.root / PARTIAL).iterdir():
                oldest = min(oldest, partial.stat().st_mtime)
    outcome = client.end()
    assert outcome.code == 0, outcome.err
    assert oldest > LONG_AGO + 1
    times = {path.stat().st_mtime for path in endpoint.root.iterdir()}
    assert times == {LONG_AGO}


@pytest.mark.parametrize("method", ["PUT", "MOVE", "MKCOL"])
def test_a_webdav_upload_whose_answer_was_lost_is_done(
    on: On, faulty: Front, source: Path, scratch: Path, method: str
) -> None:
    endpoint = on("wsgidav")
    fill(source / "large.bin", 9 * MIB, "large")
    fill(source / "small.bin", 3000, "small")
    lost = faults.lost(method, every=2 if method != "MKCOL" else 1, times=1)
    proxied = endpoint.through(faulty(endpoint.server.url, lost))
    Client(scratch, proxied).copy(source, proxied.at("new/"))
    assert {name.removeprefix("new/"): digest for name, digest in endpoint.stored().items()} == contents(source)
    assert places(endpoint) == [] and lost.done == 1


@pytest.mark.parametrize("overwrite", [(), ("--no-overwrite",)], ids=["replace", "spare"])
def test_a_copy_inside_a_webdav_server_whose_answer_was_lost_is_done(
    on: On, faulty: Front, source: Path, scratch: Path, overwrite: tuple[str, ...]
) -> None:
    endpoint = on("wsgidav")
    fill(source / "a.bin", 3000, "a")
    Client(scratch, endpoint).copy(source, endpoint.at("from/"))
    lost = faults.lost("MOVE", times=1)
    seen = Seen()
    proxied = endpoint.through(faulty(endpoint.server.url, seen, lost))
    totals = Client(scratch, proxied).copy(*overwrite, proxied.at("from/"), proxied.at("to/")).totals()
    assert (totals["files_done"], totals["failed"], lost.done) == (1, 0, 1)
    assert len(seen.of("COPY")) == 1 and places(endpoint) == []
    assert endpoint.stored()["to/a.bin"] == endpoint.stored()["from/a.bin"]


def test_a_large_webdav_upload_that_breaks_begins_again_within_the_run(
    on: On, faulty: Front, source: Path, scratch: Path
) -> None:
    endpoint = on("wsgidav")
    for number in range(2):
        fill(source / f"{number}.bin", SIZE, number)
    chosen = faults.reset_upload(share=0.6, times=2)
    proxied = endpoint.through(faulty(endpoint.server.url, chosen))
    edt = Client(scratch, proxied)
    totals = edt.copy("--chunk-size", "4MiB", source, proxied.url).totals()
    assert (totals["files_done"], totals["failed"], chosen.done) == (2, 0, 2)
    assert totals["retries"] >= 2
    assert endpoint.stored() == contents(source)
    assert places(endpoint) == [] and edt.remembered() == []


def test_a_webdav_upload_that_breaks_again_and_again_fails(on: On, faulty: Front, source: Path, scratch: Path) -> None:
    endpoint = on("wsgidav")
    fill(source / "large.bin", 9 * MIB, "large")
    fill(source / "small.bin", 3000, "small")
    chosen = faults.Fault(faults.Cut(0.5, reset=True, body=faults.Body.REQUEST), ("PUT",), matching=r"\.edt-partial")
    large = Large(chosen)
    proxied = endpoint.through(faulty(endpoint.server.url, large))
    outcome = Client(scratch, proxied).copy(source, proxied.url, expected=4)
    failures = outcome.events()[-1]["failures"]
    assert [(failure["path"], failure["kind"]) for failure in failures] == [("large.bin", "connection-lost")]
    assert set(endpoint.stored()) == {"small.bin"}


class Large:
    """Does to large uploads what a fault says."""

    def __init__(self, fault: faults.Fault) -> None:
        self.fault = fault

    def meets(self, request: faults.Request) -> faults.Deed | None:
        return self.fault.meets(request) if int(request.headers.get("content-length", 0)) > MIB else None


def kill_children(process: int) -> int:
    """Kills the processes that a process has started, and tells how many it has killed."""
    killed = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # One that ends meanwhile, as that of a stream that is not needed any more, is none of them.
        with suppress(OSError):
            # Behind the name in parentheses: state, and the parent.
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process and state != "Z":
                os.kill(int(stat.parent.name), signal.SIGKILL)
                killed += 1
    return killed


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the children of a process are not told here")
@pytest.mark.parametrize("name", ["openssh", "asyncssh"])
def test_an_sftp_upload_whose_connections_break_goes_on_within_the_run(
    on: On, source: Path, scratch: Path, name: str
) -> None:
    endpoint = on(name)
    fill(source / "large.bin", SIZE, "large")
    edt = Client(scratch, endpoint)
    client = edt.start("cp", *SLOW, source, endpoint.url)
    for seen in (8 * MIB, 16 * MIB, 24 * MIB):
        client.totals_until(at_least(seen))
        assert kill_children(client.process.pid) > 0
    succeeded(client)
    assert endpoint.stored() == contents(source)
    assert places(endpoint) == [] and edt.remembered() == []


@pytest.mark.parametrize("name", ["pyftpdlib", "proftpd"])
def test_an_ftp_upload_goes_on_within_the_run_when_its_server_comes_back(
    on: On, source: Path, scratch: Path, name: str
) -> None:
    endpoint = on(name)
    fill(source / "large.bin", SIZE, "large")
    edt = Client(scratch, endpoint)
    client = edt.start("cp", *SLOW, source, endpoint.url)
    for seen in (8 * MIB, 20 * MIB):
        client.totals_until(at_least(seen))
        endpoint.server.kill()
        endpoint.server.start()
    totals = succeeded(client).totals()
    assert totals["bytes_sent"] < SIZE + 2 * MIB, "the file was sent again from its beginning"
    assert endpoint.stored() == contents(source)
    assert places(endpoint) == [] and edt.remembered() == []


def succeeded(client: Running) -> Outcome:
    """The outcome of a copy that must end well."""
    outcome = client.end()
    assert outcome.code == 0, outcome.err + outcome.out[-2000:]
    return outcome


def test_several_sources_on_one_server_share_its_connections(on: On, scratch: Path) -> None:
    endpoint = on("openssh")
    assert endpoint.root and isinstance(endpoint.server, SftpServer)
    names = [f"{number}.bin" for number in range(20)]
    for name in names:
        fill(endpoint.root / name, 1000, name)
    edt = Client(scratch, endpoint)
    started = scratch / "started"
    program = scratch / "counting-ssh"
    program.write_text(f'#!/bin/sh\necho >> {started}\nexec {edt.environment["EDT_SSH"]} "$@"\n')
    program.chmod(0o700)
    edt.environment["EDT_SSH"] = str(program)
    edt.copy(*[endpoint.at(name) for name in names], scratch / "back/")
    assert contents(scratch / "back") == contents(endpoint.root)
    # Eight connections and a question about the configuration, at most.
    assert len(started.read_text().splitlines()) <= 9


@pytest.mark.parametrize("command", ["ls", "stat", "cp"])
def test_a_path_from_the_root_that_was_written_with_one_slash_is_named(on: On, scratch: Path, command: str) -> None:
    endpoint = on("openssh")
    assert endpoint.root
    fill(endpoint.root / "a.bin", 1000, "a")
    wrong = endpoint.at("a.bin").replace(f":{endpoint.server.port}//", f":{endpoint.server.port}/")
    words = [scratch / "back"] if command == "cp" else []
    outcome = Client(scratch, endpoint).run(command, wrong, *words)
    assert outcome.code != 0 and endpoint.at("a.bin") in outcome.err, outcome.err
    missing = Client(scratch, endpoint).run(command, f"{wrong}.missing", *words)
    assert missing.code != 0 and "two to the root" not in missing.err, missing.err


def test_a_run_that_fails_leaves_no_empty_directory(on: On, faulty: Front, source: Path, scratch: Path) -> None:
    endpoint = on("wsgidav")
    fill(source / "good.bin", 3000, "good")
    fill(source / "bad.bin", 3000, "bad")
    denied = faults.Fault(faults.Answer("403 Forbidden"), ("MOVE",), times=1)
    proxied = endpoint.through(faulty(endpoint.server.url, denied))
    Client(scratch, proxied).copy(source, proxied.url, expected=1)
    wait_until(lambda: places(endpoint) == [], "the end of the directory")


def test_a_mirror_of_a_list_that_is_not_understood_removes_nothing(on: On, scratch: Path) -> None:
    endpoint = on("pyftpdlib-plain")
    assert endpoint.root
    fill(endpoint.root / "a.bin", 1000, "a")
    edt, back = Client(scratch, endpoint), scratch / "back"
    edt.copy("--sync", "--delete", endpoint.url, back)
    assert contents(back) == contents(endpoint.root), "a group with a space in its name hides files"
    fill(endpoint.root / "odd", 5, "odd")
    fill(back / "odd", 5, "odd")
    outcome = edt.copy("--sync", "--delete", endpoint.url, back, expected=1)
    failures = outcome.events()[-1]["failures"]
    assert failures[0]["kind"] == "protocol" and "odd" in failures[0]["cause"], failures
    assert contents(back) == contents(endpoint.root)

"""A transfer to or from a service that was killed goes on where it was, and leaves nothing behind in the end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints import faults
from endpoints.endpoint import Client, Endpoint
from endpoints.faulty import FaultyProxy
from endpoints.origin import Oddity, Origin
from endpoints.servers import Azurite
from harness import MIB, STAGING, at_least, contents, fill, wait_until

On = Callable[[str], Endpoint]
Front = Callable[..., FaultyProxy]

SIZE = 72 * MIB + 5
SEEN = 44 * MIB
SLOW = ("--json", "--interval", "0.05", "--chunk-size", "8MiB", "--max-streams", "2", "--limit-rate", "50MB")
RESUMING = ("versitygw", "seaweedfs", "azurite", "openssh", "asyncssh", "pyftpdlib", "proftpd")


@pytest.fixture
def edt(scratch: Path, endpoint: Endpoint) -> Client:
    """The command line, led to the endpoint."""
    return Client(scratch, endpoint)


@pytest.fixture
def tree(source: Path) -> Path:
    """A large file beside small ones."""
    fill(source / "large.bin", SIZE, "large")
    for number in range(5):
        fill(source / f"{number}.bin", 1000, number)
    return source


def killed(edt: Client, source: Path | str, destination: Path | str) -> int:
    """Kills a copy by SIGKILL at about half of it; returns how much was verified at the destination then."""
    client = edt.start("cp", *SLOW, source, destination)
    seen = client.totals_until(at_least(SEEN))["bytes_verified"]
    client.kill()
    assert SEEN <= seen < SIZE
    return int(seen)


@pytest.mark.parametrize("endpoint", RESUMING, indirect=True)
def test_an_upload_goes_on_after_sigkill(edt: Client, endpoint: Endpoint, tree: Path) -> None:
    seen = killed(edt, tree, endpoint.url)
    assert "large.bin" not in endpoint.stored()
    assert endpoint.leftovers() and edt.remembered()
    totals = edt.copy(tree, endpoint.url).totals()
    assert totals["bytes_resumed"] >= seen / 2
    assert totals["bytes_sent"] <= SIZE + 5000 - totals["bytes_resumed"]
    assert endpoint.stored() == contents(tree)
    assert endpoint.leftovers() == [] and edt.remembered() == []


@pytest.mark.parametrize("endpoint", ["moto"], indirect=True)
def test_an_upload_of_which_the_service_tells_nothing_begins_again_after_sigkill(
    edt: Client, endpoint: Endpoint, tree: Path
) -> None:
    # The name of moto's answer to ListParts is another than that of S3, which its SDK does not take.
    killed(edt, tree, endpoint.url)
    edt.copy(tree, endpoint.url)
    assert endpoint.stored() == contents(tree)
    assert endpoint.leftovers() == [] and edt.remembered() == []


@pytest.mark.parametrize("endpoint", ["wsgidav", "rclone-webdav"], indirect=True)
def test_an_upload_by_webdav_begins_its_file_again_after_sigkill_and_says_so(
    edt: Client, endpoint: Endpoint, tree: Path
) -> None:
    killed(edt, tree, endpoint.url)
    assert "large.bin" not in endpoint.stored()
    outcome = edt.copy(tree, endpoint.url)
    totals = outcome.totals()
    assert totals["bytes_resumed"] == 0 and totals["bytes_done"] >= SIZE
    assert endpoint.stored() == contents(tree)
    assert endpoint.leftovers() == [] and edt.remembered() == []


@pytest.mark.parametrize(
    "endpoint",
    ["versitygw", "seaweedfs", "azurite", "fake-gcs-server", "openssh", "proftpd", "wsgidav"],
    indirect=True,
)
def test_a_download_goes_on_after_sigkill(edt: Client, endpoint: Endpoint, tree: Path, scratch: Path) -> None:
    edt.copy(tree, endpoint.url)
    back = scratch / "back"
    seen = killed(edt, endpoint.url, back)
    assert not (back / "large.bin").exists()
    totals = edt.copy(endpoint.url, back).totals()
    assert totals["bytes_resumed"] >= seen / 2
    assert contents(back) == contents(tree)
    assert not list(scratch.rglob(STAGING))


@pytest.mark.parametrize("endpoint", ["nginx"], indirect=True)
def test_a_download_from_a_web_server_goes_on_after_sigkill(edt: Client, endpoint: Endpoint, scratch: Path) -> None:
    assert endpoint.root
    fill(endpoint.root / "large.bin", SIZE, "large")
    seen = killed(edt, endpoint.url, scratch / "back")
    assert edt.copy(endpoint.url, scratch / "back").totals()["bytes_resumed"] >= seen / 2
    assert contents(scratch / "back") == contents(endpoint.root)


def test_a_web_file_of_which_nothing_tells_the_state_begins_again_after_sigkill(scratch: Path) -> None:
    edt = Client(scratch)
    before, after = bytes(SIZE), b"\xff" * SIZE
    with Origin(before, Oddity.NO_ETAG) as origin:
        killed(edt, origin.url, scratch / "back")
        origin.change(after)
        edt.copy(origin.url, scratch / "back")
    assert (scratch / "back").read_bytes() == after


@pytest.mark.parametrize("endpoint", ["versitygw"], indirect=True)
def test_what_came_with_a_flipped_bit_before_sigkill_is_not_published(
    edt: Client, endpoint: Endpoint, faulty: Callable[..., FaultyProxy], tree: Path, scratch: Path
) -> None:
    edt.copy(tree, endpoint.url)
    flip = faults.flipped(times=1, share=0.1, matching=r"large\.bin")
    proxied = endpoint.through(faulty(endpoint.server.url, flip))
    edt = Client(scratch, proxied)
    killed(edt, proxied.url, scratch / "back")
    assert flip.done == 1
    outcome = edt.copy(proxied.url, scratch / "back")
    assert contents(scratch / "back") == contents(tree)
    assert outcome.totals()["bytes_done"] >= SIZE


def test_two_services_with_buckets_of_one_name_are_two(on: On, tree: Path, scratch: Path) -> None:
    one, other = on("versitygw"), on("seaweedfs")
    assert one.bucket == other.bucket
    seen = killed(Client(scratch, one), tree, one.url)
    totals = Client(scratch, other).copy(tree, one.url).totals()
    assert totals["bytes_resumed"] == 0
    assert Client(scratch, one).copy(tree, one.url).totals()["bytes_resumed"] >= seen / 2
    assert one.stored() == contents(tree)


@pytest.mark.parametrize("endpoint", ["versitygw"], indirect=True)
def test_a_source_that_changed_after_sigkill_is_uploaded_anew(edt: Client, endpoint: Endpoint, tree: Path) -> None:
    killed(edt, tree, endpoint.url)
    fill(tree / "large.bin", SIZE, "another")
    edt.copy(tree, endpoint.url)
    assert endpoint.stored() == contents(tree)
    assert endpoint.leftovers() == [] and edt.remembered() == []


@pytest.mark.parametrize("endpoint", ["versitygw", "openssh"], indirect=True)
def test_an_upload_whose_beginning_is_gone_begins_again(edt: Client, endpoint: Endpoint, tree: Path) -> None:
    killed(edt, tree, endpoint.url)
    wait_until(lambda: not is_left(endpoint.server.port), "the end of what the client had sent")
    assert Client(edt.home.parent, endpoint).run("clean", "--older-than", "0s", endpoint.url).code == 0
    assert endpoint.leftovers() == []
    edt.copy(tree, endpoint.url)
    assert endpoint.stored() == contents(tree)
    assert endpoint.leftovers() == [] and edt.remembered() == []


def is_left(port: int) -> bool:
    """Whether a server has a connection to a client that is gone: it may still take what that had sent."""
    tables = (Path(f"/proc/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6"))
    for local, remote, state in (line.split()[1:4] for lines in tables for line in lines):
        # The server has still to close its end, or the client's end has something to send.
        if (local.endswith(f":{port:04X}") and state == "08") or (remote.endswith(f":{port:04X}") and state == "04"):
            return True
    return False


@pytest.mark.parametrize("name", ["versitygw", "wsgidav"])
def test_ctrl_c_waits_for_no_answer_and_the_next_run_goes_on(
    on: On, faulty: Front, source: Path, scratch: Path, name: str
) -> None:
    endpoint = on(name)
    fill(source / "large.bin", 20 * MIB, "large")
    fill(source / "small.bin", 1000, "small")
    silent = faults.Fault(faults.Wait(40), ("PUT",))
    proxied = endpoint.through(faulty(endpoint.server.url, silent))
    client = Client(scratch, proxied).start("cp", "--quiet", source, proxied.url)
    wait_until(lambda: silent.done > 0, "an upload")
    client.signal(signal.SIGINT)
    outcome = client.end(20)
    assert outcome.code == 130 and "run the same command again" in outcome.err
    edt = Client(scratch, endpoint)
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)


@pytest.mark.parametrize(
    "endpoint", ["versitygw", "seaweedfs", "azurite", "wsgidav", "openssh", "proftpd"], indirect=True
)
def test_what_was_abandoned_is_shown_and_removed_by_clean(edt: Client, endpoint: Endpoint, source: Path) -> None:
    fill(source / "large.bin", 40 * MIB, "abandoned")
    client = edt.start("cp", *SLOW, source, endpoint.url)
    client.totals_until(at_least(24 * MIB))
    client.kill()
    wait_until(lambda: not is_left(endpoint.server.port), "the end of what the client had sent")
    left = endpoint.leftovers()
    assert len(left) == 1
    assert edt.run("clean", endpoint.url).out == "", "what is young may be under way"
    now = ("--older-than", "0s", "--json")
    for options, removed in ((("--dry-run",), False), ((), True)):
        outcome = edt.run("clean", *now, *options, endpoint.url)
        assert outcome.code == 0, outcome.err
        items = [json.loads(line) for line in outcome.out.splitlines()]
        assert [item["removed"] for item in items] == [removed]
        assert items[0]["name"].startswith(endpoint.url.rstrip("/"))
        assert bool(endpoint.leftovers()) is not removed
    # A part that was on its way when its client died may arrive after all, and begin the upload again.
    wait_until(lambda: edt.run("clean", *now, endpoint.url).out == "", "nothing to clean")
    assert endpoint.leftovers() == []
    if endpoint.root:
        assert not list(endpoint.root.rglob(".edt-partial*"))


def test_the_marker_of_a_directory_is_no_abandoned_upload(on: On, scratch: Path) -> None:
    endpoint = on("azurite")
    assert isinstance(endpoint.server, Azurite)
    container = endpoint.server.client().get_container_client(endpoint.bucket)
    container.upload_blob(f"{endpoint.prefix}folder", b"", metadata={"hdi_isfolder": "true"})
    container.get_blob_client(f"{endpoint.prefix}begun").stage_block("1", b"part")
    edt = Client(scratch, endpoint)
    outcome = edt.run("clean", "--older-than", "0s", endpoint.url)
    assert outcome.code == 0 and outcome.out.count("removed") == 1, outcome.out + outcome.err
    assert "begun" in outcome.out and "folder" not in outcome.out
    assert edt.run("clean", "--older-than", "0s", endpoint.url).out == ""

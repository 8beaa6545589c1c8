"""From one service to another: through memory alone, or without passing through this machine at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from endpoints.endpoint import Client, Endpoint
from endpoints.faults import Cut, Deed, Fault, Request
from endpoints.faulty import FaultyProxy
from endpoints.servers import WsgiDav
from harness import EDT, MIB, Running, contents, fill, snapshot

On = Callable[[str], Endpoint]
Front = Callable[..., FaultyProxy]

SIZE = 20 * MIB + 3
PAIRS = [
    ("versitygw", "azurite"),
    ("openssh", "seaweedfs"),
    ("nginx", "wsgidav"),
    ("fake-gcs-server", "pyftpdlib"),
    ("azurite", "openssh"),
    ("proftpd", "fake-gcs-server"),
    ("wsgidav", "asyncssh"),
]


@dataclass
class Seen:
    """Remembers the requests that a proxy passes on."""

    requests: list[Request] = field(default_factory=list)

    def meets(self, request: Request) -> Deed | None:
        self.requests.append(request)
        return None

    def of(self, method: str) -> list[Request]:
        """Those of one method."""
        return [request for request in self.requests if request.method == method]


def furnish(edt: Client, endpoint: Endpoint, source: Path) -> dict[str, str]:
    """Puts a tree there; returns the digests of its files."""
    fill(source / "large.bin", SIZE, "large")
    for number in range(8):
        fill(source / f"{number % 2}" / f"a file {number}", 3000 * number, number)
    if endpoint.url.startswith("http"):
        assert endpoint.root
        for name in contents(source):
            target = endpoint.root / name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes((source / name).read_bytes())
    else:
        edt.copy(source, endpoint.url)
    return contents(source)


def on_disk(edt: Client) -> dict[str, str]:
    """What lies in the folders of a client's own."""
    return {**contents(edt.temporary), **contents(edt.home)}


@pytest.mark.parametrize("pair", PAIRS, ids="-to-".join)
def test_a_tree_goes_from_service_to_service_without_a_file_in_between(
    on: On, source: Path, scratch: Path, pair: tuple[str, str]
) -> None:
    one, other = map(on, pair)
    edt = Client(scratch, one, other)
    digests = furnish(edt, one, source)
    before = on_disk(edt)
    # No file of more than 64 KiB can be written, and none may be left.
    limited = ("sh", "-c", 'ulimit -f 128; exec "$@"', "sh", EDT, "cp", "--json", one.url, other.url)
    outcome = Running(limited, edt.environment).end()
    assert outcome.code == 0, outcome.err
    assert other.stored() == digests
    assert other.leftovers() == [] and edt.remembered() == []
    assert on_disk(edt) == before


def test_objects_of_one_s3_service_are_copied_by_it(on: On, faulty: Front, source: Path, scratch: Path) -> None:
    place = on("versitygw")
    fill(source / "tree" / "large.bin", SIZE, "large")
    fill(source / "tree" / "small", 3000, "small")
    for path in (source / "tree").iterdir():
        os.utime(path, ns=(1, 1_500_000_000_123_456_789))
    Client(scratch, place).copy(source / "tree", place.at("from/"))
    seen = Seen()
    proxied = place.through(faulty(place.server.url, seen))
    edt = Client(scratch, proxied)
    totals = edt.copy(proxied.at("from/"), proxied.at("to/")).totals()
    assert (totals["files_done"], totals["failed"]) == (2, 0)
    stored = place.stored()
    assert stored["to/large.bin"] == stored["from/large.bin"]
    assert stored["to/small"] == stored["from/small"]
    assert sum("x-amz-copy-source" in request.headers for request in seen.of("PUT")) == 2
    read = [request.target for request in seen.of("GET") if "list-type" not in request.target]
    assert read == [], "bytes passed through this machine"
    outcome = edt.copy("--no-overwrite", proxied.at("from/"), proxied.at("to/"), expected=1)
    kinds = {failure["kind"] for failure in outcome.events()[-1]["failures"]}
    assert kinds == {"already-exists"}
    edt.copy(proxied.at("from/small"), proxied.at("single"))
    assert place.stored()["single"] == stored["from/small"]


def test_a_copy_whose_answer_was_lost_is_no_refusal(on: On, faulty: Front, source: Path, scratch: Path) -> None:
    place = on("versitygw")
    fill(source / "a.bin", 3000, "a")
    Client(scratch, place).copy(source, place.at("from/"))
    lost = Fault(Cut(0.0, reset=True), methods=("PUT",), times=1, matching=r"/to/")
    proxied = place.through(faulty(place.server.url, lost))
    totals = Client(scratch, proxied).copy("--no-overwrite", proxied.at("from/"), proxied.at("to/")).totals()
    assert (totals["files_done"], totals["failed"], lost.done) == (1, 0, 1)
    assert place.stored()["to/a.bin"] == place.stored()["from/a.bin"]


@pytest.mark.parametrize("name", ["fake-gcs-server", "gcp-storage-emulator"])
def test_a_copy_made_by_google_keeps_the_type_and_metadata_of_its_source(
    on: On, source: Path, scratch: Path, name: str
) -> None:
    place = on(name)
    fill(source / "a.bin", 3000, "a")
    edt = Client(scratch, place)
    edt.copy(source, place.at("from/"))
    objects = f"{place.server.url}/storage/v1/b/{place.bucket}/o/"
    given = {"contentType": "text/csv", "metadata": {"colour": "red"}}
    described = objects + urllib.parse.quote(f"{place.prefix}from/a.bin", safe="")
    request = urllib.request.Request(described, json.dumps(given).encode(), method="PATCH")
    request.add_header("Content-Type", "application/json")
    urllib.request.urlopen(request, timeout=10).close()
    edt.copy(place.at("from/"), place.at("to/"))
    with urllib.request.urlopen(objects + urllib.parse.quote(f"{place.prefix}to/a.bin", safe=""), timeout=10) as answer:
        copy = json.load(answer)
    assert (copy["contentType"], copy["metadata"]["colour"]) == ("text/csv", "red")
    # The other one takes no description of the copy.
    assert "mtime" in copy["metadata"] or name == "gcp-storage-emulator"


def test_files_of_one_webdav_server_are_copied_by_it(on: On, faulty: Front, source: Path, scratch: Path) -> None:
    place = on("wsgidav")
    assert isinstance(place.server, WsgiDav) and place.root
    fill(source / "large.bin", SIZE, "large")
    fill(source / "deeper" / "small", 3000, "small")
    Client(scratch, place).copy(source, place.at("from/"))
    seen = Seen()
    proxied = place.through(faulty(place.server.url, seen))
    Client(scratch, proxied).copy(proxied.at("from/"), proxied.at("to/"))
    assert contents(place.root / "to") == contents(source)
    assert len(seen.of("COPY")) == 2 and not seen.of("GET") and not seen.of("PUT")
    assert place.leftovers() == []


PYTHON = """
import json, sys
import edt
source, url, back = sys.argv[1:]
report = edt.copy(source, url)
assert report.is_complete
print(json.dumps({
    "listed": sorted((entry.path, entry.kind, entry.size) for entry in edt.list(url, recursive=True)),
    "stat": edt.stat(url + "large.bin").size,
}))
edt.copy(url, back)
edt.remove(url + "large.bin")
edt.remove(url + "0", recursive=True)
try:
    edt.stat(url + "large.bin")
except edt.NotFoundError as error:
    print(json.dumps({"gone": True}))
"""


@pytest.mark.parametrize("name", ["versitygw", "openssh"])
def test_the_python_package_takes_the_same_urls(on: On, source: Path, scratch: Path, name: str) -> None:
    endpoint = on(name)
    fill(source / "large.bin", SIZE, "large")
    for number in range(4):
        fill(source / str(number % 2) / f"{number}.bin", 100 * number, number)
    command = [sys.executable, "-c", PYTHON, str(source), endpoint.url, str(scratch / "back")]
    environment = Client(scratch, endpoint).environment
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    said, gone = map(json.loads, result.stdout.splitlines())
    sizes = {name: ("file", (source / name).stat().st_size) for name in contents(source)}
    assert {path: (kind, size) for path, kind, size in said["listed"] if kind == "file"} == sizes
    assert said["stat"] == SIZE and gone == {"gone": True}
    assert contents(scratch / "back") == contents(source)
    assert set(endpoint.stored()) == {"1/1.bin", "1/3.bin"}
    assert set(snapshot(scratch / "back")) == set(snapshot(source))

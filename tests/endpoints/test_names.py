"""Names that a protocol or server cannot carry, and files of a web directory that cannot be read: each is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from endpoints.endpoint import PARTIAL, Client, Endpoint
from endpoints.listener import Service
from harness import Edt, Outcome

On = Callable[[str], Endpoint]


def failed(outcome: Outcome) -> dict[str, str]:
    """What failed, and the kind of its error."""
    return {failure["path"]: failure["kind"] for failure in outcome.events()[-1]["failures"]}


@pytest.mark.parametrize("name", ["re\tport", "re\nport", "report\r", "report?"])
def test_a_name_that_a_webdav_server_takes_for_another_replaces_nothing(
    on: On, source: Path, scratch: Path, name: str
) -> None:
    endpoint = on("wsgidav")
    assert endpoint.root
    (endpoint.root / "report").write_text("precious")
    (source / name).write_text("new")
    (source / "usual").write_text("usual")
    outcome = Client(scratch, endpoint).copy(source, endpoint.url, expected=1)
    assert failed(outcome) == {name: "invalid-input"}
    assert (endpoint.root / "report").read_text() == "precious"
    assert (endpoint.root / "usual").read_text() == "usual"


@pytest.mark.parametrize(("server", "name"), [("pyftpdlib", b"new\nline"), ("wsgidav", b"no text \xff")])
def test_a_name_that_the_protocol_cannot_carry_is_refused_before_anything_is_sent(
    on: On, source: Path, scratch: Path, server: str, name: bytes
) -> None:
    endpoint = on(server)
    assert endpoint.root
    Path(source / name.decode(errors="surrogateescape")).write_bytes(bytes(100_000))
    (source / "usual").write_text("usual")
    outcome = Client(scratch, endpoint).copy(source, endpoint.url, expected=1)
    assert list(failed(outcome).values()) == ["invalid-input"]
    assert [event for event in outcome.events() if event["event"] == "retried"] == []
    assert [path.name for path in endpoint.root.rglob("*") if path.is_file()] == ["usual"]
    assert not list(endpoint.root.rglob(f"{PARTIAL}*"))


ANSWERS = {"/d/forbidden": 403, "/d/gone": 404, "/d/odd": 400, "/d/broken": 500}


class Directory(BaseHTTPRequestHandler):
    """A directory whose page names files, some of which cannot be read."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *words: object) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        """Answers with the page, a file, or a status."""
        status, page = ANSWERS.get(self.path, 200), self.path == "/d/"
        names = [*(path.rpartition("/")[2] for path in ANSWERS), "fine"]
        content = "".join(f'<a href="{name}">{name}</a>' for name in names).encode() if page else b"content"
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if page else "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


def test_files_of_a_web_directory_that_cannot_be_read_do_not_keep_the_others_back(edt: Edt, scratch: Path) -> None:
    with Service(Directory) as server:
        outcome = edt.copy(f"{server.root}/d/", scratch / "copy", expected=1)
    assert failed(outcome) == {
        "forbidden": "permission-denied",
        "gone": "not-found",
        "odd": "io",
        "broken": "connection-lost",
    }
    assert [path.name for path in (scratch / "copy").iterdir()] == ["fine"]
    assert "403" in outcome.err and "a device" not in outcome.err


def test_who_lists_a_web_directory_or_names_some_of_its_files_is_not_kept_from_the_others(
    edt: Edt, scratch: Path
) -> None:
    with Service(Directory) as server:
        listed = edt.run("ls", "--json", f"{server.root}/d/")
        copied = edt.copy(f"{server.root}/d/fi*", scratch / "copy")
    assert listed.code == 0
    names = {json.loads(line)["path"] for line in listed.out.splitlines()}
    assert names == {"fine", *(path.rpartition("/")[2] for path in ANSWERS)}
    assert copied.totals()["files_done"] == 1

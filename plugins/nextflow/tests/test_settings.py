"""The configuration: what is refused, mounts, files of other services, and the line that fetches on a node."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoints.echo import Echo
from harness import EDT, MIB, Server, fill
from pipeline import Pipeline

ONE = """
process one {{
    input: path x
    output: stdout
    script: "cat $x | wc -c; readlink -f $x"
}}
workflow {{ one(Channel.of(file('{url}'))) | view {{ 'told ' + it.trim().replace('\\n', ' ') }} }}
"""


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("edt.speed = 1", "unknown option `edt.speed`"),
        ("edt.maxStreams = 0", "could not use the setting `maxStreams`: `0` does not fit"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(server: Server, pipeline: Pipeline, config: str, said: str) -> None:
    pipeline.configure(config)
    run = pipeline.run(f"println file('{server.url('x')}').exists()", expected=1)
    assert said in run.out


def test_a_wrong_secret_is_refused_with_a_hint(server: Server, pipeline: Pipeline) -> None:
    (server.root / "x").write_text("x")
    token = pipeline.folder / "token"
    token.write_text("another secret, which the server does not know\n")
    token.chmod(0o600)
    pipeline.configure("edt.tokenFile = 'token'")
    run = pipeline.run(ONE.format(url=server.url("x")), expected=1)
    assert "hint:" in run.out
    assert server.url("x") in run.out


def test_what_is_mounted_is_linked(server: Server, pipeline: Pipeline) -> None:
    (server.root / "data").mkdir()
    (server.root / "data" / "x").write_text("12345")
    pipeline.configure(f"edt.mounts = ['{server.url('data')}': '{server.root}/data']")
    run = pipeline.run(ONE.format(url=server.url("data/x")))
    assert run.lines("told ") == [f"5 {server.root}/data/x"]
    assert not pipeline.staged()


class Web(http.server.SimpleHTTPRequestHandler):
    """A web server."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture
def web(scratch: Path) -> Iterator[str]:
    """The URL of a web server."""
    root = scratch / "web"
    fill(root / "whole file", 3 * MIB, "web")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Web(*given, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def test_files_of_web_servers_are_staged_too(pipeline: Pipeline, web: str) -> None:
    pipeline.configure("edt.schemes = ['http']")
    script = ONE.replace("file('{url}')", "file('{url}'), file('edt+{url}')")
    run = pipeline.run(script.format(url=f"{web}whole%20file?version=1"))
    assert [line.split()[0] for line in run.lines("told ")] == 2 * [str(3 * MIB)]
    assert len(pipeline.staged()) == 2


ADDRESSES = ("a//b.txt", "a%2Fc.txt", "d+e.txt", "f%2Bg.txt", "h;v=1.txt", "i%20j.txt", "a//b.txt?x=1")
EACH = """
process each {
    input: path x
    output: stdout
    script: "cat $x"
}
workflow { each(Channel.of(ADDRESSES)) | view { 'got ' + it.trim() } }
"""


def test_web_addresses_are_asked_for_as_they_were_written(pipeline: Pipeline) -> None:
    pipeline.configure("edt.schemes = ['http']")
    with Echo() as echo:
        files = ", ".join(f"file('{echo.root}/{path}')" for path in ADDRESSES)
        run = pipeline.run(EACH.replace("ADDRESSES", files))
        assert sorted(run.lines("got ")) == sorted(f"/{path}" for path in ADDRESSES)
        assert run.staged() == len(ADDRESSES)
        again = pipeline.run(EACH.replace("ADDRESSES", files), "-resume")
    assert (again.submitted(), again.cached()) == (0, len(ADDRESSES))


@pytest.mark.parametrize("address", ["https://storage.example/x"])
def test_a_task_cannot_fetch_what_edt_does_not_claim(pipeline: Pipeline, address: str) -> None:
    script = "include { edtGet } from 'plugin/nf-edt'\nworkflow { println edtGet('ADDRESS') }"
    run = pipeline.run(script.replace("ADDRESS", address), expected=1)
    assert f"could not use `{address}` for edtGet" in run.out


def test_a_task_can_fetch_for_itself_and_keep_its_results_there(server: Server, pipeline: Pipeline) -> None:
    (server.root / "x y").write_text("12345")
    pipeline.environment["PATH"] = f"{EDT.parent}:{pipeline.environment['PATH']}"
    pipeline.configure("edt { maxStreams = 2; limitRate = '50 MB'; statTtl = '1 h' }")
    # That nothing of the task is among it was seen before it ran, and not to be believed afterwards.
    (server.root / "stored").mkdir()
    (server.root / "stored" / "other").touch()
    script = f"""
include {{ edtGet }} from 'plugin/nf-edt'
process one {{
    storeDir '{server.url("stored")}'
    input: val address
    output: tuple path('result'), path('top50%.a%20b')
    script: "${{edtGet(address)}}; cat 'x y' 'x y' > result; echo 1 > 'top50%.a%20b'"
}}
workflow {{ one(Channel.of(file('{server.url("x y")}'))) }}
"""
    pipeline.run(script)
    assert (server.root / "stored" / "result").read_text() == "1234512345"
    assert {path.name for path in (server.root / "stored").iterdir()} == {"other", "result", "top50%.a%20b"}
    assert pipeline.run(script).submitted() == 0

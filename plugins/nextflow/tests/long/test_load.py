"""Many tasks, several pipelines at once, and a server that never sends all."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

from harness import MIB, Edt, Server, fill
from pipeline import Pipeline

ONE = """
include {{ edtPrefetch }} from 'plugin/nf-edt'
process one {{
    input: path x
    output: stdout
    script: "cat $x | wc -c"
}}
workflow {{
    one(Channel.fromPath('{url}').map {{ edtPrefetch(it) }})
    one.out.map {{ it.trim().toInteger() }}.sum().view {{ 'sum ' + it }}
}}
"""


def test_two_thousand_tasks_with_an_input_each(server: Server, pipeline: Pipeline) -> None:
    for number in range(2000):
        fill(server.root / "many" / f"f{number}", 1000, number)
    pipeline.configure("poolSize = 16")
    run = pipeline.run(ONE.format(url=server.url("many/*")), timeout=900)
    assert run.lines("sum ") == ["2000000"]
    assert run.staged() == 2000


def test_two_pipelines_at_once_do_not_disturb_each_other(
    server: Server, pipeline: Pipeline, edt: Edt, scratch: Path
) -> None:
    for number in range(20):
        fill(server.root / "many" / f"f{number}", MIB, number)
    shared = ("-w", str(scratch / "work"))
    other = Pipeline(scratch / "other", edt)
    process = other.start(ONE.format(url=server.url("many/*")), *shared)
    run = pipeline.run(ONE.format(url=server.url("many/*")), *shared)
    assert process.wait(120) == 0
    assert run.lines("sum ") == [str(20 * MIB)]
    assert f"sum {20 * MIB}" in (other.folder / "out").read_text()


class Cutting(http.server.BaseHTTPRequestHandler):
    """Announces 2 MiB and sends one."""

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"x" * MIB)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(2 * MIB))
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


def test_a_file_that_a_server_cuts_short_never_counts_as_complete(pipeline: Pipeline) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cutting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipeline.configure("edt { schemes = ['http']; retries = 0 }")
    url = f"http://127.0.0.1:{server.server_address[1]}/cut"
    run = pipeline.run(ONE.format(url=url), expected=1, timeout=300)
    server.shutdown()
    assert "Can't stage file" in run.out
    assert not run.submitted()
    assert not pipeline.staged()

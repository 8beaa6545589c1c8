"""Processes that are forked from one that has transferred, or does: they have threads and connections of their own."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import edt

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")

FORKED = """
import os, sys, time
import edt

def children(work, count=4):
    forked = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            try:
                work(number)
                os._exit(0)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
        forked.append(child)
    return [ended(child) for child in forked]

def ended(child, seconds=40):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hung"
"""


def run(code: str, *arguments: object) -> str:
    """What a program prints that forks children, in a process without the threads of this one."""
    words = [sys.executable, "-c", FORKED + code, *map(str, arguments)]
    outcome = subprocess.run(words, timeout=200, check=False, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    sys.stderr.write(outcome.stderr)
    return outcome.stdout.strip()


def test_children_copy_while_their_parent_does(served: tuple[edt.Server, Path], tree: Path) -> None:
    server, root = served
    code = """
tree, url = sys.argv[1:]
running = edt.Transfer(tree, url + "parent/", limit_rate="2MB").start()
time.sleep(0.5)
for _ in range(2):
    print(children(lambda number: edt.copy(tree, f"{url}child-{number}/")))
running.join()
"""
    assert run(code, tree, server.url) == "[0, 0, 0, 0]\n[0, 0, 0, 0]"
    copied = {
        path.name: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in root.iterdir()
    }
    assert copied == dict.fromkeys(("parent", *(f"child-{number}" for number in range(4))), 3_070_005)


@pytest.fixture
def web(tree: Path) -> Iterator[str]:
    """A web server that shows the tree."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tree))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_children_use_a_service_that_their_parent_has_used(web: str, tmp_path: Path) -> None:
    code = """
url, target = sys.argv[1:]
edt.copy(url + "a.txt", target)
print(children(lambda number: edt.copy(url + "sub/b.bin", f"{target}-{number}"), count=3))
edt.copy(url + "sub/b.bin", target + "-parent")
"""
    assert run(code, web, tmp_path / "copy") == "[0, 0, 0]"
    assert {path.stat().st_size for path in tmp_path.glob("copy-*")} == {3_000_000}

"""Ctrl-C ends a transfer cleanly, and the same call resumes it."""

from __future__ import annotations

import _thread
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import edt
from edt import _edt

SCRIPT = """
import sys, edt
def progress(event):
    if isinstance(event, edt.Sampled) and event.totals.bytes_verified > 0:
        print("moving", flush=True)
edt.copy(sys.argv[1], sys.argv[2], limit_rate="8MB", chunk_size="1MiB", interval=0.05, progress=progress)
"""

WAITING = """
import edt, sys
with edt.serve(sys.argv[1]) as server:
    print("serving", flush=True)
    server.wait()
"""


def start(script: str, *arguments: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
def test_an_interrupted_copy_says_how_to_resume_and_does(tmp_path: Path) -> None:
    source, target = tmp_path / "source.bin", tmp_path / "target.bin"
    source.write_bytes(bytes(range(256)) * (96 << 12))
    process = start(SCRIPT, source, target)
    assert process.stdout is not None
    assert process.stdout.readline() == "moving\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt: interrupted; the same call again goes on where it was" in errors
    assert not target.exists()

    totals = edt.copy(source, target, chunk_size="1MiB").totals
    assert target.read_bytes() == source.read_bytes()
    assert totals.bytes_resumed > 0
    assert totals.bytes_sent + totals.bytes_resumed == source.stat().st_size


def test_ctrl_c_ends_a_call_that_waits_for_a_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connections: list[socket.socket] = []

        def accept() -> None:
            connections.append(silent.accept()[0])
            _thread.interrupt_main()

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            edt.list(f"edt://127.0.0.1:{silent.getsockname()[1]}/")
        thread.join()
        connections[0].close()


def test_a_join_that_was_interrupted_can_be_called_again(tmp_path: Path) -> None:
    native = _edt.start(["zero:4x1GiB"], str(tmp_path / "target"), {"limit_rate": "1MB"})
    # While the other one waits without the lock of Python.
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        native.join()
    timer.join()
    native.cancel()
    with pytest.raises(edt.CancelledError):
        native.join()
    with pytest.raises(edt.InvalidInputError, match="joined before"):
        native.join()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
def test_an_interrupted_server_ends(tmp_path: Path) -> None:
    process = start(WAITING, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "serving\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors

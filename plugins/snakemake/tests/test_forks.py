"""Processes that are forked while threads of this one ask a storage: what those hold is held in them for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import edt
import pytest

from harness import Server
from reset_proxy import ResetProxy, reset
from snakemake_storage_plugin_edt import StorageProvider, StorageProviderSettings, provider
from snakemake_storage_plugin_edt.per_process import PerProcess

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")

# Seconds after which a process that was forked is taken to hang.
_LONGEST = 20.0


class Holding(ResetProxy):
    """Passes connections on, but for the first one, which it leaves unanswered until it is released."""

    def __init__(self, port: int) -> None:
        super().__init__(port, seed="none", resets=0, after_bytes=(1, 1))
        self.held = threading.Event()
        self.release = threading.Event()

    def __enter__(self) -> Holding:
        super().__enter__()
        return self

    def relay(self, client: socket.socket) -> None:
        if self.held.is_set():
            super().relay(client)
            return
        self.held.set()
        self.release.wait(2 * _LONGEST)
        reset(client)


def forked(work: Callable[[], object]) -> str:
    """What a process that is forked from this one answers, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(work())
        except BaseException as error:
            answer = repr(error)
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    try:
        assert select.select([reader], [], [], _LONGEST)[0], "the process that was forked hangs"
        return os.read(reader, 1 << 16).decode()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)


def test_a_process_that_was_forked_while_a_thread_waited_for_an_answer_gets_its_own(
    scratch: Path, server: Server
) -> None:
    (server.root / "f").write_text("xyz")
    with Holding(server.port) as relay:
        storage = StorageProvider(
            local_prefix=scratch / "local",
            logger=logging.getLogger("edt"),
            settings=StorageProviderSettings(retries=0),
        )
        place = storage.object(f"edt://127.0.0.1:{relay.port}/f").place

        def ask() -> int | None:
            entry = asyncio.run(storage.entry(place))
            return None if entry is None else entry.size

        def ask_in_vain() -> None:
            with suppress(edt.Error):
                ask()

        # It holds the lock of the directory, that of the server, and one of the threads beside event loops.
        waiting = threading.Thread(target=ask_in_vain)
        waiting.start()
        assert relay.held.wait(_LONGEST)
        assert forked(ask) == "3"
        assert forked(storage.stores._busy) == "False", "nobody looks for anything in there"
        relay.release.set()
        waiting.join(_LONGEST)
        assert not waiting.is_alive()
    # Sessions of this process are its own as before.
    again = storage.object(server.url("f"))
    assert again.exists()
    storage.listings.forget(again.place)
    assert forked(again.exists) == "True"
    assert again.exists()


def test_each_process_makes_its_own_once() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(os.getpid())
        return os.getpid()

    each = PerProcess(make)
    assert each.own == each.own == os.getpid()
    process, calls = forked(lambda: f"{each.own} {len(made)}").split()
    assert (int(process) != os.getpid(), calls) == (True, "2")
    assert (each.own, len(made)) == (os.getpid(), 1)


def test_a_secret_stays_where_it_is_when_a_process_that_was_forked_ends() -> None:
    file = Path(provider._private_file("a secret"))
    forked(lambda: provider._remove(str(file), os.getppid()))
    assert file.read_text() == "a secret"
    provider._remove(str(file), os.getpid())
    assert not file.exists()

"""What is known of files that one thread changes while another one asks."""

from __future__ import annotations

import selectors
import socket
import time
from pathlib import Path

from harness import Server
from pipeline import Pipeline
from reset_proxy import ResetProxy, move

OVERTAKEN = """
println "before ${file('URL/out/new').exists()}"
new File('FOLDER/hold').createNewFile()
def asking = Thread.start { file('URL/out/other').exists() }
while (!new File('FOLDER/held').exists()) sleep(20)
file('URL/out/new').text = 'text'
new File('FOLDER/go').createNewFile()
asking.join()
println "after ${file('URL/out/new').exists()} ${file('URL/out/other').exists()}"
"""


class Holding(ResetProxy):
    """Withholds what is answered on connections that were there when a file `hold` came, until a file `go` does."""

    def __init__(self, port: int, folder: Path) -> None:
        super().__init__(port, seed="none", resets=0, after_bytes=(1, 1))
        self.folder = folder

    def __enter__(self) -> Holding:
        super().__enter__()
        return self

    def pump(self, client: socket.socket, target: socket.socket, allowed: int | None) -> bool:
        was_there = not (self.folder / "hold").exists()
        other = {client: target, target: client}
        # A directory is described, and then listed.
        asked = 0
        with selectors.DefaultSelector() as selector:
            for end in other:
                selector.register(end, selectors.EVENT_READ, end)
            while selector.get_map():
                if self.closing.is_set():
                    return False
                for key, _ in selector.select(0.2):
                    holds = was_there and (self.folder / "hold").exists() and not (self.folder / "go").exists()
                    asked += holds and key.data is client
                    if holds and asked > 1 and key.data is target:
                        # The answer is here, and goes no further.
                        (self.folder / "held").touch()
                        time.sleep(0.02)
                    elif move(key.data, other[key.data]) == 0:
                        selector.unregister(key.data)
        return True


def test_a_listing_that_another_thread_has_overtaken_does_not_count(
    server: Server, pipeline: Pipeline, scratch: Path
) -> None:
    (server.root / "out").mkdir()
    (server.root / "out" / "old").write_text("text")
    (scratch / "signs").mkdir()
    pipeline.configure("edt.statTtl = 600")
    with Holding(server.port, scratch / "signs") as proxy:
        url = server.url(port=proxy.port).rstrip("/")
        run = pipeline.run(OVERTAKEN.replace("URL", url).replace("FOLDER", str(scratch / "signs")))
    assert run.lines("before ") == ["false"]
    assert run.lines("after ") == ["true false"]

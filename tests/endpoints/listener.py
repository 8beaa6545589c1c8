"""What the servers have in common that run in threads of the tests."""

from __future__ import annotations

import socketserver
import threading
from types import TracebackType
from typing import Generic, TypeVar

S = TypeVar("S", bound="Service")


class Service:
    """Listens on a port of its own for as long as a `with` lasts."""

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        self.server = Listener(("127.0.0.1", 0), handler, self)
        self.root = f"http://127.0.0.1:{self.server.server_address[1]}"
        """The URL without a path."""

    def __enter__(self: S) -> S:
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()


class Listener(socketserver.ThreadingTCPServer, Generic[S]):
    """A thread for each connection; those that are left end with the tests."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler], service: S) -> None:
        self.service = service
        super().__init__(address, handler)

"""A TCP proxy that resets connections after a random number of bytes."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading
from types import TracebackType

PIECE = 64 * 1024


class ResetProxy:
    """Relays connections to a port of this machine; resets them after seeded numbers of bytes, `resets` times."""

    def __init__(self, port: int, *, seed: object, resets: int, after_bytes: tuple[int, int]) -> None:
        self.target = port
        self.random = random.Random(f"resets {seed}")
        self.left = resets
        self.done = 0
        self.connections = 0
        self.carried = 0
        """Bytes that went either way."""
        self.after_bytes = after_bytes
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.closing = threading.Event()
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> ResetProxy:
        self.spawn(self.accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.listener.close()
        for thread in list(self.threads):
            thread.join(10)

    def spawn(self, work: object, *words: object) -> None:
        """Starts a thread that is joined at the end."""
        assert callable(work)
        thread = threading.Thread(target=work, args=words, daemon=True)
        self.threads.append(thread)
        thread.start()

    def accept(self) -> None:
        """Takes connections until the proxy is closed."""
        self.listener.settimeout(0.2)
        while not self.closing.is_set():
            try:
                client, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.connections += 1
            self.spawn(self.relay, client)

    def relay(self, client: socket.socket) -> None:
        """Relays one connection until it ends or its bytes are spent."""
        try:
            target = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            reset(client)
            return
        try:
            orderly = self.pump(client, target, self.allowance())
        except OSError:
            orderly = False
        for end in (client, target):
            end.close() if orderly else reset(end)

    def allowance(self) -> int | None:
        """How many bytes a new connection may carry; `None` for any number."""
        with self.lock:
            return self.random.randint(*self.after_bytes) if self.left > 0 else None

    def spend(self) -> bool:
        """Takes one reset, if any is left."""
        with self.lock:
            if self.left == 0:
                return False
            self.left -= 1
            self.done += 1
            return True

    def pump(self, client: socket.socket, target: socket.socket, allowed: int | None) -> bool:
        """Copies bytes both ways; false if the connection is to be reset."""
        other = {client: target, target: client}
        with selectors.DefaultSelector() as selector:
            for end in other:
                selector.register(end, selectors.EVENT_READ, end)
            while selector.get_map():
                if self.closing.is_set():
                    return False
                for key, _ in selector.select(0.2):
                    moved = move(key.data, other[key.data])
                    with self.lock:
                        self.carried += moved
                    if moved == 0:
                        selector.unregister(key.data)
                    if allowed is not None:
                        allowed -= moved
                    if allowed is not None and allowed <= 0:
                        if self.spend():
                            return False
                        allowed = None
        return True


def move(origin: socket.socket, target: socket.socket) -> int:
    """Passes on what has arrived, or the end of it; returns the number of bytes."""
    piece = origin.recv(PIECE)
    if piece:
        target.settimeout(30)
        target.sendall(piece)
    else:
        target.shutdown(socket.SHUT_WR)
    return len(piece)


def reset(end: socket.socket) -> None:
    """Closes a connection with a reset instead of an orderly end."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()

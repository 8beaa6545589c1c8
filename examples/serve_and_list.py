"""Serves a directory, copies a file to it as a client would, and lists what is there."""

import os
import secrets
import tempfile
from pathlib import Path

import edt


def main() -> None:
    os.environ.setdefault("EDT_TOKEN", secrets.token_hex(32))
    with tempfile.TemporaryDirectory() as directory, edt.serve(directory) as server:
        edt.copy(Path(__file__), server.url + "examples/serve_and_list.py")
        for entry in edt.list(server.url, recursive=True):
            print(f"{entry.kind:9} {entry.size:8} {entry.path}")
        edt.remove(server.url + "examples", recursive=True)


if __name__ == "__main__":
    main()

"""The binding of the core: conversion only. What users call is in the modules of `edt`, which are documented there."""

import builtins
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, final

from edt.optimizer import Adapter
from edt.options import Path, Size

__all__ = [
    "OPTIMIZERS",
    "Handle",
    "Report",
    "Server",
    "__version__",
    "agent_file",
    "list",
    "main",
    "parse_size",
    "path_file",
    "remove",
    "secret",
    "start",
    "stat",
    "trusted",
]

_Kind: TypeAlias = Literal["file", "directory", "symlink", "other"]
_Row: TypeAlias = tuple[str, _Kind, int, int | None, int | None, str | None]

__version__: Final[str]

OPTIMIZERS: Final[builtins.list[str]]
"""The names that `optimizer` takes."""

def main(arguments: Sequence[str]) -> int:
    """Runs one command line, program name first, and returns the exit code."""

def start(
    sources: Sequence[str], destination: str, options: Mapping[str, Any], optimizer: Adapter | None = None
) -> Handle:
    """Starts a transfer; `options` are those of `edt.TransferOptions` and the name of an `optimizer`."""

@final
class Handle:
    """A running transfer. Dropping it cancels."""

    def next_events(self) -> builtins.list[str]:
        """Waits for an event and takes those that came with it, each as JSON; an empty list after the last one."""

    def cancel(self) -> None:
        """Asks the transfer to stop; may be called any number of times, from any thread."""

    def join(self) -> Report:
        """Waits for the end; may be called once."""

@final
class Report:
    """The report of a transfer; owns its manifest."""

    def to_json(self) -> str:
        """The report without its manifest."""

    def summary(self) -> str:
        """The report in a few lines for people."""

    def manifest(self) -> bytes:
        """The manifest as JSON lines."""

    def save_manifest(self, path: Path) -> None:
        """Writes the manifest as JSON lines, without holding it in memory."""

@final
class Server:
    """A server on threads of its own. Dropping it ends it, and its sessions."""

    def __new__(cls, root: Path, options: Mapping[str, Any], flight: str | None = None) -> Server:
        """Binds and starts; `options` are those of `edt.ServeOptions` and where to `listen`; `flight` is Flight's."""

    @property
    def address(self) -> tuple[str, int]:
        """Address and port where it listens."""

    @property
    def flight_url(self) -> str | None:
        """The URL of the Flight port."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as clients pin it."""

    @property
    def secret(self) -> str | None:
        """The secret, if it was generated just now."""

    def shutdown(self) -> None:
        """Takes no new sessions and lets running ones go on for the grace time; a second call ends them at once."""

    def wait(self) -> None:
        """Waits until the server has ended; raises its error, once."""

def list(url: str, recursive: bool, options: Mapping[str, Any]) -> builtins.list[_Row]:
    """Lists entries as path, kind, size, modification time in nanoseconds, mode and target of a link."""

def stat(url: str, options: Mapping[str, Any]) -> _Row:
    """Describes one entry, in the form of `list`."""

def remove(url: str, recursive: bool, options: Mapping[str, Any]) -> None:
    """Removes an entry."""

def path_file(source: str, destination: str, stages: int) -> pathlib.Path:
    """Where the explored path between two endpoints is kept, for one stage or three."""

def agent_file(source: str, destination: str, kind: str) -> pathlib.Path:
    """Where the agent of a kind for two endpoints is kept."""

def secret(token_file: Path | None = None) -> bytes | None:
    """Finds the shared secret: in the file, or in `EDT_TOKEN`, or in the configuration directory; `None` if in none."""

def trusted(server: str, known_hosts: Path | None = None) -> builtins.list[str]:
    """The fingerprints that a server, written as `host:port`, may show: its own, or those of its other ports."""

def parse_size(text: Size) -> int:
    """Takes a number of bytes, or a text with a unit."""

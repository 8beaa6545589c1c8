"""The binding of the core: conversion only. What users call is in the modules of `edt`, which are documented there."""

import builtins
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, final

from edt.optimizer import Adapter
from edt.options import Path, Size

__all__ = [
    "OPTIMIZERS",
    "AsmSearch",
    "FileReader",
    "Files",
    "Handle",
    "HarpHistory",
    "Report",
    "Server",
    "__version__",
    "agent_file",
    "history_batch",
    "history_file",
    "history_import",
    "history_pasts",
    "knowledge_file",
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
_Type: TypeAlias = Literal["int64", "float64", "string", "bool"]
_Row: TypeAlias = tuple[str, _Kind, int, int | None, int | None, str | None]

__version__: Final[str]

OPTIMIZERS: Final[builtins.list[str]]
"""The names that `optimizer` takes."""

def main(arguments: Sequence[str]) -> int:
    """Runs one command line, program name first, and returns the exit code."""

def start(
    sources: Sequence[str],
    destination: str,
    options: Mapping[str, Any],
    optimizer: Adapter | None = None,
    resumable: bool = True,
) -> Handle:
    """Starts a transfer; `options` are those of `edt.TransferOptions` and the name of an `optimizer`.

    One that is not `resumable` keeps nothing for another attempt if it ends early.
    """

@final
class Handle:
    """A running transfer. Dropping it cancels."""

    def next_events(self) -> builtins.list[str]:
        """Waits for an event and takes those that came with it, each as JSON; an empty list after the last one."""

    def cancel(self) -> None:
        """Asks the transfer to stop; may be called any number of times, from any thread."""

    def join(self) -> Report:
        """Waits for the end; may be called once, and again if it was interrupted."""

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

@final
class Files:
    """An endpoint, connected; threads may share it. Paths are relative to the endpoint."""

    def __new__(cls, url: str, options: Mapping[str, Any], connections: int, read_ahead: int) -> Files:
        """Connects; `options` are those of `edt.ConnectOptions`, `read_ahead` is in bytes for each open file."""

    def list(self, path: str, recursive: bool) -> builtins.list[_Row]:
        """Lists entries named relative to the path; a file yields itself with an empty name."""

    def stat(self, path: str) -> _Row:
        """Describes one entry, under the path as given."""

    def remove(self, path: str, recursive: bool) -> None:
        """Removes an entry."""

    def create_directory(self, path: str) -> None:
        """Makes a directory and those above it; one that exists is no error."""

    def write(self, path: str, content: bytes, replace: bool) -> None:
        """Writes a file of at most 512 KiB whole, and makes the directories above it."""

    def copy(self, source: str, destination: str) -> None:
        """Copies a file at the endpoint, replacing what has the name."""

    def rename(self, source: str, destination: str) -> None:
        """Renames an entry at the endpoint, replacing a file that has the name."""

    def open(self, path: str, first: tuple[int, int]) -> FileReader:
        """Opens a file, and brings the bytes from the first up to the second number with the answer."""

@final
class FileReader:
    """A file opened to read, in the state that it had then; threads may share it."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def modified_ns(self) -> int | None:
        """Modification time in nanoseconds since 1970, if known."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Reads a range as far as the file goes, and ahead of whoever reads in order."""

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Says which ranges will be read, each from a first byte up to another: they are brought at once."""

@final
class HarpHistory:
    """The models of the optimizer `harp` for a history, to say of logs what its paper says of its own.

    Parameters are concurrency, parallelism and pipelining; throughputs are in bytes per second.
    """

    def __new__(cls, rows: str) -> HarpHistory:
        """Takes past transfers as a JSON list, oldest first.

        Each has `began_s`, `source`, `destination`, `bandwidth`, `rtt_s`, `tcp_buffer`, `files`, `bytes`,
        `concurrency`, `parallelism`, `pipelining` and `goodput`.
        """

    def groups(self, limit: int = 65535) -> str:
        """The groups of rows that met the same load and their models with at most `limit` files in flight, as JSON.

        A list of objects with `class`, `rows` (indices), `validating` (the indices of those that no model is fitted to)
        and `model`: null for an outlier, else `degree`, `training` and `validation` (R²), `predicted` (one throughput a
        row), `best` and `relaxed` (parameters) and the validation `accuracy`, 0 to 1 or null.
        """

    def global_fit(
        self, degree: int, fitted: Sequence[int] | None = None, told: Sequence[int] | None = None
    ) -> tuple[float, float]:
        """R² and mean squared residual over the rows `told` of one polynomial for the rows `fitted`.

        Without `told` over those that it was fitted to, and without `fitted` to all.
        """

    def choice(self, sample: int, without: Sequence[int], limit: int = 65535) -> str | None:
        """What is chosen for a transfer like the row `sample`, if the rows `without` were not known, if anything.

        JSON with `relaxed` and `best` (parameters), the promised `throughput` of the relaxed ones and the number of
        `models`.
        """

@final
class AsmSearch:
    """The search of the optimizer `asm` over the surfaces of a knowledge file, one sample after another.

    A setting is parallelism, concurrency and pipelining; throughputs are in bytes per second.
    """

    def __new__(
        cls, knowledge: bytes, features: Mapping[str, float], max_streams: int = 65535, enough: float | None = None
    ) -> AsmSearch:
        """Begins at the median load of the cluster that is nearest to a transfer with these features.

        `features` are those that are known of `bandwidth`, `rtt_s`, `mean_size` and `files`. `enough` is the share of
        the highest throughput, up to 1, from which on a setting is as good as the best but for its streams; without it,
        the one that transfers use, 0.98.
        """

    @property
    def cluster(self) -> int:
        """The place of the cluster in the file."""

    @property
    def distance(self) -> float:
        """How far the transfer is from it, in scales of the features."""

    @property
    def loads(self) -> builtins.list[float]:
        """The external loads of its surfaces, ascending."""

    @property
    def surface(self) -> int:
        """The surface that the load is taken for."""

    @property
    def candidates(self) -> int:
        """How many surfaces are still candidates, this one among them."""

    def best(self, surface: int) -> tuple[int, int, int]:
        """The setting with the fewest streams that gives enough of the highest throughput within the most streams."""

    def predict(self, surface: int, setting: tuple[int, int, int]) -> tuple[float, float]:
        """The throughput of a surface at a setting, and its standard deviation."""

    def sampled(self, setting: tuple[int, int, int], throughput: float) -> bool:
        """Takes a sample into account; whether it led to another surface, whose best setting is to be sampled."""

    def conclusion(self) -> tuple[tuple[int, int, int], float]:
        """The setting to stay with, and the throughput that is expected of it."""

def path_file(source: str, destination: str, stages: int) -> pathlib.Path:
    """Where the explored path between two endpoints is kept, for one stage or three."""

def agent_file(source: str, destination: str, kind: str) -> pathlib.Path:
    """Where the agent of a kind for two endpoints is kept."""

def knowledge_file() -> pathlib.Path:
    """Where the knowledge is kept that `edt learn` makes."""

def history_file() -> pathlib.Path:
    """Where past transfers are kept."""

def history_batch(
    table: str, id: int | None = None, after: tuple[int, int] | None = None
) -> tuple[builtins.list[tuple[str, _Type, builtins.list[Any]]], tuple[int, int] | None]:
    """Rows of a table, `transfers`, `intervals`, `decisions` or `imported`, that follow those before.

    Name, type and values of each column, and after which place the next rows stand; `None` if there are no more.
    """

def history_pasts(source: str, destination: str) -> str:
    """Past transfers as optimizers learn from them, as JSON."""

def history_import(file: Path, label: str) -> int | None:
    """Adds transfers of a CSV file; `None` if they were added before."""

def secret(token_file: Path | None = None) -> bytes | None:
    """Finds the shared secret: in the file, or in `EDT_TOKEN`, or in the configuration directory; `None` if in none."""

def trusted(server: str, known_hosts: Path | None = None) -> builtins.list[str]:
    """The fingerprints that a server, written as `host:port`, may show: its own, or those of its other ports."""

def parse_size(text: Size) -> int:
    """Takes a number of bytes, or a text with a unit."""

"""Options of a transfer and of a server: keyword arguments, named as in the core."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeAlias, TypedDict
from urllib.parse import quote

from edt.errors import InvalidInputError

Path: TypeAlias = str | os.PathLike[str]
"""A URL or local path as text, or a path object, which is always local."""

Size: TypeAlias = int | str
"""Bytes: a number, or a text with a unit such as `16MiB` (2^24) or `16MB` (16,000,000)."""


class ConnectOptions(TypedDict, total=False):
    """How to reach and trust an `edt serve` process."""

    token_file: Path | None
    """The file with the shared secret; default `EDT_TOKEN`, then the user's configuration directory."""
    plain: bool
    """Whether encryption may be left out beyond loopback, on both sides; default no."""
    known_hosts: Path | None
    """Where pinned identities of peers are kept; default `known_hosts` in the user's configuration directory."""


class TransferOptions(ConnectOptions, total=False):
    """What a transfer may be told, besides its optimizer."""

    agent: Path | None
    """The agent file for the optimizers `edt`, `automdt` and `drl`; default the one kept for the endpoints."""
    knowledge: Path | None
    """The knowledge file for the optimizer `asm`; default the one that `edt learn` keeps."""
    deterministic: bool
    """Whether an agent takes the mean, or the most likely move; default no: it samples, as the papers do."""
    seed: int
    """The seed of an agent's sampling: the same observations give the same decisions; default 0."""
    concurrency: int
    """Streams for the optimizer `fixed`; default 4."""
    policy: Literal["fair", "high", "low", "fixed"]
    """How hard to compete with others on the path; default `fair`."""
    limit_rate: float | str | None
    """Upper limit of the whole transfer in bytes per second, or a text such as `20MB`; default none."""
    worker_rate: float | str | None
    """Most bytes per second that each worker of this side reads or writes, as a number or `20MB`; at least 100 kB;
    default none."""
    max_streams: int
    """Upper limit of streams and of workers per stage; default 64."""
    parallelism: int | None
    """Most chunks of one file in flight at once; 1 sends each file whole on one stream; default no limit."""
    pipelining: int | None
    """Most chunks a stream may have unacknowledged; 0 opens a connection for each one; default no limit."""
    congestion: str | None
    """TCP congestion control of the streams, as the sending machine names it (`bbr`); default the system's."""
    chunk_size: Size | None
    """Bytes of a chunk; default what the path moves in 0.1 s, between 16 and 64 MiB."""
    interval: float | timedelta | None
    """Time between two decisions, in seconds; default ten round trips, 1 s to 5 s; for `auto` and `model` eight,
    from half a second, except with services and tables."""
    files: Sequence[Path] | None
    """Files and directories below the source that are copied, nothing else is looked at; default all of it."""
    name: str | None
    """Name of the transfer: it goes on where the last of its name ended, whatever `files` that chose; default none."""
    include: Sequence[str]
    """Patterns of which a file must match one to be copied; default none: all are."""
    exclude: Sequence[str]
    """Patterns of files and directories to leave out; default none. Excluding wins over including."""
    selection: Literal["all", "changed", "mirror"]
    """`all` files are sent (default), those `changed` in size or time, or those and others are removed
    (`mirror`, of one source that is named)."""
    overwrite: Literal["replace", "never"]
    """What happens to a file that stands at the destination under the same name; default `replace`."""
    symlinks: Literal["keep", "follow", "skip"]
    """What becomes of symbolic links; default `keep` them as links."""
    fsync: Literal["none", "file", "full"]
    """When data is forced to stable storage; default `file`: before each rename."""
    digest: Literal["blake3", "none"]
    """Digest of whole files in the manifest; default `blake3`. A crc64nvme is always computed."""
    dry_run: bool
    """Whether the work is only listed as events and nothing is changed; default no."""
    retries: int
    """How often a broken connection is made again without any progress in between; default 5."""
    buffer: Size
    """Bytes that one side of this transfer may hold in buffers; default 96 MiB."""
    manifest: Path | None
    """Where the manifest (JSON lines) is kept; default a temporary file of the report. A dry run leaves it as it is."""
    broker: bool | None
    """Whether the transfer shares with the others of this host; default by `EDT_BROKER`, else yes."""
    host_streams: int | None
    """Most streams of all transfers of this host together; default `EDT_HOST_STREAMS`, else 256."""
    server_streams: int | None
    """Most streams of all transfers of this host to one server; default `EDT_SERVER_STREAMS`, else 64."""
    host_memory: Size | None
    """Most bytes in buffers of all transfers of this host; default `EDT_HOST_MEMORY`, else a quarter of the memory."""
    host_rate: float | str | None
    """Most bytes per second of all transfers of this host; default `EDT_HOST_RATE`, else no limit."""
    history: bool | Literal["names"] | None
    """Whether the history keeps a record, and in it the `names` of endpoints; default by `EDT_HISTORY`, else yes."""


class ServeOptions(TypedDict, total=False):
    """What a server may be told, besides its root and where it listens."""

    token_file: Path | None
    """The file with the shared secret; default `EDT_TOKEN`, then a new or old one in the configuration directory."""
    read_only: bool
    """Whether clients may change nothing below the root; default they may."""
    certificate: tuple[Path, Path] | None
    """Certificate and key in PEM files; default an own self-signed identity that clients pin on first use."""
    identity: Path | None
    """Where an automatic identity is kept; default the user's configuration directory for edt."""
    plain: bool
    """Whether clients beyond loopback may come without encryption; default no."""
    max_sessions: int
    """Sessions at once, at least 1; further ones are refused with a hint; default 256."""
    max_streams: int
    """Streams of one session; default 128."""
    buffer: Size
    """Bytes that one session may hold in buffers; default 96 MiB."""
    worker_rate: float | str | None
    """Most bytes per second that each worker of a session reads or writes, as a number or `20MB`; at least 100 kB;
    default none."""
    flight: str | None
    """Address and port of a Flight service beside the native port, `HOST:PORT`; default none."""
    grace: float | timedelta
    """How long sessions may go on after `close`, in seconds; default 30."""


def endpoint_text(path: Path) -> str:
    """Writes an endpoint as the core takes it."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Bytes that are not UTF-8 are kept by Python in characters that no text may hold.
        if isinstance(path, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
            what = f"could not use the endpoint `{text.encode(errors='replace').decode()}`"
            raise InvalidInputError(what, cause="a URL holds nothing but UTF-8") from None
        return "file://" + quote(os.fsencode(os.path.join(os.getcwd(), text)))
    if isinstance(path, str):
        return path
    # A path object is no URL, whatever it looks like: `Path("zero:1")` is a file.
    return os.path.join(os.curdir, text) if ":" in text and not os.path.isabs(text) else text

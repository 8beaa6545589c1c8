"""Settings of the plugin: on the command line `--storage-edt-NAME`, in the Snakefile keyword arguments."""

# No `from __future__ import annotations` here: Snakemake reads the types of the fields, and older versions of it do not
# know `str | None`.
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase

from snakemake_storage_plugin_edt.query import QueryError, place_of


def _setting(help_text: str, default: Any = None, **more: Any) -> Any:
    return field(default=default, repr=not more.pop("secret", False), metadata={"help": help_text, **more})


@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):
    """What may be set; the defaults are right for almost everyone."""

    token_file: Optional[str] = _setting(
        "File with the secret that is shared with the edt server; it must be there on every node that runs jobs. "
        "Default: the variable EDT_TOKEN, then the file `token` in the configuration directory of edt."
    )
    token: Optional[str] = _setting(
        "The shared secret itself, only through the environment. Some executors write such variables into job "
        "scripts: prefer token-file.",
        env_var=True,
        secret=True,
    )
    known_hosts: Optional[str] = _setting("File with the pinned identities of servers. Default: the one of the user.")
    plain: bool = _setting("Whether encryption may be left out beyond loopback; the server must allow it.", False)
    cache_dir: Optional[str] = _setting(
        "Directory of this node in which fetched inputs are kept, so that jobs on it fetch each only once. "
        "Variables such as $TMPDIR are expanded on the node. Default: none, inputs are fetched once per local "
        "storage prefix."
    )
    cache_size: str = _setting("How much the cache directory may hold, with a unit such as 500GB.", "100GB")
    writable: bool = _setting(
        "Whether inputs from the cache directory can be written: then they are copies where the file system has no "
        "reflinks, and not hard links. Rules with update() need it.",
        False,
    )
    mounts: Optional[str] = _setting(
        "Places that this node sees as a path already: `edt://host/dir=/mnt/dir`, several with commas between. What "
        "lies there is linked and not fetched."
    )
    max_streams: Optional[int] = _setting("Most streams of one transfer. Default: 64; fewer where they help.", type=int)
    limit_rate: Optional[str] = _setting("Most bytes per second of one transfer, such as 50MB. Default: no limit.")
    retries: int = _setting(
        "How often a transfer that broke off is begun again; each goes on where the last one ended.", 2
    )
    stat_ttl: float = _setting("Seconds for which existence, size and time that a listing told are believed.", 2.0)
    progress: float = _setting("Seconds between lines of progress in the log; 0 for none.", 10.0)


@dataclass(frozen=True)
class Mount:
    """A place that is there as a path."""

    url: str
    """The query of a directory, without a slash at its end."""
    path: Path
    """Where it is."""


def mounts_of(text: str | None) -> list[Mount]:
    """Takes the setting `mounts` apart; the longest URL comes first."""
    mounts = []
    for part in (text or "").split(","):
        url, _, path = part.strip().rpartition("=")
        if not url and not path:
            continue
        if not url or not path.startswith("/"):
            raise WorkflowError(f"could not use the mount `{part}`: write it as edt://host/dir=/mnt/dir")
        try:
            mounts.append(Mount(place_of(url).query, Path(path)))
        except QueryError as error:
            raise WorkflowError(f"could not use the mount `{part}`: {error}") from error
    return sorted(mounts, key=lambda mount: -len(mount.url))


def check(settings: StorageProviderSettings) -> None:
    """Refuses settings that cannot be used, before anything is moved; and systems whose files have no such locks."""
    if os.name == "nt":
        raise WorkflowError("could not use the storage edt: its plugin needs Linux or macOS; on Windows use WSL")
    mounts_of(settings.mounts)
    if settings.retries < 0 or settings.stat_ttl < 0 or settings.progress < 0:
        raise WorkflowError("could not use the settings of edt: retries, stat-ttl and progress cannot be negative")

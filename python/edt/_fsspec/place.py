"""Names: URLs, paths below a server's root, and what fsspec calls an entry."""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from edt import _edt

SERVICES = ("s3", "gs", "az", "http", "https", "webdav", "webdavs", "sftp", "ftp", "ftps")
"""Other services that edt reaches. Their URLs begin with `edt+`: fsspec has file systems of its own for some."""

_KEYS_AS_WRITTEN = ("s3", "gs", "az")
_SCHEMES = ("edt", "edts", *(f"edt+{service}" for service in SERVICES))

Info: TypeAlias = dict[str, Any]
"""An entry as fsspec describes it."""


def split(url: str) -> tuple[str | None, str | None, str]:
    """Takes a URL apart into scheme, host with port, and path; a path alone has no scheme and is not decoded."""
    for scheme in _SCHEMES:
        if url.startswith(f"{scheme}://"):
            authority, _, path = url[len(scheme) + 3 :].partition("/")
            if scheme in ("edt+http", "edt+https") and "?" in path:
                raise ValueError(f"could not use a URL of `{authority}`: it has a part after `?`; use edt.copy")
            path = path if _is_as_written(scheme) else unquote(path, errors="surrogateescape")
            return scheme, authority, f"/{path}"
        if url.startswith(f"{scheme}::"):
            return scheme, None, url[len(scheme) + 2 :]
    return None, None, url


def whole(path: str) -> str:
    """The path from the server's root, without a slash at its end."""
    return "/" + path.strip("/")


def relative(path: str) -> str:
    """The path as the core takes it: below the root, without empty names."""
    return "/".join(name for name in path.split("/") if name not in ("", "."))


def encoded(path: str, scheme: str) -> str:
    """The path as it stands in a URL of a scheme."""
    return whole(path) if _is_as_written(scheme) else quote(whole(path), safe="/", errors="surrogateescape")


def _is_as_written(scheme: str) -> bool:
    """Whether the path of a URL is not percent-encoded."""
    return scheme.removeprefix("edt+") in _KEYS_AS_WRITTEN


def parent(path: str) -> str:
    """The directory above a path."""
    return whole(path.rpartition("/")[0])


def name(path: str) -> str:
    """The last name of a path."""
    return path.rstrip("/").rpartition("/")[2]


def info_of(row: _edt._Row, base: str) -> Info:
    """Describes an entry that was named relative to a directory."""
    path, kind, size, modified_ns, mode, target = row
    info: Info = {
        "name": whole(f"{base}/{path}"),
        "size": size,
        "type": {"file": "file", "directory": "directory", "symlink": "link"}.get(kind, "other"),
        "islink": kind == "symlink",
    }
    if modified_ns is not None:
        info["mtime"] = modified_ns / 1e9
        info["mtime_ns"] = modified_ns
    if mode is not None:
        info["mode"] = mode
    if target is not None:
        info["destination"] = target
    return info

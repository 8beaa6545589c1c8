"""Names: URLs, paths below a server's root, and what fsspec calls an entry."""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from edt import _edt

SCHEMES = ("edt", "edts")

Info: TypeAlias = dict[str, Any]
"""An entry as fsspec describes it."""


def split(url: str) -> tuple[str | None, str | None, str]:
    """Takes a URL apart into scheme, host with port, and path; a path alone has no scheme and is not decoded."""
    for scheme in SCHEMES:
        if url.startswith(f"{scheme}://"):
            authority, _, path = url[len(scheme) + 3 :].partition("/")
            return scheme, authority, "/" + unquote(path)
        if url.startswith(f"{scheme}::"):
            return scheme, None, url[len(scheme) + 2 :]
    return None, None, url


def whole(path: str) -> str:
    """The path from the server's root, without a slash at its end."""
    return "/" + path.strip("/")


def relative(path: str) -> str:
    """The path as the core takes it: below the root, without empty names."""
    return "/".join(name for name in path.split("/") if name not in ("", "."))


def encoded(path: str) -> str:
    """The path as it stands in a URL."""
    return quote(whole(path), safe="/", errors="surrogateescape")


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

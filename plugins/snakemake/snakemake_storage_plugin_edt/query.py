"""Queries: URLs of edt, and of what edt reaches, as Snakemake writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import blake2b
from urllib.parse import quote, unquote

SERVER = ("edt", "edts")
"""The schemes of edt servers."""

_SERVICES = ("s3", "gs", "az", "http", "https", "webdav", "webdavs", "sftp", "ftp", "ftps", "file")
_KEYS_AS_WRITTEN = ("s3", "gs", "az")
_DEFAULT_PORT = "7632"

SCHEMES = (*SERVER, *(f"edt+{name}" for name in _SERVICES))
"""The schemes of queries: those of edt servers, and of other services behind `edt+`, which no other plugin claims."""

_SAFE = "/{}~!$&'()*+,;=:@"
_WILDCARD = re.compile(r"(\{(?:[^{}]|\{[^{}]*\})*\})")
_FORM = re.compile(r"(?P<scheme>[a-z0-9+]+)://(?P<authority>[^/?]*)(?P<path>[^?]*)(?P<tail>\?.*)?", re.DOTALL)


class QueryError(ValueError):
    """A query that names nothing edt can reach."""


@dataclass(frozen=True)
class Place:
    """Where an object is: a root that edt opens, and a name below it."""

    scheme: str
    """The scheme as edt takes it: `edt`, `s3` and so on."""
    authority: str
    """User, host and port, or the bucket."""
    path: str
    """The name below the root, decoded, without slashes at its ends."""
    tail: str = ""
    """The query of an HTTP URL, with its `?`."""

    @property
    def root(self) -> str:
        """The URL of the server's root or of the bucket, with a slash at the end."""
        return f"{self.scheme}://{self.authority}/"

    @property
    def url(self) -> str:
        """The URL as edt takes it."""
        return self.root + self._written(self.path) + self.tail

    @property
    def query(self) -> str:
        """The URL as Snakemake takes it."""
        return self.url if self.scheme in SERVER else f"edt+{self.url}"

    @property
    def suffix(self) -> str:
        """The place of the local copy, below the local prefix: no two objects share one."""
        if not self.tail:
            return f"{self.base}/{self.path}"
        # Signatures are long and secret.
        tail = blake2b(self.tail.encode(errors="surrogateescape"), digest_size=8).hexdigest()
        return f"{self.base}/query-{tail}/{self.path}"

    @property
    def base(self) -> str:
        """The place of the root below the local prefix."""
        return f"{self.scheme}/{self._shown_authority('-').replace(':', '_') or 'local'}"

    @property
    def name(self) -> str:
        """The last component."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Place:
        """The directory that holds it."""
        return replace(self, path=self.path.rpartition("/")[0], tail="")

    def child(self, name: str) -> Place:
        """What lies below it."""
        return replace(self, path=f"{self.path}/{name}".strip("/"), tail="")

    def within(self, authority: str, path: str) -> Place:
        """Another place of the same service, or its root; `path` is written as in a query."""
        names = "/".join(name for name in path.split("/") if name)
        return Place(self.scheme, authority, names if self.scheme in _KEYS_AS_WRITTEN else _decoded(names))

    def shown(self) -> str:
        """The query without passwords and signatures."""
        query = self.query if not self.tail else self.query.partition("?")[0] + "?..."
        return query.replace(self.authority, self._shown_authority(":..."), 1)

    def _written(self, path: str) -> str:
        if self.scheme in _KEYS_AS_WRITTEN:
            return path
        # Wildcards may hold regular expressions.
        parts = _WILDCARD.split(path)
        return "".join(
            part if number % 2 else quote(part, safe=_SAFE, errors="surrogateescape")
            for number, part in enumerate(parts)
        )

    def _shown_authority(self, instead: str) -> str:
        user, at, host = self.authority.rpartition("@")
        name, colon, _ = user.partition(":")
        return f"{name}{instead if colon else ''}{at}{host}"


def _decoded(name: str) -> str:
    """A name as Python writes those of files: each byte that is not UTF-8 has a code of its own."""
    return unquote(name, errors="surrogateescape")


def place_of(query: str) -> Place:
    """Takes a query apart; it may hold wildcards.

    Raises:
        QueryError: The query names nothing edt can reach.
    """
    found = _FORM.fullmatch(query)
    if found is None or found["scheme"] not in SCHEMES:
        raise QueryError(f"it must begin with one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    scheme = found["scheme"].removeprefix("edt+")
    authority, path, tail = found["authority"], found["path"], found["tail"] or ""
    if tail and scheme not in ("http", "https"):
        path, tail = path + tail, ""
    if not authority and scheme != "file":
        raise QueryError("it names no bucket" if scheme in _KEYS_AS_WRITTEN else "it names no host")
    if scheme in SERVER:
        authority = authority.removesuffix(f":{_DEFAULT_PORT}")
    if authority in (".", ".."):
        raise QueryError(f"`{authority}` is no name of a bucket or host")
    written = [name for name in path.split("/") if name not in ("", ".")]
    names = written if scheme in _KEYS_AS_WRITTEN else [_decoded(name) for name in written]
    if any(name in (".", "..") or "\0" in name or ("/" in name and "{" not in name) for name in names):
        raise QueryError("it holds `..`, or a character that no name can hold")
    if not names:
        raise QueryError("it names nothing below the root")
    return Place(scheme, authority, "/".join(names), tail)

"""Which files `get` and `put` move where, by the rules of fsspec, and moving them in as few transfers as that takes."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.local import LocalFileSystem, make_path_posix, trailing_sep
from fsspec.utils import other_paths

from edt._fsspec.place import Info, name, parent, whole

if TYPE_CHECKING:
    from edt._fsspec.moved import Moved

Pair: TypeAlias = tuple[str, str]
"""Where a file is, and where it goes."""

Copy: TypeAlias = Callable[..., None]
"""Copies sources to a target: files into a directory, a file to a file, or the content of a directory: `Moved.send`."""


def expanded(fs: Any, source: Any, recursive: bool, maxdepth: int | None) -> list[str]:
    """The names that a source stands for; directories only where it is recursive."""
    found: list[str] = fs.expand_path(source, recursive=recursive, maxdepth=maxdepth)
    if isinstance(source, str) and (not recursive or maxdepth is not None):
        found = [path for path in found if not (trailing_sep(path) or fs.isdir(path))]
    return found


def targets(source: Any, found: list[str], destination: Any, is_directory: bool) -> list[str]:
    """Where each of the names goes: into a directory that exists, or to a name of its own."""
    if not found:
        return []
    alone = isinstance(source, str)
    inside = alone and (
        (has_magic(source) and len(found) == 1) or (not has_magic(source) and is_directory and not trailing_sep(source))
    )
    made: list[str] = other_paths(found, destination, exists=inside, flatten=not alone)
    return made


def is_tree(source: Any, destination: Any, recursive: bool, maxdepth: int | None) -> bool:
    """Whether one directory goes with all that is below it."""
    alone = isinstance(source, str) and isinstance(destination, str)
    return alone and recursive and maxdepth is None and not has_magic(source)


def tree_target(source: str, destination: str, is_directory: bool) -> str:
    """Where the content of a directory goes: below its own name into a directory that exists."""
    inside = is_directory and not trailing_sep(source)
    return f"{destination.rstrip('/')}/{name(source)}/" if inside else f"{destination.rstrip('/')}/"


def move(pairs: Iterable[Pair], links: Container[str], copy: Copy, callback: Callback = DEFAULT_CALLBACK) -> None:
    """Moves files: those of one directory that keep their names in one transfer, others one by one.

    The content of `links` goes, which are the sources that lead to files; a link that leads nowhere stays one.
    """
    together: dict[tuple[str, str, bool], list[str]] = defaultdict(list)
    alone: list[Pair] = []
    for source, target in pairs:
        if name(source) == name(target):
            together[parent(source), parent(target), source in links].append(source)
        else:
            alone.append((source, target))
    for (_, directory, follows), sources in together.items():
        if len(sources) == 1:
            alone.append((sources[0], f"{directory.rstrip('/')}/{name(sources[0])}"))
        else:
            copy(sources, directory.rstrip("/") + "/", callback, symlinks="follow" if follows else "keep")
    for source, target in alone:
        copy([source], target, callback)


def get(fs: Moved, source: Any, destination: Any, recursive: bool, maxdepth: int | None, callback: Callback) -> None:
    """Brings files and trees to this machine."""
    local = LocalFileSystem()
    if isinstance(destination, str):
        destination = make_path_posix(destination)
    directory = isinstance(destination, str) and (trailing_sep(destination) or local.isdir(destination))
    if is_tree(source, destination, recursive, maxdepth) and fs.isdir(source):
        fs.fetch([fs.plain(source)], tree_target(source, destination, directory), callback)
        return
    if isinstance(source, list) and isinstance(destination, list):
        found, made = [fs.plain(path) for path in source], destination
    else:
        found = expanded(fs, source, recursive, maxdepth)
        made = targets(source, found, destination, directory)
    # One name without `recursive` is no directory, and followed if it is a link; what matches a pattern is there.
    sure = isinstance(source, str) and not recursive and len(found) == 1
    infos: list[Info | None] = [None] if sure else [*fs.at_once(fs.known, found)]
    files, links = [], set()
    for path, target, info in zip(found, made, infos, strict=True):
        if info is not None and info["type"] == "directory":
            Path(target).mkdir(parents=True, exist_ok=True)
            continue
        if info is not None and info["type"] == "file" and info["islink"] and fs.service is None:
            links.add(path)
        files.append((path, str(Path(target).absolute())))
    callback.set_size(len(files))
    move(files, links, fs.fetch, callback)


def put(fs: Moved, source: Any, destination: Any, recursive: bool, maxdepth: int | None, callback: Callback) -> None:
    """Brings files and trees of this machine to the server."""
    local = LocalFileSystem()
    source = make_path_posix(source) if isinstance(source, str) else source
    directory = isinstance(destination, str) and (trailing_sep(destination) or fs.isdir(destination))
    if is_tree(source, destination, recursive, maxdepth) and local.isdir(source):
        fs.send([source], tree_target(source, fs.plain(destination), directory), callback)
        return
    if isinstance(source, list) and isinstance(destination, list):
        found, made = source, destination
    else:
        plain = [fs.plain(path) for path in destination] if isinstance(destination, list) else fs.plain(destination)
        found = expanded(local, source, recursive, maxdepth)
        made = targets(source, found, plain, directory)
    files = []
    for path, target in zip(found, made, strict=True):
        if local.isdir(path):
            fs.makedirs(target, exist_ok=True)
        else:
            files.append((str(Path(path).absolute()), whole(fs.plain(target))))
    callback.set_size(len(files))
    move(files, {path for path, _ in files if os.path.islink(path) and os.path.exists(path)}, fs.send, callback)

"""Local paths: names for what is not whole yet, and room for what is."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def beside(target: Path) -> Path:
    """A name beside a local path that nobody else uses, for what will be brought to it."""
    # Of the 255 bytes that a name may have, so many characters take 200 at most.
    return target.with_name(f".{target.name[:50]}.edt-{secrets.token_hex(4)}")


def make_room(target: Path) -> None:
    """Makes the directory of a local path, and removes what would not give way to a file there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink():
        target.unlink()
    elif target.is_dir():
        with suppress(FileNotFoundError):
            shutil.rmtree(target)

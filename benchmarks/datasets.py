"""Makes seeded data sets that do not compress: `python benchmarks/datasets.py NAME DIRECTORY [--scale X]`."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
PIECE = 4 * MIB


@dataclass(frozen=True)
class File:
    """One file to be made: its name below the data set and its size in bytes."""

    name: str
    size: int


def large(scale: float) -> Iterator[File]:
    """Four files of 1 GiB each; `scale` changes their size."""
    for number in range(4):
        yield File(f"large-{number}.bin", int(1024 * MIB * scale))


def tiny(scale: float) -> Iterator[File]:
    """20,000 files of 1 to 16 KiB in directories of 200; `scale` changes their number."""
    sizes = random.Random("tiny sizes")
    for number in range(int(20_000 * scale)):
        yield File(f"{number // 200:03}/{number:06}.bin", sizes.randint(1024, 16 * 1024))


def mixed(scale: float) -> Iterator[File]:
    """About 1 GB: two large files, 40 medium ones, 4,000 small ones; `scale` changes their sizes."""
    sizes = random.Random("mixed sizes")
    for number in range(2):
        yield File(f"large/{number}.bin", int(300e6 * scale))
    for number in range(40):
        yield File(f"medium/{number:02}.bin", int(sizes.uniform(1e6, 15e6) * scale))
    for number in range(4000):
        yield File(f"small/{number // 100:02}/{number:04}.bin", int(sizes.uniform(0, 64 * 1024) * scale))


def million(scale: float) -> Iterator[File]:
    """1,000,000 empty files in directories of 1,000; `scale` changes their number."""
    for number in range(int(1_000_000 * scale)):
        yield File(f"{number // 1000:04}/{number:07}", 0)


NAMES: dict[str, Callable[[float], Iterator[File]]] = {"large": large, "tiny": tiny, "mixed": mixed, "million": million}


@dataclass(frozen=True)
class Size:
    """What a data set holds."""

    files: int
    bytes: int


def make(name: str, directory: Path, scale: float = 1.0, seed: int = 1) -> Size:
    """Makes the data set `name` in `directory` and checks its sizes; the same seed gives the same bytes."""
    files = bytes_made = 0
    parent = None
    for file in NAMES[name](scale):
        path = directory / file.name
        if path.parent != parent:
            parent = path.parent
            parent.mkdir(parents=True, exist_ok=True)
        write(path, file.size, random.Random(f"{seed} {file.name}") if file.size else None)
        files += 1
        bytes_made += file.size
    check(name, directory, scale)
    return Size(files, bytes_made)


def write(path: Path, size: int, source: random.Random | None) -> None:
    """Fills a file with `size` bytes of `source`, piece by piece."""
    with path.open("wb", buffering=0) as file:
        left = size
        while left and source:
            left -= file.write(source.randbytes(min(left, PIECE)))


def check(name: str, directory: Path, scale: float) -> None:
    """Fails unless every file of the data set has its size."""
    for file in NAMES[name](scale):
        actual = (directory / file.name).stat().st_size
        if actual != file.size:
            raise RuntimeError(f"`{directory / file.name}` has {actual} bytes instead of {file.size}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(NAMES))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on sizes or numbers (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the content (default 1)")
    arguments = parser.parse_args()
    size = make(arguments.name, arguments.directory, arguments.scale, arguments.seed)
    print(f"{size.files} files, {size.bytes / 1e6:.1f} MB in {arguments.directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes seeded data sets that do not compress: `python benchmarks/datasets.py NAME DIRECTORY [--scale X]`."""

from __future__ import annotations

import argparse
import os
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy

KIB = 1 << 10
MIB = 1 << 20
PIECE = 4 * MIB


@dataclass(frozen=True)
class File:
    """One file to be made: its name below the data set and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class Size:
    """What a data set holds."""

    files: int
    bytes: int


def uniform(scale: float) -> Iterator[File]:
    """64 files of 16 MiB; `scale` changes their number."""
    return equal("uniform", whole(64 * scale), 16 * MIB)


def large(scale: float) -> Iterator[File]:
    """Three files of 2 GiB; `scale` changes their size."""
    return equal("large", 3, whole(2048 * MIB * scale))


def uniform_and_large(scale: float) -> Iterator[File]:
    """48 files of 16 MiB, and 4 of 192 MiB that come last in the queue; `scale` changes the numbers, then the sizes."""
    yield from equal("a-uniform", whole(48 * scale), 16 * MIB)
    yield from equal("b-large", 4, whole(192 * MIB * min(scale, 1)))


def small(scale: float) -> Iterator[File]:
    """4,096 files of 100 KiB to 1 MiB in directories of 256; `scale` changes their number."""
    sizes = random.Random("small sizes")
    for number in range(whole(4096 * scale)):
        yield File(f"{number // 256:03}/{number:06}.bin", sizes.randint(100 * KIB, MIB))


def mixed(scale: float) -> Iterator[File]:
    """2 files of 192 MiB, 24 of 8 to 32 MiB, 1,024 of 100 to 512 KiB; `scale` changes sizes of two, else numbers."""
    sizes = random.Random("mixed sizes")
    yield from equal("large", 2, whole(192 * MIB * scale))
    for number in range(whole(24 * scale)):
        yield File(f"medium/{number:03}.bin", sizes.randint(8 * MIB, 32 * MIB))
    for number in range(whole(1024 * scale)):
        yield File(f"small/{number // 128:02}/{number:05}.bin", sizes.randint(100 * KIB, 512 * KIB))


def tiny(scale: float) -> Iterator[File]:
    """20,000 files of 1 to 16 KiB in directories of 200; `scale` changes their number."""
    sizes = random.Random("tiny sizes")
    for number in range(whole(20_000 * scale)):
        yield File(f"{number // 200:04}/{number:06}.bin", sizes.randint(KIB, 16 * KIB))


def tiny_4k(scale: float) -> Iterator[File]:
    """240,000 files of 4 KiB in directories of 1,000; `scale` changes their number."""
    for number in range(whole(240_000 * scale)):
        yield File(f"{number // 1000:04}/{number:06}.bin", 4 * KIB)


def cloudlab_1m(scale: float) -> Iterator[File]:
    """5,120 files of 1 MiB in directories of 256; `scale` changes their number."""
    for number in range(whole(5120 * scale)):
        yield File(f"{number // 256:03}/{number:05}.bin", MIB)


def objects_1m(scale: float) -> Iterator[File]:
    """1,000 files of 1 MiB in one directory; `scale` changes their number."""
    return equal("1m", whole(1000 * scale), MIB)


def cloudlab_32m(scale: float) -> Iterator[File]:
    """160 files of 32 MiB; `scale` changes their number."""
    return equal("32m", whole(160 * scale), 32 * MIB)


def cloudlab_1g(scale: float) -> Iterator[File]:
    """Four files of 1 GiB; `scale` changes their size."""
    return equal("1g", 4, whole(1024 * MIB * scale))


def million(scale: float) -> Iterator[File]:
    """1,000,000 empty files in directories of 1,000; `scale` changes their number."""
    for number in range(whole(1_000_000 * scale)):
        yield File(f"{number // 1000:04}/{number:07}", 0)


def equal(name: str, number: int, size: int) -> Iterator[File]:
    """Files of one size in one directory."""
    return (File(f"{name}-{index:04}.bin", size) for index in range(number))


def whole(value: float) -> int:
    """At least one."""
    return max(1, round(value))


NAMES: dict[str, Callable[[float], Iterator[File]]] = {
    "uniform": uniform,
    "large": large,
    "uniform-and-large": uniform_and_large,
    "small": small,
    "mixed": mixed,
    "tiny": tiny,
    "tiny-4k": tiny_4k,
    "cloudlab-1m": cloudlab_1m,
    "objects-1m": objects_1m,
    "cloudlab-32m": cloudlab_32m,
    "cloudlab-1g": cloudlab_1g,
    "million": million,
}


def size_of(name: str, scale: float = 1.0) -> Size:
    """What a data set would hold, without making it."""
    sizes = [file.size for file in NAMES[name](scale)]
    return Size(len(sizes), sum(sizes))


def scale_for(name: str, bytes_wanted: float) -> float:
    """The scale at which a data set holds about that many bytes; at most 1."""
    return min(1.0, bytes_wanted / size_of(name).bytes)


class Content:
    """An endless seeded stream of bytes that do not compress (SFC64: above 1 GB/s on one core)."""

    def __init__(self, seed: str) -> None:
        self.generator = numpy.random.Generator(numpy.random.SFC64(zlib.crc32(seed.encode())))
        self.piece = memoryview(b"")

    def take(self, size: int) -> Iterator[memoryview]:
        """The next `size` bytes, in pieces."""
        while size:
            if not self.piece:
                self.piece = memoryview(self.generator.bytes(PIECE))
            part, self.piece = self.piece[:size], self.piece[size:]
            size -= len(part)
            yield part


def make(name: str, directory: Path, scale: float = 1.0, seed: int = 1) -> Size:
    """Makes the data set `name` in `directory` and checks its sizes; the same seed gives the same bytes."""
    content = Content(f"{name} {seed}")
    parent = None
    for file in NAMES[name](scale):
        path = directory / file.name
        if path.parent != parent:
            parent = path.parent
            parent.mkdir(parents=True, exist_ok=True)
        write(path, file.size, content)
    check(name, directory, scale)
    return size_of(name, scale)


def write(path: Path, size: int, content: Content) -> None:
    """Fills a file with the next `size` bytes of `content`."""
    with path.open("wb", buffering=0) as file:
        for piece in content.take(size):
            left = piece
            while left:
                left = left[file.write(left) :]


def check(name: str, directory: Path, scale: float) -> None:
    """Fails unless every file of the data set has its size."""
    for file in NAMES[name](scale):
        actual = (directory / file.name).stat().st_size
        if actual != file.size:
            raise RuntimeError(f"`{directory / file.name}` has {actual} bytes instead of {file.size}")


def read(directory: Path) -> None:
    """Reads every file below a directory once."""
    buffer = bytearray(PIECE)
    for folder, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


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

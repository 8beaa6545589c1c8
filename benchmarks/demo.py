"""Copies about 1 GB to a real server and back, and has every byte checked by `sha256sum`: `make demo`.

They go over an emulated path of 1 Gbit/s and 67 ms where the machine permits that, over loopback where it does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import emulated
from processes import EDT, Failed, Workplace, workplace


class Different(RuntimeError):
    """The trees are not the same."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor on the size of the files (default 1: about 1 GB)"
    )
    arguments = parser.parse_args()
    parent = arguments.directory or Path(tempfile.gettempdir())
    try:
        with workplace(parent) as place, route() as way:
            demonstrate(place, way, arguments.scale)
    except (Different, Failed, emulated.Unavailable) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    print("\nevery byte arrived, both ways")
    return 0


@dataclass(frozen=True)
class Route:
    """What is between client and server: the server's address, and what runs a command at either end."""

    host: str
    client: tuple[str, ...] = ()
    server: tuple[str, ...] = ()


@contextmanager
def route() -> Iterator[Route]:
    """The emulated path if there can be one, or loopback; says which."""
    if reason := emulated.missing():
        print(f"path: loopback, because no other can be emulated here: {reason}")
        yield Route("127.0.0.1")
        return
    with emulated.Path.start("cloudlab") as path:
        print("path: emulated, 1 Gbit/s, 67 ms round trip time, 150 Mbit/s per stream: 7 streams fill it")
        yield Route(path.far.address, tuple(path.command("near", [])), tuple(path.command("far", [])))


def demonstrate(place: Workplace, way: Route, scale: float) -> None:
    """The data set, the server, the way there and the way back."""
    source, served, back = place.empty("source"), place.empty("served"), place.empty("back")
    size = datasets.make("mixed", source, scale)
    print(f"data set: {size.files} files, {size.bytes / 1e6:.0f} MB, seeded and incompressible")
    expected = checksums(source)
    server, port = place.serve(served, host=way.host, within=way.server)
    url = f"edt://{way.host}:{port}/data/"
    print(f"server: {url} with a secret of its own")
    for name, origin, target, tree in (("there", source, url, served / "data"), ("back", url, back, back)):
        report = copy(place, way, origin, target)
        compare(expected, checksums(tree))
        show(name, report)
    server.stop()


def copy(place: Workplace, way: Route, source: str | Path, destination: str | Path) -> dict[str, Any]:
    """Runs `edt cp` with its progress on this terminal; returns the report."""
    print(f"\n$ edt cp {source} {destination}", flush=True)
    file = place.path / "report.json"
    command: list[str | Path] = [*way.client, EDT, "cp", "--report", file, source, destination]
    subprocess.run(command, env={**os.environ, **place.environment}, check=True)
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def checksums(tree: Path) -> dict[str, str]:
    """The SHA-256 of every file below a directory, computed by the system's own tool."""
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
    tool = ["sha256sum"] if shutil.which("sha256sum") else ["shasum", "-a", "256"]
    found = {}
    for begin in range(0, len(names), 1000):
        command = [*tool, "--", *names[begin : begin + 1000]]
        lines = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.splitlines()
        found.update({line[66:]: line[:64] for line in lines})
    return found


def compare(expected: dict[str, str], found: dict[str, str]) -> None:
    """Fails on the first file that is missing, too much, or different."""
    for name in sorted(expected.keys() | found.keys()):
        here, there = expected.get(name, "absent"), found.get(name, "absent")
        if here != there:
            raise Different(f"`{name}` is {here} at the source and {there} at the destination")


def show(name: str, report: dict[str, Any]) -> None:
    """Prints what the report says beyond the summary that `edt cp` printed itself."""
    totals = report["totals"]
    seconds, size = totals["elapsed_s"], totals["bytes_done"]
    print(f"{name}: {totals['files_done']} files, {size / 1e6:.0f} MB in {seconds:.1f} s, sha256sum agrees on all")
    print(
        f"  {8 * size / seconds / 1e9:.2f} Gbit/s, {totals['retries']} retries, limit: {report['bottleneck'] or 'none'}"
    )
    for tuned in report["decisions"][-5:]:
        stages = tuned["decision"]["concurrency"]
        workers = f"read {stages['read']}, streams {stages['network']}, write {stages['write']}"
        print(f"  at {tuned['elapsed_s']:5.1f} s: {workers}: {tuned['decision']['reason']}")


if __name__ == "__main__":
    sys.exit(main())

"""Builds the Flight clients in other languages, or only the named: `python tests/flight/build.py [NAME...]`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from flight.programs import DEBIAN, FOLDER, SOURCES, absence  # noqa: E402 (the line above finds it)


def main() -> int:
    names = sys.argv[1:] or list(SOURCES)
    if unknown := [name for name in names if name not in SOURCES]:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(SOURCES)}", file=sys.stderr)
        return 2
    failed = [name for name in names if absence(name) and not built(name)]
    if failed:
        print(f"could not build {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def built(name: str) -> bool:
    """Builds one client and says how long that took; false if it failed."""
    source, begin = SOURCES[name], time.monotonic()
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    try:
        if shutil.which(source.tool) is None and source.tool in DEBIAN:
            install(DEBIAN[source.tool])
        run(source.build, HERE / name)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    # A build that found nothing to do leaves the old time.
    source.made.touch()
    print(f"{name}: built in {time.monotonic() - begin:.0f} s", flush=True)
    return absence(name) is None


def install(packages: tuple[str, ...]) -> None:
    """Installs packages of the distribution."""
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    run(("apt-get", "update", "-q"), HERE, environment)
    run(("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages), HERE, environment)


def run(command: tuple[str, ...], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Runs a command; what it prints is shown only if it fails."""
    result = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if result.returncode:
        print((result.stdout + result.stderr)[-4000:], file=sys.stderr)
        result.check_returncode()


if __name__ == "__main__":
    sys.exit(main())

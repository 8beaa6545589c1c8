"""Installs what the endpoint tests need, or only the named: `python tests/endpoints/install.py [NAME...]`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "benchmarks")]

from endpoints.programs import SOURCES, Debian, Go, Npm, Python, missing  # noqa: E402 (the lines above find it)


def main() -> int:
    run_beside_the_package()
    names = sys.argv[1:] or list(SOURCES)
    if unknown := [name for name in names if name not in SOURCES]:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(SOURCES)}", file=sys.stderr)
        return 2
    failed = [name for name in names if missing(name) and not installed(name)]
    if failed:
        print(f"could not install {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run_beside_the_package() -> None:
    """Goes on with the Python of the virtual environment that `make build` leaves, because the tests run there."""
    python = ROOT / ".venv" / "bin" / "python"
    if python.exists() and Path(sys.prefix) != ROOT / ".venv" and "VIRTUAL_ENV" not in os.environ:
        os.execv(python, [str(python), __file__, *sys.argv[1:]])


def installed(name: str) -> bool:
    """Installs one source and says how long that took; false if it failed."""
    begin = time.monotonic()
    try:
        install(name)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    print(f"{name}: installed in {time.monotonic() - begin:.0f} s", flush=True)
    return missing(name) is None


def install(name: str) -> None:
    """Installs one source by the client of its registry."""
    source = SOURCES[name]
    match source:
        case Python():
            run([sys.executable, "-m", "pip", "install", "--quiet", *source.requirements])
        case Debian():
            # Servers of packages must not start by themselves: RUNLEVEL=1 keeps invoke-rc.d from it.
            environment = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
            run(["apt-get", "update", "-q"], environment)
            run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *source.packages], environment)
        case Go():
            environment = {"GOBIN": str(source.folder), "CGO_ENABLED": "0"}
            package = f"{source.package}@{source.version}"
            run(["go", "install", "-trimpath", "-ldflags=-s -w", package], environment)
        case Npm():
            options = ["--silent", "--no-fund", "--no-audit", "--prefix", str(source.folder)]
            run(["npm", "install", *options, f"{source.package}@{source.version}"])


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Runs a command; what it prints is shown only if it fails."""
    result = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        print((result.stdout + result.stderr)[-4000:], file=sys.stderr)
        result.check_returncode()


if __name__ == "__main__":
    sys.exit(main())

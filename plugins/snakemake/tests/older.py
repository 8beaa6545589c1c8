"""Runs the tests of the plugin with an older Snakemake: `python tests/older.py [VERSION] [OPTIONS OF PYTEST]`.

It is installed in an environment of its own below `target`, which finds all else in the one that runs this.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OLDEST = "9.14"


def main() -> int:
    wanted, options = OLDEST, sys.argv[1:]
    if options and options[0][0].isdigit():
        wanted, *options = options
    folder = ROOT / "target" / f"snakemake-{wanted}"
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        install(folder, python, wanted)
    return subprocess.run([python, "-m", "pytest", *options], cwd=ROOT / "plugins/snakemake", check=False).returncode


def install(folder: Path, python: Path, wanted: str) -> None:
    """Makes the environment."""
    venv.create(folder, clear=True, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"snakemake=={wanted}.*"], check=True)
    # Only now, or pip would take what lies there for installed.
    packages = next(folder.glob("lib/python*/site-packages"))
    # Path files of that directory count too.
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (packages / "beside.pth").write_text(line)
    (folder / "complete").touch()


if __name__ == "__main__":
    sys.exit(main())

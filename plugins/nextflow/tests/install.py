"""Brings versions of Nextflow and of Java here for the tests: `install.py [NAME...]`, or the oldest Nextflow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

from programs import JAVAS, OLDEST, VERSIONS


def main() -> int:
    """Installs what is named: `24.10.0`, `java-21`; `all` for all."""
    known = {program.name: program for program in (*VERSIONS, *JAVAS)}
    names = sys.argv[1:] or [OLDEST.name]
    names = list(known) if names == ["all"] else names
    if unknown := [name for name in names if name not in known]:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for program in (known[name] for name in names if not known[name].folder.exists()):
        try:
            program.install()
            print(f"{program.name}: installed", flush=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{program.name}: {error}", file=sys.stderr)
            failed.append(program.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

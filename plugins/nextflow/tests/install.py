"""Brings versions of Nextflow here for the tests: `python plugins/nextflow/tests/install.py [VERSION...]`, the oldest without any."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

from programs import OLDEST, VERSIONS  # noqa: E402 (the line above finds it)


def main() -> int:
    names = sys.argv[1:] or [OLDEST.name]
    known = {version.name: version for version in VERSIONS}
    if unknown := [name for name in names if name not in known]:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for version in (known[name] for name in names if not known[name].libraries.exists()):
        try:
            version.install()
            print(f"Nextflow {version.name}: installed", flush=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"Nextflow {version.name}: {error}", file=sys.stderr)
            failed.append(version.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m edt`: the command line, with its exit codes."""

import os
import sys

from edt import _edt


def main() -> int:
    """Runs the arguments of this process and returns the exit code."""
    # `edt train` runs in the Python that this package is installed in.
    os.environ.setdefault("EDT_PYTHON", sys.executable)
    return _edt.main(["edt", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

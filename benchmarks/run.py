"""The bars that the engine is held to: `python benchmarks/engine.py all`, or one of them by its name.

Each writes benchmarks/results/NAME.json and renews RESULTS.md. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import loopback
import million
import results
import resume
import small_files

BENCHMARKS: dict[str, Callable[[bool], results.Outcome]] = {
    "loopback-large": loopback.run,
    "small-files": small_files.run,
    "resume": resume.run,
    "million": million.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*BENCHMARKS, "all", "page"], help="`page` only writes RESULTS.md anew")
    parser.add_argument("--full", action="store_true", help="larger data and more repetitions")
    arguments = parser.parse_args()
    names = {"all": list(BENCHMARKS), "page": []}.get(arguments.name, [arguments.name])
    missed = [name for name in names if not measure(name, quick=not arguments.full)]
    results.write_page()
    return 1 if missed else 0


def measure(name: str, *, quick: bool) -> bool:
    """Runs one benchmark, keeps and prints what it found; true if every bar is met."""
    print(f"{name} ...", flush=True)
    begin = time.monotonic()
    try:
        outcome = BENCHMARKS[name](quick)
    except RuntimeError as error:
        print(f"  failed: {error}", file=sys.stderr, flush=True)
        return False
    passed = results.keep(outcome)
    for figure in outcome.figures:
        mark = {True: "ok", False: "MISSED", None: ""}[figure.passed]
        print(f"  {figure.what:<45} {results.number(figure.median):>12} {figure.unit:<7} {mark}")
    print(f"  {time.monotonic() - begin:.0f} s", flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main())

"""`edt learn`: learns from past transfers or logs, and keeps it where `edt cp --optimizer asm` finds it."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if missing := [name for name in ("numpy", "pyarrow", "scipy", "sklearn") if find_spec(name) is None]:
    print(f"error: learning needs {', '.join(missing)}\nhint: pip install 'edt[learn]'", file=sys.stderr)
    sys.exit(2)

from edt import history
from edt.learning import logs, own
from edt.learning.entries import Entries
from edt.learning.knowledge import Knowledge, Log
from edt.learning.learn import learn
from edt.learning.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HISTORY = "history"
"""The name of edt's own transfers among the logs that were learned from."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Learns as the arguments say; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        return run(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    found = argparse.ArgumentParser(prog="edt learn", description=__doc__)
    found.add_argument("logs", nargs="*", type=Path, metavar="FILE.csv", help="logs (default: the history)")
    found.add_argument("--history", action="store_true", help="learn from the history too, beside logs")
    found.add_argument("--output", type=Path, metavar="FILE", help="where the knowledge goes (default: where cp looks)")
    found.add_argument("--fresh", action="store_true", help="forget what was learned before")
    found.add_argument("--axes", choices=("log2", "raw"), help="on which axes the splines run (default: log2)")
    found.add_argument("--seed", type=int, metavar="N", help="seed of the clustering (default: 0)")
    found.add_argument("--json", action="store_true", help="print what was learned as JSON on standard output")
    found.add_argument("--quiet", action="store_true", help="show no summary")
    return found


def run(options: argparse.Namespace) -> int:
    """Learns from every log that is new, and writes what is known then."""
    output = options.output or Path(history.knowledge_file())
    known = Knowledge.read(output) if output.exists() and not options.fresh else beginning(options)
    if known.logs and not options.fresh and (options.axes or options.seed is not None):
        raise ValueError("axes and seed are those of what was learned before\nhint: forget it with --fresh")
    before = {log.name: log.entries for log in known.logs}
    for log, entries in named(options, known):
        known = learn(entries, base=known, log=log)
    if not known.clusters:
        hint = "run some transfers first, or name logs: edt learn FILE.csv"
        raise ValueError(f"there is nothing to learn from\nhint: {hint}")
    known.write(output)
    found = report(known, before, output)
    if options.json:
        print(json.dumps(found, allow_nan=False))
    if not options.quiet:
        summarise(found)
    return 0


def beginning(options: argparse.Namespace) -> Knowledge:
    """Nothing, to be learned with the options that were given."""
    given = {"axes": options.axes, "seed": options.seed}
    return Knowledge(Options(**{name: value for name, value in given.items() if value is not None}))


def named(options: argparse.Namespace, known: Knowledge) -> Iterator[tuple[Log, Entries]]:
    """The logs that were asked for and not learned from before."""
    names = {log.name for log in known.logs}
    for file in options.logs:
        entries = logs.read_csv(file)
        if (name := entries.digest) in names:
            print(f"warning: `{file}` was learned from before", file=sys.stderr)
        else:
            names.add(name)
            yield Log(name), entries
    if options.history or not options.logs:
        before = known.log(HISTORY)
        entries, until_s = own.transfers(before.until_s if before else 0.0)
        yield Log(HISTORY, until_s=until_s), entries
        for imported in own.imports():
            if (name := imported.digest) not in names:
                names.add(name)
                yield Log(name), imported


def report(known: Knowledge, before: dict[str, int], output: Path) -> dict[str, Any]:
    """What was learned."""
    clusters = [
        {
            "entries": cluster.entries,
            "external_loads": [round(surface.load, 3) for surface in drawn.surfaces],
            "maxima": [list(surface.maxima[0].setting) for surface in drawn.surfaces],
        }
        for cluster, drawn in zip(known.clusters, known.surfaces(), strict=True)
    ]
    return {
        "knowledge_file": str(output),
        "new_entries": sum(log.entries - before.get(log.name, 0) for log in known.logs),
        "entries": sum(log.entries for log in known.logs),
        "clusters": clusters,
    }


def summarise(found: dict[str, Any]) -> None:
    """Says on standard error what was learned."""
    loads = sum(len(cluster["external_loads"]) for cluster in found["clusters"])
    lines = [
        f"{found['new_entries']:,} new entries, {found['entries']:,} in all: "
        f"{len(found['clusters'])} kinds of transfers, {loads} loads",
        f"kept in {found['knowledge_file']}",
    ]
    print(*lines, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

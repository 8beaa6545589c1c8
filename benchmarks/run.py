"""Runs experiments, keeps what they found in benchmarks/results/NAME.json, and writes RESULTS.md from all of it.

    python benchmarks/run.py all --minutes 10                       what `make bench` runs
    python benchmarks/run.py all --full --resume --minutes 90       what `make bench-full` runs
    python benchmarks/run.py peers --path open --dataset small --tools edt,rsync

The exit status is 1 if a bar is missed or an experiment failed.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
import signal
import sys
import time
from collections.abc import Iterable

import datasets
import page
import peers
import results
from bench import Options
from points import OutOfTime

EXPERIMENTS = {
    "loopback-large": "loopback_large",
    "small-files": "small_files",
    "resume": "resume",
    "bars-cloudlab": "bars_cloudlab",
    "timeline": "timeline",
    "cpu": "cpu",
    "s3": "s3",
    "sftp": "sftp",
    "flight": "flight",
    "snakemake": "snakemake",
    "nextflow": "nextflow",
    "peers": "peers",
    "ablation": "ablation",
    "training": "training",
    "system-calls": "system_calls",
    "tiny-4k": "tiny_4k",
    "million": "million",
    "agents": "agents",
    "logs-harp": "logs_harp",
    "logs-asm": "logs_asm",
    "optimizers": "optimizers",
    "grid": "grid",
    "rivals": "rivals",
    "steps": "steps",
    "shares": "shares",
    "memory": "memory",
    "everywhere": "everywhere",
}
"""Names in the order in which all are run, and the modules of `experiments`, imported only then: some need PyTorch."""
BY_NAME = ("grid", "rivals", "steps", "shares", "memory", "everywhere")
"""Those that `all` leaves out: the whole grid takes days, and the last one measures nothing."""
BY_PATH = ("peers", "optimizers", "s3")
"""Those that keep an outcome for each path."""


def main() -> int:
    arguments = parser().parse_args()
    # So that servers and paths are taken down when the benchmarks are asked to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.install:
        peers.install(list(arguments.tools or peers.ALL))
    options = Options(
        quick=not arguments.full,
        paths=tuple(arguments.path) or None,
        datasets=tuple(arguments.dataset) or None,
        tools=arguments.tools,
        repetitions=arguments.repetitions,
        seconds=arguments.seconds,
        resume=arguments.resume,
        search=arguments.search,
        deadline=time.monotonic() + 60 * arguments.minutes if arguments.minutes else None,
        cells=arguments.cells,
        optimizers=tuple(arguments.optimizers.split(",")) if arguments.optimizers else None,
        congestion=tuple(arguments.congestion.split(",")),
        keep_fixed=arguments.keep_fixed,
    )
    names = [name for name in arguments.name if name not in ("all", "page")]
    if "all" in arguments.name:
        names = [name for name in EXPERIMENTS if name not in BY_NAME or name in names]
    if options.resume and "all" in arguments.name:
        names = [name for name in names if not is_known(name, options)]
    missed, left = [], []
    for name in names:
        try:
            if not measure(name, options):
                missed.append(name)
        except OutOfTime:
            left.append(name)
    page.write()
    if left:
        print(f"the time is over; left: {', '.join(left)}. With --resume a further run goes on there.", file=sys.stderr)
    return 1 if missed else 0


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument(
        "name", nargs="+", choices=[*EXPERIMENTS, "all", "page"], help="`page` only writes RESULTS.md anew"
    )
    found.add_argument("--full", action="store_true", help="larger data, more paths and more repetitions")
    found.add_argument("--resume", action="store_true", help="keep what an earlier run of the same commit measured")
    found.add_argument("--minutes", type=float, help="begin nothing more after so many minutes")
    found.add_argument("--search", action="store_true", help="search for the best settings of peers anew")
    found.add_argument("--install", action="store_true", help="install peers that are missing (Debian, PyPI)")
    found.add_argument("--path", action="append", default=[], help="only this path; may be repeated")
    found.add_argument(
        "--dataset", action="append", default=[], choices=sorted(datasets.NAMES), help="only this one; may be repeated"
    )
    found.add_argument("--tools", type=tools, help="only these, separated by commas: " + ", ".join(peers.ALL))
    found.add_argument("--cells", metavar="REGEX", help="only cells of `grid` and `rivals` whose names hold this")
    found.add_argument(
        "--optimizers",
        metavar="LIST",
        help="only these in `optimizers`, `grid`, `rivals`, `steps` and `shares`, separated by commas",
    )
    found.add_argument(
        "--congestion", metavar="LIST", default="cubic", help="of `grid` and `rivals`: cubic, bbr, reno (default cubic)"
    )
    found.add_argument("--keep-fixed", action="store_true", help="`grid` keeps constants of other builds of edt")
    found.add_argument("--repetitions", type=int, help="runs of each point")
    found.add_argument("--seconds", type=float, help="what a copy at the path's rate takes; scales the data sets")
    return found


def tools(text: str) -> tuple[str, ...]:
    """Names of peers."""
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in peers.ALL]:
        raise argparse.ArgumentTypeError(f"no peer {', '.join(unknown)}")
    return names


def is_known(name: str, options: Options) -> bool:
    """Whether an experiment has all the results that it would measure now."""
    if name not in BY_PATH:
        return results.is_known(name, options.scale)
    experiment = importlib.import_module(f"experiments.{EXPERIMENTS[name]}")
    names = [experiment.kept_as(path) for path in experiment.paths_of(options)]
    return all(results.is_known(each, options.scale) for each in names)


def measure(name: str, options: Options) -> bool:
    """Runs one experiment, keeps and prints what it found; true if every bar is met.

    Raises:
        OutOfTime: the time is over before all of it was measured; what was is kept.
    """
    print(f"{name} ...", flush=True)
    begin = time.monotonic()
    if options.deadline is not None and begin >= options.deadline:
        raise OutOfTime
    try:
        experiment = importlib.import_module(f"experiments.{EXPERIMENTS[name]}")
        found: results.Outcome | Iterable[results.Outcome] = experiment.run(options)
        # Each is kept before the next one is measured, which may fail or run out of time.
        passed = [kept(name, outcome) for outcome in ([found] if isinstance(found, results.Outcome) else found)]
    except (RuntimeError, OSError) as error:
        print(f"  failed: {error}", file=sys.stderr, flush=True)
        return False
    print(f"  {time.monotonic() - begin:.0f} s", flush=True)
    return all(passed)


def kept(name: str, outcome: results.Outcome) -> bool:
    """Keeps and prints what an experiment found; true if every bar is met."""
    words = [word for word in asked() if word not in (*EXPERIMENTS, "all", "--resume", "--install", "--search")]
    passed = results.keep(outcome, shlex.join(["python", "benchmarks/run.py", name, *words]))
    for figure in outcome.figures:
        mark = {True: "ok", False: "MISSED", None: ""}[figure.passed]
        print(f"  {figure.what:<60} {results.number(figure.median):>12} {figure.unit:<7} {mark}")
    for table in outcome.tables:
        print(f"  {table.title}", *("  " + "  ".join(cells) for cells in [table.header, *table.rows]), sep="\n  ")
    return passed


def asked() -> list[str]:
    """The words of the command line, without the limit of time, which changes nothing of what is measured."""
    words = sys.argv[1:]
    if "--minutes" in words:
        at = words.index("--minutes")
        del words[at : at + 2]
    return words


if __name__ == "__main__":
    sys.exit(main())

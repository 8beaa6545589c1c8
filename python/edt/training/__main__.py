"""`edt train`: trains an agent for an explored path and keeps it where `edt cp` finds it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if missing := [name for name in ("torch", "edt_simulator", "safetensors") if find_spec(name) is None]:
    print(f"error: training needs {', '.join(missing)}\nhint: pip install 'edt[train]'", file=sys.stderr)
    sys.exit(2)

from tqdm import tqdm

from edt import history
from edt.training import agent_file, evaluation
from edt.training.episodes import STATIONARY, Variety
from edt.training.path import PathEstimate
from edt.training.ppo import KINDS, Options, Point, Trained, train

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains as the arguments say; returns the exit code."""
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
    found = argparse.ArgumentParser(prog="edt train", description=__doc__)
    found.add_argument("source", nargs="?", metavar="SRC", help="the source that was explored")
    found.add_argument("destination", nargs="?", metavar="DST", help="the destination that was explored")
    found.add_argument("--path", type=Path, metavar="FILE", help="the path file, instead of SRC and DST")
    found.add_argument(
        "--agent", choices=KINDS, help="edt, automdt (three stages) or drl (default: edt, with three stages automdt)"
    )
    found.add_argument(
        "--generalist",
        action="store_true",
        help="train the policy for all paths that edt ships (minutes); needs --output",
    )
    found.add_argument("--max-streams", type=int, metavar="N", help="most streams (default: three times the optimum)")
    found.add_argument("--stationary", action="store_true", help="train on the path as it is, never with less capacity")
    found.add_argument("--paper", action="store_true", help="train as the papers do: one update after each episode")
    found.add_argument("--seconds", type=float, metavar="LIMIT", help="end after so many seconds (default: no limit)")
    found.add_argument("--seed", type=int, default=0, metavar="N", help="seed of weights and episodes (default: 0)")
    found.add_argument("--output", type=Path, metavar="FILE", help="where the agent goes (default: where cp looks)")
    found.add_argument("--onnx", type=Path, metavar="FILE", help="also write the network as an ONNX model")
    found.add_argument("--plot", type=Path, metavar="FILE", help="also draw the training curve (PNG, SVG, PDF)")
    found.add_argument("--json", action="store_true", help="print the report as JSON on standard output")
    found.add_argument("--quiet", action="store_true", help="show neither progress nor summary")
    return found


def run(options: argparse.Namespace) -> int:
    """Finds the path, trains, and writes what was asked for."""
    if options.generalist:
        return generalist(options)
    check_outputs(options)
    path = read_path(options)
    kind: str = options.agent or ("automdt" if path.stages == 3 else "edt")
    output = options.output or agent_file_of(options, path, kind)
    trained = trained_agent(kind, path, options)
    agent_file.save(trained, output)
    if options.onnx:
        agent_file.save_onnx(trained, options.onnx)
    if options.plot:
        from edt.training import plots

        plots.training_curves(options.plot, {kind: trained.curve}, trained.options.convergence)
    found = report(trained, output)
    if options.json:
        print(json.dumps(found, allow_nan=False))
    if not options.quiet:
        summarise(found)
    return 0 if trained.converged_episodes is not None else 1


def generalist(options: argparse.Namespace) -> int:
    """Trains the policy for all paths and writes its files into a directory."""
    if options.source or options.path or options.agent:
        raise ValueError("the policy of --generalist is for all paths: leave out SRC, DST, --path and --agent")
    if not options.output or not options.output.is_dir():
        raise ValueError("--generalist needs --output DIR, a directory for its files")
    from edt.training.generalist import command

    return command.run(options.output, options.seed, as_json=options.json, quiet=options.quiet)


def check_outputs(options: argparse.Namespace) -> None:
    """Fails before the training on what would fail after it."""
    needed = ["matplotlib"] * bool(options.plot) + ["onnx", "onnxscript"] * bool(options.onnx)
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ValueError(f"this needs {', '.join(missing)}: pip install 'edt[train]'")
    for file in (options.plot, options.onnx):
        if file and not file.parent.is_dir():
            raise ValueError(f"there is no directory `{file.parent}` for `{file.name}`")


def read_path(options: argparse.Namespace) -> PathEstimate:
    """Reads the path file, and says how to get one where there is none."""
    file = path_file(options)
    try:
        return PathEstimate.read(file)
    except FileNotFoundError as error:
        hint = "run `edt explore SRC DST` first, or name a path file with --path"
        raise ValueError(f"there is no path file `{file}`\nhint: {hint}") from error


def path_file(options: argparse.Namespace) -> Path:
    """The path file that was named, or the one that is kept for the pair of endpoints."""
    if options.path:
        if options.source:
            raise ValueError("name either SRC and DST or --path")
        return Path(options.path)
    if not options.destination:
        raise ValueError("name SRC and DST, or a path file with --path")
    stages = KINDS[options.agent] if options.agent else 1
    kept = Path(history.path_file(options.source, options.destination, stages))
    whole = Path(history.path_file(options.source, options.destination, 3))
    # Without a word about the agent, what was explored decides.
    return whole if not options.agent and not kept.exists() and whole.exists() else kept


def agent_file_of(options: argparse.Namespace, path: PathEstimate, kind: str) -> Path:
    """Where `edt cp` looks for the agent."""
    source, destination = options.source or path.source, options.destination or path.destination
    if not source or not destination:
        raise ValueError("the path file names no endpoints: say with --output where the agent goes")
    return Path(history.agent_file(source, destination, kind))


def trained_agent(kind: str, path: PathEstimate, arguments: argparse.Namespace) -> Trained:
    """Trains, with a progress line on a terminal."""
    base = Options.paper() if arguments.paper else Options()
    variety: Variety = STATIONARY if arguments.stationary or arguments.paper else base.variety
    options = base.replaced(
        seed=arguments.seed, most_seconds=arguments.seconds, most_streams=arguments.max_streams, variety=variety
    )
    silent = True if arguments.quiet else None
    with tqdm(total=1.0, disable=silent, leave=False, bar_format="{desc} |{bar}| {elapsed}") as bar:
        return train(kind, path, options, shown(bar))


def shown(bar: tqdm[Any]) -> Callable[[Point], None]:
    """Shows how near the reward is to R_max."""

    def show(point: Point) -> None:
        bar.n = min(1.0, max(0.0, point.reward))
        bar.set_description_str(f"{point.episodes:,} episodes, {point.reward:.3f} of R_max", refresh=False)
        bar.update(0)

    return show


def report(trained: Trained, output: Path) -> dict[str, Any]:
    """The training, and how the agent does on fresh episodes."""
    compared = evaluation.compare(trained)
    return {
        "kind": trained.kind,
        "agent_file": str(output),
        **trained.path.to_dict(),
        **trained.report(),
        "mean_action": compared.agent,
        "sampled_action": compared.sampled,
        "best_constant": compared.constant,
        "best_constant_streams": list(compared.constant_streams),
        "analytic_optimum": compared.analytic,
        "table": [
            {"throughput": round(answer.throughput, 3), "streams": answer.streams, "answer": list(answer.answer)}
            for answer in evaluation.table(trained.policy, trained.path)
        ],
    }


def summarise(found: dict[str, Any]) -> None:
    """Says on standard error what came out."""
    lines = [
        f"{found['kind']}: {found['episodes']:,} episodes in {found['seconds']:.1f} s, "
        f"{found['best']:.3f} of R_max while learning"
    ]
    if found["converged_episodes"] is not None:
        episodes, seconds = found["converged_episodes"], found["converged_seconds"]
        lines.append(f"0.9 of R_max was reached after {episodes:,} episodes, {seconds:.1f} s")
    else:
        lines.append("0.9 of R_max was not reached: give it more time, or explore the path again")
    lines.append(
        f"on fresh episodes: {found['mean_action']:.3f} (sampling {found['sampled_action']:.3f}), "
        f"best constant {found['best_constant']:.3f} with {found['best_constant_streams']}, "
        f"analytic optimum {found['analytic_optimum']:.3f}"
    )
    lines.append(f"kept in {found['agent_file']}")
    print(*lines, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

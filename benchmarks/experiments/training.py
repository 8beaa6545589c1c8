"""Training of the EDT and AutoMDT agents in the simulator: time and episodes to 0.9 R_max, and what is learned."""

from __future__ import annotations

import runpy
from dataclasses import asdict
from typing import Any

from bench import Bench, Options
from edt.training import Comparison, PathEstimate, Point, Trained, compare, train
from edt.training import Options as TrainingOptions
from edt.training.episodes import STATIONARY
from edt.training.evaluation import table
from processes import ROOT, workplace
from results import Figure, Outcome, Table

GBPS = 125e6
MBPS = 125e3

OPTIMA = (2, 3, 4, 5, 6.67, 8, 10, 12, 15, 18, 20, 23.3, 28, 35, 45)
"""The scenarios: streams that fill a path of 1 Gbit/s; 6.67, 15 and 23.3 are those of the EDT paper's paths."""
PAPER_PATH = 6.67
BOTTLENECKS = {"read": (80, 160, 200), "network": (205, 75, 195), "write": (200, 150, 70)}
"""Mbit/s of one worker of each stage, on 1 Gbit/s [AutoMDT §V-B1]."""

EDT_BAR_S = 15.0
AUTOMDT_BAR_S = 90.0
PAPER_LIMIT_S = 90.0
FIGURE_13_EPISODES = 10_000

Found = dict[str, Any]


def run(options: Options) -> Outcome:
    """Trains one agent for each scenario, one after another."""
    optima = OPTIMA[4::5] if options.quick else OPTIMA
    seeds = range(1 if options.quick else 2)
    points: dict[str, Found] = {}
    with workplace() as place:
        bench = Bench("training", options, place)

        def measured(key: str, kind: str, path: PathEstimate, how: TrainingOptions, *, compared: bool) -> None:
            points[key] = bench.points.measured(key, lambda: trained(kind, path, how, compared=compared))
            print(f"  {key}: {said(points[key])}", flush=True)

        for optimum in optima:
            measured(f"edt {optimum:g}", "edt", one_stage(optimum), TrainingOptions(), compared=True)
        for name in BOTTLENECKS:
            for seed in seeds:
                measured(
                    f"automdt {name} {seed}",
                    "automdt",
                    three_stages(name),
                    TrainingOptions(seed=seed),
                    compared=seed == 0,
                )
        for kind in ("edt", "drl"):
            still = TrainingOptions(variety=STATIONARY, patience=FIGURE_13_EPISODES, most_episodes=FIGURE_13_EPISODES)
            measured(f"figure 13 {kind}", kind, one_stage(PAPER_PATH), still, compared=False)
        if not options.quick:
            paper = TrainingOptions.paper().replaced(most_seconds=PAPER_LIMIT_S)
            measured("paper", "edt", one_stage(PAPER_PATH), paper, compared=False)
    steps = steps_per_second()
    return Outcome(
        "training",
        "Agents trained in the simulator, one process with one thread of PyTorch. Rewards are relative to R_max of the "
        "path as it is at the moment. Half of the episodes lose capacity, at once or on the way, so no constant "
        "is right.",
        [*times(points), *steps],
        options.scale,
        notes(points),
        [comparisons(points), answers(points)],
        points,
    )


def one_stage(optimum: float) -> PathEstimate:
    """1 Gbit/s that so many streams fill."""
    return PathEstimate(bandwidth=(GBPS,), stream_rate=(GBPS / optimum,), rtt_s=0.067)


def three_stages(name: str) -> PathEstimate:
    """One of AutoMDT's bottlenecks."""
    read, network, write = (rate * MBPS for rate in BOTTLENECKS[name])
    return PathEstimate(stages=3, bandwidth=(GBPS,) * 3, stream_rate=(read, network, write), rtt_s=0.02)


def trained(kind: str, path: PathEstimate, options: TrainingOptions, *, compared: bool) -> Found:
    """Trains one agent; what came out, as JSON."""
    agent = train(kind, path, options)
    return {
        "kind": kind,
        **path.to_dict(),
        **agent.report(),
        "curve": thinned(agent.curve),
        "compared": asdict(compare(agent)) if compared else None,
        "answers": table_of(agent) if compared else None,
    }


def thinned(curve: list[Point], most: int = 200) -> list[list[float]]:
    """Episodes, seconds and reward of up to `most` points, each the mean of its neighbours."""
    step = max(1, len(curve) // most)
    parts = [curve[begin : begin + step] for begin in range(0, len(curve), step)]
    return [
        [part[-1].episodes, round(part[-1].seconds, 3), round(sum(point.reward for point in part) / len(part), 4)]
        for part in parts
    ]


def table_of(agent: Trained) -> list[Found]:
    """What the agent answers in which state."""
    return [
        {"throughput": answer.throughput, "streams": answer.streams, "answer": list(answer.answer)}
        for answer in table(agent.policy, agent.path)
    ]


def said(point: Found) -> str:
    """One line on the screen."""
    reached = point["converged_seconds"]
    return (
        f"0.9 after {reached} s and {point['converged_episodes']} episodes; {point['best']:.3f} in {point['seconds']} s"
    )


def times(points: dict[str, Found]) -> list[Figure]:
    """Seconds and episodes to 0.9 R_max, over the scenarios."""
    found = []
    patience = f"{TrainingOptions().patience:,}"
    for kind, bar in (("edt", EDT_BAR_S), ("automdt", AUTOMDT_BAR_S)):
        chosen = [point for key, point in points.items() if key.startswith(f"{kind} ")]
        reached = [point for point in chosen if point["converged_seconds"] is not None]
        found.append(Figure(f"{kind}: scenarios that reached 0.9 R_max", f"of {len(chosen)}", [float(len(reached))]))
        if len(reached) == len(chosen):
            found += [
                Figure(f"{kind}: time to 0.9 R_max", "s", [p["converged_seconds"] for p in chosen], at_most=bar),
                Figure(f"{kind}: episodes to 0.9 R_max", "", [p["converged_episodes"] for p in chosen]),
            ]
        found.append(
            Figure(
                f"{kind}: time to the end, {patience} episodes without improvement", "s", [p["seconds"] for p in chosen]
            )
        )
    if "paper" in points:
        paper = points["paper"]
        found.append(Figure("edt as the paper trains: episodes per second", "", [paper["episodes"] / paper["seconds"]]))
        if paper["converged_seconds"] is not None:
            found += [
                Figure("edt as the paper trains: time to 0.9 R_max", "s", [paper["converged_seconds"]]),
                Figure("edt as the paper trains: episodes to 0.9 R_max", "", [paper["converged_episodes"]]),
            ]
    return found


def steps_per_second() -> list[Figure]:
    """Environment steps per second of the simulator, plain scenarios, on all cores."""
    program = runpy.run_path(str(ROOT / "simulator" / "benchmarks" / "steps.py"))
    return [
        Figure(
            f"simulator, {model}, stages: {stages}: steps per second",
            "",
            [program["steps_per_second"](program["PLAIN"], model, stages, 2048, 1.0)[0] for _ in range(5)],
            at_least=bar,
        )
        for (model, stages), bar in program["BARS"].items()
    ]


def comparisons(points: dict[str, Found]) -> Table:
    """The agents against constants, on fresh episodes."""
    rows = []
    for key, point in points.items():
        if point["compared"]:
            compared = Comparison(**point["compared"])
            streams = ", ".join(f"{value:.1f}" for value in point["optimum"])
            rows.append(
                [
                    key,
                    streams,
                    f"{compared.agent:.3f}",
                    f"{compared.sampled:.3f}",
                    f"{compared.constant:.3f} with {', '.join(map(str, compared.constant_streams))}",
                    f"{compared.analytic:.3f}",
                ]
            )
    header = ["agent", "n* of the whole path", "mean action", "sampled", "best constant", "always n*"]
    return Table("Mean reward on 2,000 fresh episodes, share of R_max of the moment", header, rows)


def answers(points: dict[str, Found]) -> Table:
    """What the agent for the paper's CloudLab path answers to which state."""
    key = f"edt {PAPER_PATH:g}"
    rows = [
        [f"{answer['throughput']:.2f}", f"{answer['streams']:g}", f"{answer['answer'][0]:g}"]
        for answer in (points.get(key) or {}).get("answers", [])
    ]
    title = f"Action against state: the agent for {PAPER_PATH:g} streams"
    return Table(title, ["throughput, share of the bandwidth", "streams", "next streams"], rows)


def notes(points: dict[str, Found]) -> list[str]:
    """What one has to know to read the figures."""
    found = [
        "Papers: EDT 8,525 episodes and 156 s in the mean (33 to 222 s), 55 episodes (550 environment steps) a second; "
        "AutoMDT about 20,150 episodes and 45 minutes.",
    ]
    edt, drl = points["figure 13 edt"], points["figure 13 drl"]
    found.append(
        f"Continuous against discrete actions (figure 13 of the EDT paper), {FIGURE_13_EPISODES:,} episodes on the "
        f"path as it is: best {edt['best']:.3f} against {drl['best']:.3f}; 0.9 after {edt['converged_episodes']} and "
        f"{drl['converged_episodes']} episodes."
    )
    return found

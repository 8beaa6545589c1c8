"""Draws what RESULTS.md shows, from the JSON of the experiments."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as pyplot

from results import FOLDER

COLOURS = matplotlib.colormaps["tab20"].colors  # type: ignore[attr-defined]
VARIANTS = {"CC": "tab:blue", "P-CC": "tab:orange", "PP-CC": "tab:green", "P-PP-CC": "black"}
Points = dict[str, dict[str, Any]]


def draw(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Draws the plots of one experiment; returns the title and the file of each."""
    points: Points = document.get("points") or {}
    drawers = {
        "peers": peers,
        "ablation": ablation,
        "timeline": timeline,
        "training": training,
        "agents": agents,
        "steps": steps,
        "shares": shares,
    }
    # What is kept by path is named `peers-PATH`.
    drawer = drawers.get(document["name"].split("-")[0])
    return drawer(points) if drawer and points else []


def peers(points: Points) -> list[tuple[str, str]]:
    """Bars of goodput by tool, one group a data set, one plot a path."""
    found = []
    for path in dict.fromkeys(point["path"] for point in points.values()):
        chosen = [point for point in points.values() if point["path"] == path]
        datasets = list(dict.fromkeys(point["dataset"] for point in chosen))
        tools = list(dict.fromkeys(point["tool"] for point in chosen))
        figure, axes = pyplot.subplots(figsize=(9, 3.6), layout="constrained")
        width = 0.85 / len(tools)
        for index, tool in enumerate(tools):
            values = [
                [p["goodput_bps"] / 1e9 for p in chosen if (p["dataset"], p["tool"]) == (d, tool)] for d in datasets
            ]
            medians = [statistics.median(runs) if runs else 0.0 for runs in values]
            spread = [
                [median - min(runs, default=0.0) for median, runs in zip(medians, values, strict=True)],
                [max(runs, default=0.0) - median for median, runs in zip(medians, values, strict=True)],
            ]
            places = [position + index * width for position in range(len(datasets))]
            axes.bar(places, medians, width, yerr=spread, label=tool, color=COLOURS[index % 20], error_kw={"lw": 0.7})
        rate = chosen[0]["rate_bps"]
        if rate:
            axes.axhline(rate / 1e9, color="black", lw=0.7, ls="--")
        axes.set_xticks([position + 0.425 - width / 2 for position in range(len(datasets))], datasets)
        axes.set_ylabel("goodput, Gbit/s")
        axes.set_title(f"{path}: median, smallest and largest of the runs")
        axes.legend(fontsize=7, ncols=1, loc="center left", bbox_to_anchor=(1, 0.5))
        found.append((f"goodput by tool on {path}", save(figure, f"peers-{path}")))
    return found


def ablation(points: Points) -> list[tuple[str, str]]:
    """Throughput over concurrency for each combination, as figure 12 of the EDT paper draws it."""
    names = list(dict.fromkeys(point["dataset"] for point in points.values()))
    figure, columns = pyplot.subplots(1, len(names), figsize=(3.4 * len(names), 3), layout="constrained", squeeze=False)
    for axes, name in zip(columns[0], names, strict=True):
        chosen = [point for point in points.values() if point["dataset"] == name]
        for variant in dict.fromkeys(point["variant"] for point in chosen):
            runs = [point for point in chosen if point["variant"] == variant]
            steps = sorted({point["concurrency"] for point in runs})
            medians = [
                statistics.median(p["goodput_bps"] / 1e6 for p in runs if p["concurrency"] == step) for step in steps
            ]
            if variant == "auto":
                axes.axhline(medians[0], color="red", ls="--", lw=1.2, label="auto")
            else:
                axes.plot(steps, medians, marker="o", ms=3, lw=1, label=variant, color=VARIANTS[variant])
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("concurrency")
        axes.set_ylim(bottom=0)
    columns[0][0].set_ylabel("goodput, Mbit/s")
    columns[0][-1].legend(fontsize=7)
    return [("goodput over concurrency by combination", save(figure, "ablation"))]


def timeline(points: Points) -> list[tuple[str, str]]:
    """Throughput and streams over time, one row a path."""
    figure, rows = pyplot.subplots(
        len(points), 1, figsize=(8, 2.1 * len(points)), layout="constrained", squeeze=False, sharex=True
    )
    for axes, point in zip(rows[:, 0], points.values(), strict=True):
        samples = point["timeline"]
        edges = [0.0, *(sample["elapsed_s"] for sample in samples)]
        axes.stairs([8 * sample["throughput"] / 1e6 for sample in samples], edges, color="tab:blue", lw=1.4)
        if point["rate_bps"]:
            axes.axhline(point["rate_bps"] / 1e6, color="black", lw=0.7, ls="--")
        axes.set_ylim(bottom=0)
        axes.set_ylabel("Mbit/s", color="tab:blue")
        axes.set_title(point["path"], fontsize=9, loc="left")
        streams = axes.twinx()
        streams.stairs([sample["concurrency"] for sample in samples], edges, color="tab:red", lw=1)
        streams.set_ylim(bottom=0)
        streams.set_ylabel("streams", color="tab:red")
    rows[-1, 0].set_xlabel("seconds")
    return [("throughput and streams over time, tuned automatically", save(figure, "timeline"))]


def training(points: Points) -> list[tuple[str, str]]:
    """Reward over episodes: the agents of all scenarios, and continuous against discrete actions as in figure 13."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for key, point in points.items():
        if key.startswith("edt "):
            left.plot(*curve(point), lw=0.8, label=f"n* = {key.split()[1]}")
    for key, name in (("figure 13 edt", "continuous"), ("figure 13 drl", "discrete")):
        if key in points:
            right.plot(*curve(points[key]), lw=1, label=name)
    for axes, title in ((left, "edt, one agent a path, paths that change"), (right, "continuous and discrete actions")):
        axes.axhline(0.9, color="black", lw=0.7, ls="--")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("episodes")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=6, ncols=2, loc="lower right")
    left.set_ylabel("mean reward, share of R_max")
    return [("reward while training", save(figure, "training"))]


def curve(point: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Episodes and rewards of a training."""
    return [entry[0] for entry in point["curve"]], [entry[2] for entry in point["curve"]]


def agents(points: Points) -> list[tuple[str, str]]:
    """Streams over time of the agents and of optimizers that search, one plot a path."""
    shown = {
        "edt 0": "tab:red",
        "automdt 0": "tab:red",
        "drl": "tab:purple",
        "marlin": "tab:green",
        "falcon": "tab:blue",
    }
    found = []
    for path in dict.fromkeys(point["path"] for point in points.values() if "path" in point):
        stages = ("network",) if f"{path} edt 0" in points else ("read", "network", "write")
        figure, columns = pyplot.subplots(
            1, len(stages), figsize=(3.6 * len(stages) + 1.5, 2.8), layout="constrained", squeeze=False, sharey=True
        )
        for axes, stage in zip(columns[0], stages, strict=True):
            for name, colour in shown.items():
                if point := points.get(f"{path} {name}"):
                    edges = [0.0, *(sample["elapsed_s"] for sample in point["timeline"])]
                    streams = [sample["concurrency"][stage] for sample in point["timeline"]]
                    axes.stairs(streams, edges, color=colour, lw=1.2, label=name.removesuffix(" 0"))
            axes.set_title(f"{path}: {stage}", fontsize=9)
            axes.set_xlabel("seconds")
            axes.set_ylim(bottom=0)
        columns[0][0].set_ylabel("concurrency")
        columns[0][-1].legend(fontsize=7)
        found.append((f"concurrency over time on {path}", save(figure, f"agents-{path}")))
    return found


def steps(points: Points) -> list[tuple[str, str]]:
    """Throughput and streams of every optimizer over the path that changes, in the first repetition."""
    shown = {
        point["name"]: point["rows"]
        for point in points.values()
        if point["path"] == "changing" and point["seed"] == 0 and not point["name"].startswith("fixed ")
    }
    if not any(shown.values()):
        return []
    figure, columns = pyplot.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for index, (name, rows) in enumerate(shown.items()):
        for axes, column in zip(columns, (1, 2), strict=True):
            stairs(axes, rows, column, label=name, color=COLOURS[2 * index % 20])
    for axes, text in zip(columns, ("Mbit/s", "streams"), strict=True):
        axes.set_xlabel("seconds")
        axes.set_ylabel(text)
        axes.set_ylim(bottom=0)
    columns[1].legend(fontsize=7)
    return [("throughput and streams while the rate halves and doubles", save(figure, "steps"))]


def shares(points: Points) -> list[tuple[str, str]]:
    """Throughput of all tenants over time, in the first repetition: a row a scenario, a column an optimizer."""
    first = [point for point in points.values() if point["seed"] == 0 and point["tenants"]]
    if not first:
        return []
    scenarios = list(dict.fromkeys(point["scenario"] for point in first))
    names = list(dict.fromkeys(point["name"] for point in first))
    size = (3.2 * len(names), 2.0 * len(scenarios) + 0.4)
    figure, rows = pyplot.subplots(
        len(scenarios), len(names), figsize=size, layout="constrained", squeeze=False, sharey=True
    )
    for point in first:
        axes = rows[scenarios.index(point["scenario"])][names.index(point["name"])]
        for index, tenant in enumerate(point["tenants"]):
            stairs(axes, tenant["rows"], 1, tenant["offset_s"], label=tenant["name"], color=COLOURS[2 * index])
        axes.set_title(f"{point['scenario']}: {point['name']}", fontsize=8)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=6)
    rows[0][0].set_ylabel("Mbit/s")
    rows[-1][0].set_xlabel("seconds")
    return [("throughput of transfers that share a path", save(figure, "shares"))]


def stairs(axes: Any, rows: list[list[float]], column: int, offset_s: float = 0.0, **looks: Any) -> None:
    """A line over intervals whose ends are the first column."""
    if rows:
        edges = [offset_s, *(offset_s + row[0] for row in rows)]
        axes.stairs([row[column] for row in rows], edges, lw=1.1, **looks)


def save(figure: Any, name: str) -> str:
    """Writes a plot beside the JSON; returns its file name."""
    file = Path(f"{name.replace('/', '-')}.png")
    figure.savefig(FOLDER / file, dpi=90, metadata={"Software": None})
    pyplot.close(figure)
    return file.name

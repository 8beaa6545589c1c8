"""What copies came to during which others began: before and after, and what online tuning brought HARP there."""

from __future__ import annotations

import statistics
from typing import Any

from points import Point
from results import Figure, Table

OTHERS = 16
"""Streams of others that begin: from 8 the older streams keep so much that HARP hardly sees another load."""

OTHERS_S = 20.0
"""Seconds after the start when they do: HARP has estimated as a rule, even where the guard held it back at first."""


def tables(points: dict[str, Point]) -> list[Table]:
    """Each copy before and after the others began, with HARP's own changes of its parameters beside the guard's."""
    copies = changing(points)
    if not copies:
        return []
    first = copies[0]
    header = [
        "optimizer",
        "Mbit/s",
        "before",
        "after",
        "mean streams before",
        "after",
        "retuned",
        "overruled",
        "seconds",
    ]
    title = f"{first['path']}, {OTHERS} streams of others begin {first['others_s']:g} s after the start"
    return [Table(title, header, [row(point) for point in copies])]


def figures(points: dict[str, Point]) -> list[Figure]:
    """What online tuning brought HARP, and how often it changed anything."""
    named = {point["name"]: point for point in changing(points)}
    if not {"harp", "harp-once"} <= named.keys():
        return []
    harp, once = named["harp"], named["harp-once"]
    what = f"{harp['path']}, others begin: "
    return [
        Figure(f"{what}goodput of harp / harp-once", "", [harp["mean_mbps"] / once["mean_mbps"]]),
        Figure(f"{what}changes of harp's parameters by online tuning", "", [float(harp["retuned"])]),
    ]


def changing(points: dict[str, Point]) -> list[Point]:
    """The copies that came through while the load changed."""
    return [point for point in points.values() if point["load"] == "changing" and point["timeline"]]


def row(point: Point) -> list[str]:
    """One line of the table."""
    timeline = point["timeline"]
    before = [sample for sample in timeline if sample["elapsed_s"] <= point["others_s"]]
    parts = (before, timeline[len(before) :])
    goodputs = [mean([8e-6 * sample["throughput"]["network"] for sample in part], ",.0f") for part in parts]
    streams = [mean([sample["concurrency"]["network"] for sample in part], ".1f") for part in parts]
    retuned = str(point["retuned"]) if point["name"].startswith("harp") else "-"
    overruled = f"{100 * statistics.mean(sample['overruled'] for sample in timeline):.0f} %"
    mbps, wall = f"{point['mean_mbps']:,.0f}", f"{point['wall_s']:.0f}"
    return [point["name"], mbps, *goodputs, *streams, retuned, overruled, wall]


def mean(values: list[Any], form: str) -> str:
    """The mean in words, or that there is none."""
    return format(statistics.mean(values), form) if values else "-"

"""The ablation of the EDT paper (section V-F, figure 12): what each technique brings on the CloudLab path."""

from __future__ import annotations

import statistics

import datasets
import paths
from bench import Bench, Options
from copies import Copied
from peers import ALL, versions
from peers.peer import DEFAULT, Setting
from points import Point
from processes import workplace
from results import Outcome, Table

WITHOUT_PARALLELISM = ("--parallelism", "1")
WITHOUT_PIPELINING = ("--pipelining", "0")
VARIANTS: dict[str, tuple[str, ...]] = {
    "CC": (*WITHOUT_PARALLELISM, *WITHOUT_PIPELINING),
    "P-CC": WITHOUT_PARALLELISM,
    "PP-CC": WITHOUT_PIPELINING,
    "P-PP-CC": (),
}
"""As the paper names them: P is pipelining, PP parallelism, CC concurrency."""

DATA_SETS = ("cloudlab-1m", "cloudlab-32m", "cloudlab-1g")
CONCURRENCIES = (1, 2, 3, 5, 8, 12)
STREAM_BPS = 150e6
"""What the path gives one stream."""


def run(options: Options) -> Outcome:
    """Every combination at every concurrency, and `auto`; each copy is scaled to what its streams can carry."""
    names = options.datasets or (("cloudlab-1m", "cloudlab-1g") if options.quick else DATA_SETS)
    steps = (1, 8) if options.quick else CONCURRENCIES
    points: dict[str, Point] = {}
    with workplace() as place, paths.opened("cloudlab") as ends:
        bench = Bench("ablation", options, place)
        for repetition in range(options.repetitions or 1):
            for name in names:
                for concurrency in steps:
                    for variant, limits in VARIANTS.items():
                        words = ("--optimizer", "fixed", "--concurrency", str(concurrency), *limits)
                        setting = Setting(f"{variant} {concurrency}", words)
                        points |= measure(bench, ends, name, (variant, concurrency, repetition), setting)
                points |= measure(bench, ends, name, ("auto", 0, repetition), DEFAULT)
    return Outcome(
        "ablation",
        "Goodput with a constant concurrency: with neither pipelining nor parallelism (CC), with pipelining (P-CC), "
        "with parallelism (PP-CC), with both (P-PP-CC), and tuned automatically. 1 Gbit/s, 67 ms, 150 Mbit/s a stream.",
        [],
        options.scale,
        [
            "Without parallelism a file goes whole over one stream; without pipelining a new connection is opened for "
            "each chunk or small file, as tools without persistent connections do. The data is scaled to what so many "
            "streams can carry in the same time: figures of one row compare, those of two compare less well.",
        ],
        [table(points, name, steps) for name in names],
        points,
        versions(["edt"]),
    )


def measure(
    bench: Bench, ends: paths.Ends, name: str, where: tuple[str, int, int], setting: Setting
) -> dict[str, Point]:
    """One copy, with what the plot needs to know."""
    variant, concurrency, repetition = where
    assert ends.rate_bps is not None
    seconds = bench.options.seconds or (3.0 if bench.options.quick else 5.0)
    reached = min(concurrency * STREAM_BPS, ends.rate_bps) if concurrency else ends.rate_bps
    data = bench.data(name, datasets.scale_for(name, seconds * reached / 8))
    key = f"{name} {variant} {concurrency} {repetition}"
    run: Copied = bench.copy(key, ends, ALL["edt"], setting, data, 8 * seconds + 20)
    point = {"dataset": name, "variant": variant, "concurrency": concurrency, "goodput_bps": run.goodput_bps}
    return {key: {**point, **run.record()}}


def table(points: dict[str, Point], name: str, steps: tuple[int, ...]) -> Table:
    """Medians in Mbit/s, one row a concurrency."""

    def median(variant: str, concurrency: int) -> str:
        wanted = (name, variant, concurrency)
        values = [
            point["goodput_bps"] / 1e6
            for point in points.values()
            if (point["dataset"], point["variant"], point["concurrency"]) == wanted
        ]
        return f"{statistics.median(values):,.0f}"

    rows = [[str(step), *(median(variant, step) for variant in VARIANTS)] for step in steps]
    rows.append(["auto", *[""] * (len(VARIANTS) - 1), median("auto", 0)])
    return Table(f"{name}, goodput in Mbit/s", ["concurrency", *VARIANTS], rows)

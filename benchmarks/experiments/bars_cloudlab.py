"""What concurrency 8 reaches on the CloudLab path: the share of the path's rate over the whole transfer."""

from __future__ import annotations

import paths
from bench import Bench, Options
from copies import Copied
from peers import ALL, versions
from peers.edt import fixed
from processes import workplace
from results import Figure, Outcome

DATA_SETS = ("cloudlab-1m", "cloudlab-32m", "cloudlab-1g")
LIMIT_S = 240.0
BAR = 0.95
CONCURRENCY = 8


def run(options: Options) -> Outcome:
    """Concurrency 8 as often as asked for; `auto` and iperf3 with 8 streams beside it in the first repetition."""
    tools = (
        ("edt-fixed", fixed(CONCURRENCY)),
        ("edt", ALL["edt"].settings[0]),
        ("iperf3", ALL["iperf3"].setting("P 8")),
    )
    names = options.datasets or DATA_SETS
    runs: dict[str, dict[str, list[Copied]]] = {name: {tool: [] for tool, _ in tools} for name in names}
    with workplace() as place, paths.opened("cloudlab") as ends:
        bench = Bench("bars-cloudlab", options, place)
        for name in names:
            data = bench.data(name, 0.2 if options.quick else 1.0)
            for repetition in range(options.repetitions or (1 if options.quick else 3)):
                # A copy of full size takes three quarters of a minute: what has no bar is measured once.
                for tool, setting in tools if repetition == 0 else tools[:1]:
                    key = f"{name} {tool} {repetition}"
                    runs[name][tool].append(bench.copy(key, ends, ALL[tool], setting, data, LIMIT_S))
    rate = ends.rate_bps
    assert rate is not None
    return Outcome(
        "bars-cloudlab",
        "1 Gbit/s, 67 ms, 150 Mbit/s a stream: the whole transfer, from the start of the client process to its end, "
        "with framing and digests, as a share of the path's rate in IP packets.",
        [figure for name in names for figure in figures(name, runs[name], rate)],
        options.scale,
        points={
            f"{name} {tool} {index}": run.record()
            for name in names
            for tool, each in runs[name].items()
            for index, run in enumerate(each)
        },
        versions=versions(["edt", "iperf3"]),
    )


def figures(name: str, runs: dict[str, list[Copied]], rate_bps: float) -> list[Figure]:
    """Shares of the path's rate, and of what iperf3 reached in the same repetition."""
    limit = runs["iperf3"]
    found = []
    for tool, label, bar in (
        ("edt-fixed", f"concurrency {CONCURRENCY}", BAR),
        ("edt", "auto", None),
        ("iperf3", "iperf3, 8 streams", None),
    ):
        shares = [run.goodput_bps / rate_bps for run in runs[tool]]
        found.append(Figure(f"{name}: {label}, share of the rate", "", shares, at_least=bar))
    if all(run.goodput_bps for run in limit):
        ratios = [run.goodput_bps / base.goodput_bps for run, base in zip(runs["edt-fixed"], limit, strict=False)]
        found.append(Figure(f"{name}: concurrency {CONCURRENCY} / iperf3", "", ratios))
    return found

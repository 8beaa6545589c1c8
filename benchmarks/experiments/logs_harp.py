"""HARP on the GridFTP logs that were published with it: its models, and what it chooses on passes that it never saw."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import gridftp_logs
from bench import Options
from edt._edt import HarpHistory
from gridftp_logs import Pass
from results import Figure, Outcome, Table

CLASSES = ("tiny", "small", "medium", "large")
BARS = {"pooled": 0.88, "accuracy": 0.95}
DAY_S = 86_400.0
MINUTE_S = 60.0
MOST_CONCURRENCY = 32
"""As many as the logs have tried."""
SAMPLED = {"tiny": (2, 4, 4), "small": (2, 4, 4), "medium": (2, 4, 1), "large": (2, 4, 1)}
"""Parallelism, concurrency and pipelining of the sample of a held-out pass."""
SQUARE_MBPS = (8 / 1e6) ** 2
"""(Mbit/s)² of a squared byte per second."""

Group = dict[str, Any]
Pairs = list[tuple[float, float]]
"""What was measured and what is told, in bytes per second."""
Point = tuple[float, float, float]
"""Concurrency, parallelism, pipelining."""


@dataclass(frozen=True)
class Chosen:
    """What HARP chose on a held-out pass after one sample, in shares of the most that the pass reached."""

    kind: str
    relaxed: Point
    kept: float
    """What the relaxed parameters give."""
    unrelaxed: float
    """What the parameters of the greatest promise give."""
    accuracy: float
    """How near the promise of the relaxed parameters is to what they give: 1 - |given - promised| / promised."""
    streams: float
    """Streams of the relaxed parameters, as a share of those of the greatest promise."""


def run(options: Options) -> list[Outcome]:
    """Everything that the logs can show of HARP, where they are; a quick run holds out every fourth pass only."""
    if reason := gridftp_logs.missing():
        print(f"  skipped, there is no {reason}", file=sys.stderr)
        return []
    passes = gridftp_logs.passes()
    rows = [row for each in passes for row in past_transfers(each)]
    history = HarpHistory(json.dumps(rows))
    groups: list[Group] = json.loads(history.groups(MOST_CONCURRENCY))
    told = [group for group in groups if group["model"]]
    held = list(chosen(history, rows, groups, 4 if options.quick else 1))
    outcome = Outcome(
        "logs-harp",
        f"HARP on the logs published with it: {len(rows):,} transfers in {len(groups)} groups of the same files, path "
        f"and time; {len(told)} groups have a model that explains more than 0.7 of the variance of its training and of "
        f"its validating rows, the others are outliers. Each of {len(held)} complete passes was held out, and one of "
        "its settings was the sample.",
        figures(groups, held, rows),
        options.scale,
        [
            "The paper has R² 0.824 for HARP and 0.503, 0.632, 0.672 and 0.674 for global fits of degree 1 to 4, with "
            "residual variances of 197,223 and 740,493 to 486,482; validation accuracy of 85 to 96 %; 60 % of the "
            "maximum kept by relaxation. It says nothing of outliers. The same setting measured in two passes agrees "
            "to 86 % in the median and to 66 % in the mean: what is learned from one pass cannot tell another better.",
            "Goodness of fit: in each column all fits are over the same rows. Of all rows, HARP tells those of "
            "outliers by the mean of their group, and of validating rows by the mean of the other rows of it. The "
            "validating rows are those that neither HARP's models nor, there, the global polynomials were fitted to. "
            "But they are not untouched: HARP takes the lowest degree that explains more than 0.7 of their variance, "
            "and a group for which none does has no model. So validating rows choose both the degree and the groups "
            "that the figures with bars are over, as in the paper, which flatters them. In the figure over those of "
            "all groups nothing is left out; there they still choose the degree, and where a mean is told instead.",
        ],
        [fits(history, groups, rows), degrees(told), by_class(groups, told), held_out(held)],
    )
    return [outcome]


def past_transfers(each: Pass) -> Iterator[dict[str, Any]]:
    """The rows of a pass as the core takes them. Many have lost their hours, so passes are told to be a day apart."""
    for index, ((parallelism, concurrency, pipelining), throughput) in enumerate(each.rows):
        yield {
            "began_s": each.number * DAY_S + index * MINUTE_S,
            "source": each.source,
            "destination": each.destination,
            "bandwidth": each.bandwidth,
            "rtt_s": each.rtt_s,
            "tcp_buffer": each.tcp_buffer,
            "files": each.files,
            "bytes": round(each.files * each.mean_size),
            "concurrency": concurrency,
            "parallelism": parallelism,
            "pipelining": pipelining,
            "goodput": throughput,
        }


def chosen(
    history: HarpHistory, rows: Sequence[dict[str, Any]], groups: Sequence[Group], every: int
) -> Iterator[Chosen]:
    """What is chosen on each of the complete passes, or on every so many, learning from the others."""
    complete = [group for group in groups if len({setting(rows[row]) for row in group["rows"]}) == gridftp_logs.WHOLE]
    for group in complete[::every]:
        truth = {setting(rows[row]): float(rows[row]["goodput"]) for row in group["rows"]}
        sample = next(row for row in group["rows"] if setting(rows[row]) == SAMPLED[group["class"]])
        text = history.choice(sample, group["rows"], MOST_CONCURRENCY)
        if text is None:
            continue
        choice = json.loads(text)
        relaxed, best = choice["relaxed"], choice["best"]
        given, most = between(truth, relaxed), max(truth.values())
        yield Chosen(
            kind=group["class"],
            relaxed=relaxed,
            kept=given / most,
            unrelaxed=between(truth, best) / most,
            accuracy=max(0.0, 1 - abs(given - choice["throughput"]) / choice["throughput"]),
            streams=relaxed[0] * relaxed[1] / (best[0] * best[1]),
        )


def setting(row: dict[str, Any]) -> gridftp_logs.Setting:
    """Parallelism, concurrency and pipelining of a row."""
    return row["parallelism"], row["concurrency"], row["pipelining"]


def between(truth: dict[gridftp_logs.Setting, float], point: Sequence[float]) -> float:
    """What a complete pass gives at any parameters: between settings it is linear in their binary logarithms."""
    concurrency, parallelism, pipelining = (math.log2(min(max(value, 1.0), 32.0)) for value in point)
    total = 0.0
    for corner in product((0, 1), repeat=3):
        weight, powers = 1.0, []
        for at, upper in zip((parallelism, concurrency, pipelining), corner, strict=True):
            below = min(int(at), 4)
            weight *= at - below if upper else 1 - (at - below)
            powers.append(2 ** (below + upper))
        total += weight * truth[powers[0], powers[1], powers[2]]
    return total


def figures(groups: Sequence[Group], held: Sequence[Chosen], rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """What is held to bars, and what the paper says in one number."""
    told = [group for group in groups if group["model"]]
    accuracy = [group["model"]["accuracy"] for group in told if group["model"]["accuracy"] is not None]
    kept, unrelaxed = [each.kept for each in held], [each.unrelaxed for each in held]
    return [
        Figure("R², pooled over groups", "", [pooled(told, rows)[0]], at_least=BARS["pooled"]),
        Figure(
            "R², pooled over validating rows of groups with a model",
            "",
            [explained(validating(told, rows))[0]],
            at_least=BARS["pooled"],
        ),
        Figure(
            "R², pooled over validating rows of all groups, outliers by the mean of their training rows",
            "",
            [explained(validating(groups, rows))[0]],
        ),
        Figure(
            "R², pooled over all rows, outliers by their group's mean", "", [explained(everything(groups, rows))[0]]
        ),
        Figure("R² of a group, mean", "", [statistics.mean(r_squared(group, rows) for group in told)]),
        Figure("R² of validating rows, mean", "", [statistics.mean(group["model"]["validation"] for group in told)]),
        Figure("validation accuracy, median", "", [statistics.median(accuracy)], at_least=BARS["accuracy"]),
        Figure("validation accuracy, mean", "", [statistics.mean(accuracy)]),
        Figure("share of the maximum that relaxation keeps, median", "", [statistics.median(kept)]),
        Figure("share of the maximum without relaxation, median", "", [statistics.median(unrelaxed)]),
        Figure("prediction on held-out passes, median", "", [statistics.median(each.accuracy for each in held)]),
    ]


def pooled(told: Sequence[Group], rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """R² over the rows of all groups with a model, and the variance of the residuals in (Mbit/s)²."""
    return explained([pair for group in told for pair in predictions(group, rows)])


def validating(groups: Sequence[Group], rows: Sequence[dict[str, Any]]) -> Pairs:
    """Measured and told of the rows of these groups that no model was fitted to.

    Those of a group without a model are told by the mean of its other rows.
    """
    pairs: Pairs = []
    for group in groups:
        held = set(group["validating"])
        if group["model"]:
            told = [predicted for _, predicted in predictions(group, rows)]
        else:
            mean = statistics.fmean(float(rows[row]["goodput"]) for row in group["rows"] if row not in held)
            told = [mean] * len(group["rows"])
        each = zip(group["rows"], told, strict=True)
        pairs += [(float(rows[row]["goodput"]), predicted) for row, predicted in each if row in held]
    return pairs


def everything(groups: Sequence[Group], rows: Sequence[dict[str, Any]]) -> Pairs:
    """Measured and told of all rows: those of a group without a model are told by its mean."""
    pairs: Pairs = []
    for group in groups:
        if group["model"]:
            pairs += predictions(group, rows)
        else:
            truth = [float(rows[row]["goodput"]) for row in group["rows"]]
            pairs += [(each, statistics.fmean(truth)) for each in truth]
    return pairs


def explained(pairs: Pairs) -> tuple[float, float]:
    """R² of predictions, and the variance of their residuals in (Mbit/s)²."""
    residual = sum((truth - predicted) ** 2 for truth, predicted in pairs)
    mean = statistics.fmean(truth for truth, _ in pairs)
    total = sum((truth - mean) ** 2 for truth, _ in pairs)
    return 1 - residual / total, SQUARE_MBPS * residual / len(pairs)


def r_squared(group: Group, rows: Sequence[dict[str, Any]]) -> float:
    """R² over all rows of one group."""
    return pooled([group], rows)[0]


def predictions(group: Group, rows: Sequence[dict[str, Any]]) -> Pairs:
    """What was measured and what is told for each row of a group."""
    truth = [float(rows[row]["goodput"]) for row in group["rows"]]
    return list(zip(truth, group["model"]["predicted"], strict=True))


def fits(history: HarpHistory, groups: Sequence[Group], rows: Sequence[dict[str, Any]]) -> Table:
    """One polynomial for many transfers against one for each group, over the same rows [HARP table 3]."""
    told = [group for group in groups if group["model"]]
    same = [row for group in told for row in group["rows"]]
    parts = [parted(groups), parted(told)]
    cells = []
    for degree in (1, 2, 3, 4):
        fitted = [history.global_fit(degree), history.global_fit(degree, same)]
        fitted += [history.global_fit(degree, training, tested) for training, tested in parts]
        shown = [(explains, SQUARE_MBPS * variance) for explains, variance in fitted]
        cells.append([f"one of degree {degree}", *words_of(shown)])
    own = [explained(everything(groups, rows)), pooled(told, rows)]
    own += [explained(validating(which, rows)) for which in (groups, told)]
    cells.append(["HARP: one for each group", *words_of(own)])
    over = ("all rows", "rows of groups with a model", "validating rows of all groups", "of groups with a model")
    header = [name for which in over for name in (f"R², {which}", "residual variance, (Mbit/s)²")]
    return Table("Goodness of fit", ["model", *header], cells)


def parted(groups: Sequence[Group]) -> tuple[list[int], list[int]]:
    """The rows of these groups that models are fitted to, and the others."""
    tested = sorted(row for group in groups for row in group["validating"])
    held = set(tested)
    return [row for group in groups for row in group["rows"] if row not in held], tested


def words_of(fitted: Sequence[tuple[float, float]]) -> list[str]:
    """R² and variance of some fits, as they are shown."""
    return [word for explains, variance in fitted for word in (f"{explains:.3f}", f"{variance:,.0f}")]


def degrees(told: Sequence[Group]) -> Table:
    """Which degree explains how many groups [HARP figure 4]."""
    counts = Counter(group["model"]["degree"] for group in told)
    rows = [[str(degree), str(counts[degree])] for degree in (2, 3, 4)]
    return Table("The lowest degree that explains a group", ["degree", "groups"], rows)


def by_class(groups: Sequence[Group], told: Sequence[Group]) -> Table:
    """Validation accuracy and parameters [HARP table 5]."""
    rows = []
    for kind in CLASSES:
        models = [group["model"] for group in told if group["class"] == kind]
        if not models:
            continue
        accuracy = [model["accuracy"] for model in models if model["accuracy"] is not None]
        rows.append(
            [
                kind,
                f"{len(models)} of {sum(group['class'] == kind for group in groups)}",
                f"{statistics.median(accuracy):.3f}",
                f"{statistics.mean(accuracy):.3f}",
                words([model["best"] for model in models]),
                words([model["relaxed"] for model in models]),
            ]
        )
    header = ["files", "groups with a model", "validation accuracy, median", "mean", "best cc/p/pp, median", "relaxed"]
    return Table("Models by class of files", header, rows)


def words(points: Sequence[Point]) -> str:
    """The medians of concurrency, parallelism and pipelining."""
    return "/".join(f"{statistics.median(values):.0f}" for values in zip(*points, strict=True))


def held_out(held: Sequence[Chosen]) -> Table:
    """What a choice after one sample gives on passes that it did not learn from."""
    rows = []
    for kind in (*CLASSES, "all"):
        found = [each for each in held if kind in (each.kind, "all")]
        if not found:
            continue
        rows.append(
            [
                kind,
                str(len(found)),
                words([each.relaxed for each in found]),
                *both([each.kept for each in found]),
                *both([each.unrelaxed for each in found]),
                *both([each.accuracy for each in found]),
                f"{statistics.median(each.streams for each in found):.2f}",
            ]
        )
    header = ["files", "passes", "chosen cc/p/pp", "share kept, median", "mean", "unrelaxed, median", "mean"]
    return Table("Held-out passes", [*header, "promise, median", "mean", "streams of unrelaxed"], rows)


def both(values: Sequence[float]) -> tuple[str, str]:
    """Median and mean, as they are shown."""
    return f"{statistics.median(values):.2f}", f"{statistics.mean(values):.2f}"

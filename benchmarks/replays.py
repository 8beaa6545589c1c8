"""Replays real logs with what `edt learn` makes of them and with the core's own search over it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edt._edt import AsmSearch
from edt.learning import Entries, Knowledge, Options
from edt.learning.clusters import partition
from edt.learning.learn import SCALES, grown, nothing
from gridftp_logs import Pass, Setting

MEASURED = Options(grid="measured")
"""In a replay only settings that were measured can be tried."""

SAMPLES = 4


@dataclass(frozen=True)
class Replayed:
    """What became of one held-out pass, after one sample, after two, and so on."""

    number: int
    known: int
    """Loads that were known."""
    accuracy: list[float]
    """Of the prediction for the next transfer: 1 - |achieved - predicted| / predicted, at least 0 [ASM eq. 21]."""
    fraction: list[float]
    """What the setting that is kept gives, of the best throughput of the pass."""
    candidates: list[int]
    """Surfaces that were left."""
    fresh: list[bool]
    """Whether the next transfer has a setting that was not sampled yet."""


def entries_of(passes: Sequence[Pass]) -> Entries:
    """The rows of passes as log entries; each pass is known to be one."""
    rows = [(each, setting, throughput) for each in passes for setting, throughput in each.rows]
    columns: dict[str, Any] = {
        "began_s": [each.began_s for each, _, _ in rows],
        "source": [each.source for each, _, _ in rows],
        "destination": [each.destination for each, _, _ in rows],
        "bandwidth": [each.bandwidth for each, _, _ in rows],
        "rtt_s": [each.rtt_s for each, _, _ in rows],
        "files": [each.files for each, _, _ in rows],
        "bytes": [each.files * each.mean_size for each, _, _ in rows],
        "transfer": [each.number for each, _, _ in rows],
        "throughput": [throughput for _, _, throughput in rows],
    }
    for index, name in enumerate(("parallelism", "concurrency", "pipelining")):
        columns[name] = [setting[index] for _, setting, _ in rows]
    return Entries.of(columns)


class Archive:
    """All passes, and the clusters that they fall into: clustering sees no throughput, so it needs no held-out pass."""

    def __init__(self, passes: Sequence[Pass], options: Options = MEASURED) -> None:
        self.passes = list(passes)
        self.options = options
        self.parts = {each.number: entries_of([each]) for each in passes}
        every = Entries.joined(self.parts.values())
        found = partition(every.features / SCALES, options.most_clusters, options.seed)
        # Each pass is one session, and they are numbered in the order in which they were joined.
        labels = dict(zip(every.session.tolist(), found.labels.tolist(), strict=True))
        self.cluster = {number: labels[index] for index, number in enumerate(self.parts)}
        self.method, self.count = found.method, int(found.labels.max()) + 1

    def knowledge(self, known: Sequence[Pass]) -> Knowledge:
        """What some passes teach."""
        clusters = []
        for label in range(self.count):
            parts = [self.parts[each.number] for each in known if self.cluster[each.number] == label]
            if parts:
                clusters.append(grown(nothing(), Entries.joined(parts), self.options))
        return Knowledge(self.options, clusters)

    def of_its_kind(self, held: Pass, known: Sequence[Pass]) -> list[Pass]:
        """The known passes of the cluster of a pass."""
        return [each for each in known if self.cluster[each.number] == self.cluster[held.number]]


def replayed(held: Pass, knowledge: Knowledge) -> Replayed:
    """Takes samples from a pass that the knowledge does not hold."""
    truth = held.throughput
    best = max(truth.values())
    content = json.dumps(knowledge.to_dict()).encode()
    known = {"bandwidth": held.bandwidth, "rtt_s": held.rtt_s, "mean_size": held.mean_size, "files": float(held.files)}
    search = AsmSearch(content, known)
    found = Replayed(held.number, len(search.loads), [], [], [], [])
    setting, seen, moved = search.best(search.surface), set[Setting](), True
    for _ in range(SAMPLES):
        seen.add(setting)
        moved = moved and search.sampled(setting, truth[setting])
        setting = search.best(search.surface)
        predicted, _ = search.predict(search.surface, setting)
        kept, _ = search.conclusion()
        found.accuracy.append(max(0.0, 1 - abs(truth[setting] - predicted) / predicted))
        found.fraction.append(truth[kept] / best)
        found.candidates.append(search.candidates)
        found.fresh.append(setting not in seen)
    return found

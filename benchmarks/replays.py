"""Replays real logs with what `edt learn` makes of them and with the core's own search over it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from edt._edt import AsmSearch
from edt.learning import Entries, Knowledge, Options
from edt.learning.clusters import partition
from edt.learning.learn import SCALES, grown, nothing
from gridftp_logs import Pass, Setting

MEASURED = Options(grid="measured")
"""In a replay only settings that were measured can be tried."""

SAMPLES = 4
"""Most samples of a search."""

First = Literal["maximum", "separating"]
"""Where a search begins: at the maximum under the median load, or where the surfaces lie furthest apart."""


@dataclass(frozen=True)
class Tried:
    """A setting, and what it gives in the held-out pass."""

    setting: Setting
    fraction: float
    """Of the best throughput of the pass."""

    @property
    def streams(self) -> int:
        """Streams that it takes."""
        parallelism, concurrency, _ = self.setting
        return parallelism * concurrency


@dataclass(frozen=True)
class Replayed:
    """What became of one held-out pass: lists are of the state after one sample, after two, and so on.

    A search ends once it has found its surface. From then on nothing changes, and what is predicted is mostly a setting
    that was sampled: there the prediction is compared with the very value that the search was ended by.
    """

    number: int
    known: int
    """Loads that were known."""
    samples: list[Tried] = field(default_factory=list)
    """All that were taken before the search ended."""
    agreement: list[float] = field(default_factory=list)
    """1 - |achieved - predicted| / predicted of the next transfer [ASM eq. 21], negative beyond twice as much."""
    fresh: list[bool] = field(default_factory=list)
    """Whether the next transfer has a setting that was not sampled."""
    others: list[float] = field(default_factory=list)
    """The median accuracy of the predictions for all settings of the pass that were not sampled."""
    kept: list[Tried] = field(default_factory=list)
    """What the search would stay with."""
    candidates: list[int] = field(default_factory=list)
    """Surfaces that were left."""

    @property
    def accuracy(self) -> list[float]:
        """The agreement, at least 0."""
        return [max(0.0, each) for each in self.agreement]

    def had_ended(self, samples: int) -> bool:
        """Whether the search had ended before it could take so many samples."""
        return len(self.samples) < samples


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

    def knowledge(self, known: Sequence[Pass]) -> dict[str, Any]:
        """The content of the knowledge file that some passes teach."""
        clusters = []
        for label in range(self.count):
            parts = [self.parts[each.number] for each in known if self.cluster[each.number] == label]
            if parts:
                clusters.append(grown(nothing(), Entries.joined(parts), self.options))
        return Knowledge(self.options, clusters).to_dict()

    def of_its_kind(self, held: Pass, known: Sequence[Pass]) -> list[Pass]:
        """The known passes of the cluster of a pass."""
        return [each for each in known if self.cluster[each.number] == self.cluster[held.number]]


def replayed(held: Pass, knowledge: dict[str, Any], first: First = "maximum", enough: float | None = None) -> Replayed:
    """Takes samples from a pass that the knowledge does not hold.

    `enough` is the share of the highest throughput from which on fewer streams are better; by default as in transfers.
    """
    truth = held.throughput
    best = max(truth.values())

    def tried(setting: Setting) -> Tried:
        return Tried(setting, truth[setting] / best)

    def agreement(setting: Setting) -> float:
        predicted, _ = search.predict(search.surface, setting)
        return 1 - abs(truth[setting] - predicted) / predicted

    known = {"bandwidth": held.bandwidth, "rtt_s": held.rtt_s, "mean_size": held.mean_size, "files": float(held.files)}
    search = AsmSearch(json.dumps(knowledge).encode(), known, enough=enough)
    cluster = knowledge["clusters"][search.cluster]
    found = Replayed(held.number, len(search.loads))
    setting, searching = begin(search, cluster, first), True
    for _ in range(SAMPLES):
        if searching:
            found.samples.append(tried(setting))
            searching = search.sampled(setting, truth[setting])
            setting = search.best(search.surface)
        sampled = {each.setting for each in found.samples}
        kept, _ = search.conclusion()
        found.agreement.append(agreement(setting))
        found.fresh.append(setting not in sampled)
        found.others.append(statistics.median(max(0.0, agreement(other)) for other in truth if other not in sampled))
        found.kept.append(tried(kept))
        found.candidates.append(search.candidates)
    return found


def begin(search: AsmSearch, cluster: dict[str, Any], first: First) -> Setting:
    """The setting of the first sample; where there is one surface alone, nothing is to be told apart."""
    if first == "separating" and cluster["separating"]:
        return setting_of(cluster["separating"][0])
    return search.best(search.surface)


def setting_of(text: Any) -> Setting:
    """Takes a setting of a knowledge file."""
    parallelism, concurrency, pipelining = text
    return parallelism, concurrency, pipelining

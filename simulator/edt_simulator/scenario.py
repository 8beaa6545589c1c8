"""The parameters of one simulated path and its two ends, in physical units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from edt_simulator._core import SCENARIO_DTYPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

PerStage = tuple[float, float, float]
"""One number each for read, network and write; a batch of one stage uses the network's alone."""

_ONES: PerStage = (1.0, 1.0, 1.0)
_NEVER = math.inf


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One path. Rates are bits a second, sizes bytes, times seconds; infinity means no limit, or never.

    The defaults are AutoMDT's read bottleneck: 1 Gbps, and 80, 160 and 200 Mbps a worker, where (13, 7, 5) is best.
    Every extension beyond the papers is off by default.
    """

    interval_s: float = 1.0
    """Time that one step simulates."""
    rtt_s: float = 0.03
    """Round-trip time; matters through `window_bytes`, `file_round_trips` and `ramp_round_trips`."""
    stream_bps: PerStage = (80e6, 160e6, 200e6)
    """Most that one worker or stream of a stage moves (the papers' TPT)."""
    capacity_bps: PerStage = (1e9, 1e9, 1e9)
    """Most that a whole stage moves (BW); the network's is shared with background and competitors."""
    window_bytes: float = math.inf
    """Window of one stream, which then carries at most a window a round trip [EDT section III]."""
    buffer_bytes: tuple[float, float] = (1e9, 1e9)
    """Whole bytes of the sender's and the receiver's buffer; three stages only."""
    chunk_bytes: float = 1e6
    """Largest task of the event queue, at least 1000; a task is (1 - U(0, 0.8)) of it. The fluid has no chunks."""
    retry_s: float = 0.01
    """The papers' epsilon, event queue only: added to each task in one stage, waited by blocked tasks in three."""
    max_concurrency: float = 100
    """Largest applied concurrency of a stage, a whole number; actions are clamped to it and to 1."""
    initial_concurrency: PerStage = _ONES
    """Concurrency before the first decision takes effect, whole numbers."""
    file_bytes: float = math.inf
    """Mean size of a file; with the next two, what small files cost."""
    file_overhead_s: PerStage = (0.0, 0.0, 0.0)
    """Time that a worker spends on each file beside moving its bytes (open, close, rename)."""
    file_round_trips: float = 0.0
    """Round trips that a stream waits for each file; 0 with infinite pipelining."""
    knee: float = 0.0
    """Half-width of the rounded corner where a stage saturates, as a share of its capacity; 0 is sharp."""
    contention: PerStage = (0.0, 0.0, 0.0)
    """A stage loaded to x times its capacity moves 1 / (1 + contention * (x - contention_onset)) of it."""
    contention_onset: float = 1.0
    """Load, as a multiple of the capacity, from which contention costs."""
    random_loss: float = 0.0
    """Share of segments lost whatever the load."""
    congestion_loss: float = 0.0
    """Share of segments lost more for each multiple of the capacity that streams ask for beyond it."""
    ramp_round_trips: float = 0.0
    """Time constant, in round trips, in which a new stream reaches its rate; 0 is at once."""
    background_bps: float = 0.0
    """Mean traffic of others on the link."""
    background_deviation_bps: float = 0.0
    """Standard deviation of that traffic (an Ornstein-Uhlenbeck process)."""
    background_correlation_s: float = 10.0
    """Time in which its deviations fade to 1/e."""
    change_s: tuple[float, float, float, float] = (_NEVER, _NEVER, _NEVER, _NEVER)
    """Ascending times of steps; each holds, from the next interval's start, until the next one."""
    change_capacity: tuple[PerStage, PerStage, PerStage, PerStage] = (_ONES, _ONES, _ONES, _ONES)
    """Factor on `capacity_bps` after each step, per stage."""
    change_stream: tuple[PerStage, PerStage, PerStage, PerStage] = (_ONES, _ONES, _ONES, _ONES)
    """Factor on `stream_bps` after each step, per stage."""
    change_period_s: float = math.inf
    """Time after which the steps begin again, before the first of which all factors are 1."""
    competitor_start_s: tuple[float, float, float] = (_NEVER, _NEVER, _NEVER)
    """When each competing transfer begins."""
    competitor_stop_s: tuple[float, float, float] = (_NEVER, _NEVER, _NEVER)
    """When each ends."""
    competitor_streams: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Streams that each keeps on the link; all streams share it evenly."""
    cliff_streams: float = math.inf
    """Streams, ours and others', beyond which the server behind the link collapses."""
    cliff_factor: float = 0.2
    """Share of the link's capacity that is left then."""
    cliff_s: float = 10.0
    """How long it stays so after the last interval beyond the cliff began."""
    noise: float = 0.0
    """Relative standard deviation of each measured rate and loss; mean one, never negative."""
    outlier_probability: float = 0.0
    """Chance that a measured value is an outlier."""
    outlier_factor: float = 0.5
    """What an outlier is multiplied with."""
    measurement_lag: float = 0.0
    """Weight of the previous measurement in the next one, as of a meter that smooths."""
    measurement_delay: float = 0
    """Whole intervals by which an observation is late; it carries the concurrency applied then."""
    decision_delay: float = 0
    """Whole intervals before an action is applied."""


def scenario_array(scenarios: Scenario | Sequence[Scenario], count: int | None = None) -> NDArray[np.void]:
    """Packs scenarios into an array of `SCENARIO_DTYPE`, [scenarios]; repeats a single one `count` times (once)."""
    if isinstance(scenarios, Scenario):
        scenarios = [scenarios] * (1 if count is None else count)
    elif count is not None and count != len(scenarios):
        raise ValueError(f"`count` is {count}, but there are {len(scenarios)} scenarios")
    names = [field.name for field in fields(Scenario)]
    rows = {id(scenario): tuple(getattr(scenario, name) for name in names) for scenario in scenarios}
    return np.array([rows[id(scenario)] for scenario in scenarios], dtype=SCENARIO_DTYPE)

"""The papers' paths, and a way to run a batch for some intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from edt_simulator import ACCOUNT, METRICS, OBSERVATION, Batch, Scenario, scenario_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

Model = Literal["fluid", "events"]
Stages = Literal[1, 3]
MODELS: tuple[Model, ...] = ("fluid", "events")
STAGES: tuple[Stages, ...] = (1, 3)

EDT_PATHS = {"NEWY-CERN": (45e9, 3e9, 15), "MICH-MASS": (35e9, 1.5e9, 23), "CloudLab": (1e9, 150e6, 7)}
"""Bandwidth, throughput of a stream, best concurrency [EDT Table I and section V]."""

AUTOMDT_BOTTLENECKS = {
    "read": ((80e6, 160e6, 200e6), (13, 7, 5), (13, 7, 5)),
    "network": ((205e6, 75e6, 195e6), (5, 14, 5), (5, 14, 6)),
    "write": ((200e6, 150e6, 70e6), (5, 7, 15), (5, 7, 15)),
}
"""Throughput of a worker per stage on a 1 Gbps path, best concurrency as printed [AutoMDT section V-B1], and exactly.

The paper rounds 1000 / 195 = 5.13 down; five writers carry 975 Mbps, and a sixth has more utility than it costs.
"""

RICH = Scenario(
    window_bytes=1e6,
    buffer_bytes=(20e6, 30e6),
    chunk_bytes=1e6,
    file_bytes=5e6,
    file_overhead_s=(0.002, 0.001, 0.003),
    file_round_trips=1,
    knee=0.1,
    contention=(0.1, 0.2, 0.3),
    random_loss=1e-3,
    congestion_loss=0.02,
    ramp_round_trips=20,
    background_bps=2e8,
    background_deviation_bps=1e8,
    change_s=(5, 10, 15, 20),
    change_capacity=((1, 0.5, 1), (0.5, 1, 1), (1, 1, 2), (1, 2, 1)),
    change_stream=((1, 1, 1), (1, 0.8, 1), (1, 1, 1), (2, 2, 2)),
    change_period_s=25,
    competitor_start_s=(3, 12, 20),
    competitor_stop_s=(8, 30, np.inf),
    competitor_streams=(4, 8, 16),
    cliff_streams=30,
    cliff_s=3,
    noise=0.1,
    outlier_probability=0.05,
    measurement_lag=0.3,
    measurement_delay=2,
    decision_delay=1,
)
"""Every extension at once."""


@dataclass
class Run:
    """What a batch answered: [intervals, environments, columns] each, columns as in the package's `layout`."""

    observations: NDArray[np.float64]
    metrics: NDArray[np.float64]
    accounts: NDArray[np.float64]
    stages: Stages

    def metric(self, name: str) -> NDArray[np.float64]:
        return np.asarray(self.metrics[..., METRICS[self.stages].index(name)])

    def observation(self, name: str) -> NDArray[np.float64]:
        return np.asarray(self.observations[..., OBSERVATION[self.stages].index(name)])


def simulate(batch: Batch, actions: NDArray[np.int32]) -> Run:
    """Steps a batch through actions [intervals, environments, stages]."""
    stages: Stages = 1 if batch.stages == 1 else 3
    shape = actions.shape[:2]
    run = Run(
        np.empty((*shape, len(OBSERVATION[stages]))),
        np.empty((*shape, len(METRICS[stages]))),
        np.empty((*shape, len(ACCOUNT))),
        stages,
    )
    for interval, action in enumerate(actions):
        batch.step(action, run.observations[interval], run.metrics[interval])
        batch.account(run.accounts[interval])
    return run


def hold(scenario: Scenario, concurrency: list[int], intervals: int, *, model: Model = "fluid", seed: int = 0) -> Run:
    """Runs one environment at a constant concurrency of one stage or three."""
    stages: Stages = 1 if len(concurrency) == 1 else 3
    batch = Batch(scenario_array(scenario), model=model, stages=stages, seed=seed)
    return simulate(batch, np.tile(np.array(concurrency, np.int32), (intervals, 1, 1)))


def random_actions(intervals: int, environments: int, stages: Stages, most: int = 20) -> NDArray[np.int32]:
    return np.random.default_rng(7).integers(1, most + 1, (intervals, environments, stages), dtype=np.int32)

"""Measures environment steps per second of both models, for one stage and three, then calls of small batches.

Two figures each: by the wall clock on all cores, and per core by CPU time, which other work on the machine does not
lower. The bars are for two cores. It takes some twelve seconds.
"""

from __future__ import annotations

import argparse
import time
from typing import Literal

import numpy as np

from edt_simulator import OBSERVATION, Batch, Scenario, scenario_array

Model = Literal["fluid", "events"]
Stages = Literal[1, 3]

BARS: dict[tuple[Model, Stages], float] = {
    ("fluid", 1): 50e6,
    ("fluid", 3): 5e6,
    ("events", 1): 250e3,
    ("events", 3): 30e3,
}
STAGES: tuple[Stages, ...] = (1, 3)
PLAIN = Scenario()
SMALL = 64
"""Environments of a small batch, as training uses them; its steps wake no thread."""
RICH = Scenario(
    knee=0.1,
    contention=(0.1, 0.2, 0.1),
    random_loss=1e-4,
    congestion_loss=0.02,
    ramp_round_trips=10,
    background_bps=1e8,
    background_deviation_bps=5e7,
    change_s=(20, 40, 60, 80),
    competitor_start_s=(10, 30, np.inf),
    competitor_streams=(4, 8, 0),
    noise=0.05,
    outlier_probability=0.01,
    measurement_delay=1,
    decision_delay=1,
)
"""Every extension at once, to show what they cost."""


def steps_per_second(
    scenario: Scenario, model: Model, stages: Stages, environments: int, seconds: float
) -> tuple[float, float]:
    """Answers steps per second of wall-clock time, and per second of CPU time."""
    batch = Batch(scenario_array(scenario, environments), model=model, stages=stages)
    actions = np.random.default_rng(0).integers(1, 21, (16, environments, stages), dtype=np.int32)
    observations = np.empty((environments, len(OBSERVATION[stages])))
    rounds = 0
    start, cpu_start = time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - start) < seconds:
        batch.step(actions[rounds % len(actions)], observations)
        rounds += 1
    steps = rounds * environments
    return steps / elapsed, steps / (time.process_time() - cpu_start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (default 1)")
    parser.add_argument("--environments", type=int, default=2048, help="in one batch (default 2048)")
    options = parser.parse_args()
    print("model   stages  scenario     steps/s  per core, CPU  bar, 2 cores")
    for (model, stages), bar in BARS.items():
        for name, scenario in (("plain", PLAIN), ("rich", RICH)):
            wall, cpu = steps_per_second(scenario, model, stages, options.environments, options.seconds)
            print(f"{model:7} {stages:6}  {name:8} {wall:11,.0f} {cpu:14,.0f} {bar:13,.0f}")
    print(f"\none call of `step` with {SMALL} environments, fluid, from Python")
    for stages in STAGES:
        for name, scenario in (("plain", PLAIN), ("rich", RICH)):
            wall, _ = steps_per_second(scenario, "fluid", stages, SMALL, options.seconds)
            print(f"{stages} stages, {name:5} {1e6 * SMALL / wall:6.1f} us")


if __name__ == "__main__":
    main()

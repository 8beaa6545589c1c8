"""Vectorised simulator of tuned data transfers: one stage [EDT Alg. 1] or three [AutoMDT Alg. 1], queued or fluid."""

from edt_simulator._core import SCENARIO_DTYPE, Batch
from edt_simulator.env import TransferVectorEnv
from edt_simulator.layout import ACCOUNT, METRICS, OBSERVATION
from edt_simulator.scenario import Scenario, scenario_array

__all__ = [
    "ACCOUNT",
    "METRICS",
    "OBSERVATION",
    "SCENARIO_DTYPE",
    "Batch",
    "Scenario",
    "TransferVectorEnv",
    "scenario_array",
]

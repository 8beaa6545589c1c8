from typing import Literal

import numpy as np
from numpy.typing import NDArray

SCENARIO_DTYPE: np.dtype[np.void]
"""One `Scenario` as the simulation reads it: every field a float64 or a small array of them."""

class Batch:
    """Environments that step together on arrays which the caller owns; seeded, and the same on any number of threads.

    All arrays are C-contiguous, of exactly the dtype and shape named, else a TypeError or ValueError says which was
    not. Columns are named in `OBSERVATION`, `METRICS` and `ACCOUNT`. Calls release the GIL; calls on one batch take
    turns.
    """

    def __init__(
        self,
        scenarios: NDArray[np.void],
        *,
        model: Literal["fluid", "events"] = "fluid",
        stages: Literal[1, 3] = 1,
        seed: int = 0,
        threads: int | None = None,
        agents: int = 1,
    ) -> None:
        """Makes one environment for each of `scenarios` (`SCENARIO_DTYPE`, [environments]).

        `threads`: at most that many step at once, None is one for each core; a step that is short uses fewer, down to
        the caller's own. `agents`: that many consecutive environments are agents on one link,
        whose network streams compete; give them the same link in their scenarios.
        """

    def __len__(self) -> int: ...
    @property
    def stages(self) -> int: ...
    @property
    def agents(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def model(self) -> str: ...
    def step(
        self,
        actions: NDArray[np.int32],
        out_observations: NDArray[np.float64] | None,
        out_metrics: NDArray[np.float64] | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> None:
        """Advances all environments by one interval, or those where `mask` ([environments]) is true; allocates nothing.

        `actions`: concurrency, [environments, stages], clamped to [1, max_concurrency]. `out_observations`:
        [environments, 3 or 9]; `out_metrics`: [environments, 5 or 13]; rows that the mask leaves out are not written.
        """

    def reset(self, mask: NDArray[np.bool_] | None = None, scenarios: NDArray[np.void] | None = None) -> None:
        """Begins new episodes, with the new scenarios where given ([environments], used where the mask is true).

        Buffers are empty, the clock is 0; random streams go on, so that episodes differ.
        """

    def reseed(self, seed: int) -> None:
        """Starts the random stream of every environment again, from `seed` and its index."""

    def observe(self, out_observations: NDArray[np.float64]) -> None:
        """Writes what controllers see now, as the last step did; after a reset, initial concurrency, no throughput."""

    def account(self, out_account: NDArray[np.float64]) -> None:
        """Writes the account of bytes since the last reset: [environments, 5]."""

"""The experiment that runs all optimizers side by side: how long its copies take, and what it reads from reports."""

from __future__ import annotations

from typing import Any

import pytest

import bench
from experiments import optimizers
from paths import End, Ends

CLOUDLAB = Ends("cloudlab", End("near"), End("far"), 1e9, 67.0, 1.5e8)


@pytest.mark.parametrize(
    ("streams", "others", "share"),
    [(4, 0, 0.6), (12, 0, 1.0), (12, 8, 0.6), (8, 32, 0.2), (1, 1, 0.15), (8, 2, 0.8), (2, 4, 0.3), (4, 4, 0.5)],
)
def test_a_stream_gets_as_much_as_another_and_no_more_than_it_can_carry(
    streams: int, others: int, share: float
) -> None:
    assert optimizers.left(streams, others, CLOUDLAB) == pytest.approx(share)


def test_without_a_rate_of_streams_one_fills_the_path() -> None:
    assert optimizers.left(1, 0, Ends("open", End("near"), End("far"), 1e9, 67.0)) == 1.0


def test_data_are_sized_in_steps_and_never_empty() -> None:
    assert [optimizers.in_steps(share) for share in (0.01, 0.3, 0.6, 1.0, 3.0)] == [0.125, 0.25, 0.625, 1.0, 1.0]


def test_the_copies_over_a_path_take_half_an_hour_at_most() -> None:
    beside_s = 2.5
    for options, minutes in ((bench.Options(quick=True), 9), (bench.Options(quick=False), 30)):
        loads = ("light", "medium") if options.quick else tuple(optimizers.LOADS)
        copies = sum(len(optimizers.runs(options, load)) for load in loads)
        parts = (
            (copies, optimizers.SECONDS[not options.quick]),
            (optimizers.PASSES * len(optimizers.HISTORY), optimizers.HISTORY_S),
            (len(optimizers.CHANGING), optimizers.CHANGING_S[not options.quick]),
        )
        assert sum(number * (each_s + beside_s) for number, each_s in parts) <= 60 * minutes, f"{copies} copies"


def test_an_interval_is_overruled_where_the_decision_in_force_was_the_guards() -> None:
    def decision(elapsed_s: float, reason: str) -> dict[str, Any]:
        return {"elapsed_s": elapsed_s, "decision": {"reason": reason}}

    report = {
        "timeline": [{"elapsed_s": float(second)} for second in (1, 2, 3, 4, 5)],
        "decisions": [
            decision(0.0, "start (guard: 4 instead of 8 streams)"),
            decision(1.01, "guard: three intervals below 80 % of what 8 streams brought: back to them"),
            decision(2.01, "guard: 8 streams deliver what they did: staying with them for a while"),
            decision(3.01, "guard: 8 streams no longer bring what they did, forgotten; 9 streams"),
            decision(4.01, "guard: throughput fell to 30 % of what fewer streams moved when 64 ran: cut"),
        ],
    }
    assert optimizers.overruled(report) == [False, True, True, False, True]

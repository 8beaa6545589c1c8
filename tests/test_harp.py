"""HARP's models as Python sees them, and how they describe the logs that were published with it."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest

import gridftp_logs
from edt._edt import HarpHistory
from experiments import logs_harp

VALUES = (1, 2, 4, 8, 16, 32)
DAY_S = 86_400.0


def one_pass(throughput: Callable[[int, int, int], float], began_s: float = 0.0) -> list[dict[str, Any]]:
    """All settings in a pass, as past transfers."""
    return [
        {
            "began_s": began_s + index,
            "source": "a",
            "destination": "b",
            "bandwidth": 1.25e9,
            "rtt_s": 0.04,
            "tcp_buffer": 32e6,
            "files": 1000,
            "bytes": 1_000_000_000,
            "concurrency": concurrency,
            "parallelism": parallelism,
            "pipelining": pipelining,
            "goodput": throughput(concurrency, parallelism, pipelining),
        }
        for index, (concurrency, parallelism, pipelining) in enumerate(
            (cc, p, pp) for cc in VALUES for p in VALUES for pp in VALUES
        )
    ]


def hill(concurrency: int, _parallelism: int, _pipelining: int) -> float:
    """400 MB/s at a concurrency of 16, whatever the rest."""
    return 1e6 * (400 - (concurrency - 16) ** 2)


def test_a_pass_is_a_group_with_a_model() -> None:
    history = HarpHistory(json.dumps(one_pass(hill)))
    (group,) = json.loads(history.groups())
    assert group["class"] == "tiny"
    assert group["rows"] == list(range(216))
    model = group["model"]
    assert (model["degree"], round(model["accuracy"], 3)) == (2, 1.0)
    assert len(set(group["validating"])) == 65
    assert set(group["validating"]) < set(group["rows"])
    assert model["best"][0] == pytest.approx(16, abs=0.01)
    # 70 % of 400 are 280: from 5.05 on.
    assert model["relaxed"] == pytest.approx([6, 1, 1])
    explained, variance = history.global_fit(2)
    assert explained == pytest.approx(1)
    assert variance < 1


def test_one_polynomial_can_be_held_to_rows_that_it_was_not_fitted_to() -> None:
    history = HarpHistory(json.dumps(one_pass(hill) + one_pass(lambda cc, p, pp: hill(cc, p, pp) / 4, DAY_S)))
    light, heavy = range(216), range(216, 432)
    assert history.global_fit(2, light)[0] == pytest.approx(1)
    assert history.global_fit(2, range(1, 216, 2), range(0, 216, 2))[0] == pytest.approx(1)
    assert history.global_fit(2, light, heavy)[0] < 0
    assert history.global_fit(2) == history.global_fit(2, range(432), range(432))
    with pytest.raises(IndexError, match="no row 432"):
        history.global_fit(2, [0, 432])


def test_outliers_count_by_the_mean_of_their_group() -> None:
    rows = [{"goodput": goodput} for goodput in (1.0, 3.0, 5.0, 7.0, 9.0)]
    groups: list[logs_harp.Group] = [
        {"rows": [0, 1], "validating": [1], "model": None},
        {"rows": [2, 3, 4], "validating": [4], "model": {"predicted": [4.0, 7.0, 9.0]}},
    ]
    assert logs_harp.everything(groups, rows) == [(1, 2), (3, 2), (5, 4), (7, 7), (9, 9)]
    assert logs_harp.validating(groups[1:], rows) == [(9, 9)]
    assert logs_harp.validating(groups, rows) == [(3, 1), (9, 9)], "an outlier by the mean of the others"
    assert logs_harp.parted(groups) == ([0, 2, 3], [1, 4])
    explained, variance = logs_harp.explained(logs_harp.everything(groups, rows))
    assert explained == pytest.approx(1 - 3 / 40)
    assert variance == pytest.approx(3 / 5 * (8 / 1e6) ** 2)


def test_a_choice_knows_nothing_of_what_is_left_out() -> None:
    history = HarpHistory(json.dumps(one_pass(hill) + one_pass(lambda cc, p, pp: hill(cc, p, pp) / 4, DAY_S)))
    both = json.loads(history.choice(0, []) or "")
    assert both["models"] == 2
    alone = json.loads(history.choice(0, range(216)) or "")
    assert (alone["models"], round(alone["throughput"])) == (1, 75_000_000)
    assert history.choice(0, range(432)) is None
    assert json.loads(history.choice(0, [], 8) or "")["best"][0] == pytest.approx(8, abs=0.01)
    with pytest.raises(IndexError, match="no row 432"):
        history.choice(432, [])


def test_what_is_no_history_is_refused() -> None:
    with pytest.raises(ValueError, match="no past transfers"):
        HarpHistory('[{"began_s": 0}]')


def test_between_settings_a_pass_is_linear_in_their_logarithms() -> None:
    truth = {(p, cc, pp): math.log2(cc) + 10 * math.log2(p) for p in VALUES for cc in VALUES for pp in VALUES}
    assert logs_harp.between(truth, (4, 2, 32)) == pytest.approx(12)
    assert logs_harp.between(truth, (6, 3, 0)) == pytest.approx(math.log2(6) + 10 * math.log2(3))
    assert logs_harp.between(truth, (32, 32, 1)) == pytest.approx(55)


@pytest.mark.skipif(gridftp_logs.missing() is not None, reason=f"there is no {gridftp_logs.missing()}")
def test_one_model_for_each_load_describes_the_published_logs() -> None:
    rows = [row for each in gridftp_logs.passes() for row in logs_harp.past_transfers(each)]
    history = HarpHistory(json.dumps(rows))
    told = [group for group in json.loads(history.groups(logs_harp.MOST_CONCURRENCY)) if group["model"]]
    explained, _ = logs_harp.pooled(told, rows)
    assert explained >= logs_harp.BARS["pooled"]
    assert logs_harp.explained(logs_harp.validating(told, rows))[0] >= logs_harp.BARS["pooled"]
    assert history.global_fit(4)[0] < 0.7
    assert history.global_fit(4, [row for group in told for row in group["rows"]])[0] < 0.7
    accuracy = [group["model"]["accuracy"] for group in told if group["model"]["accuracy"] is not None]
    assert statistics.median(accuracy) >= logs_harp.BARS["accuracy"]

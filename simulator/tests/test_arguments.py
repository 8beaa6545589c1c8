"""What may not be simulated is refused, with the name of what was wrong."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from edt_simulator import SCENARIO_DTYPE, Batch, Scenario, scenario_array


def test_the_dataclass_and_the_simulation_have_the_same_fields() -> None:
    assert [field.name for field in fields(Scenario)] == list(SCENARIO_DTYPE.names or ())


def test_an_array_of_scenarios_holds_what_they_hold() -> None:
    first, second = Scenario(rtt_s=0.1), Scenario(change_capacity=((1, 0.5, 2),) * 4)
    packed = scenario_array([first, second, first])
    assert packed.shape == (3,)
    for field in fields(Scenario):
        for index, scenario in enumerate((first, second, first)):
            np.testing.assert_array_equal(packed[index][field.name], getattr(scenario, field.name))
    with pytest.raises(ValueError, match="`count` is 2"):
        scenario_array([first], 2)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("interval_s", 0.0),
        ("stream_bps", (1e8, float("nan"), 1e8)),
        ("capacity_bps", (0.0, 1e9, 1e9)),
        ("buffer_bytes", (0.0, 1e9)),
        ("buffer_bytes", (1.5, 1e9)),
        ("max_concurrency", 0),
        ("max_concurrency", 2.5),
        ("initial_concurrency", (1, 101, 1)),
        ("random_loss", -0.1),
        ("noise", float("inf")),
        ("change_s", (2.0, 1.0, 3.0, 4.0)),
        ("measurement_delay", 9),
        ("rtt_s", float("nan")),
        ("chunk_bytes", 0),
    ],
)
def test_a_bad_scenario_is_refused_by_field(field: str, value: Any) -> None:
    scenarios = scenario_array([Scenario(), Scenario(**{field: value})])
    with pytest.raises(ValueError, match=rf"scenario 1: `{field}`"):
        Batch(scenarios)
    batch = Batch(scenario_array(Scenario(), 2))
    with pytest.raises(ValueError, match=rf"scenario 1: `{field}`"):
        batch.reset(scenarios=scenarios)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "gas"}, '`model` is "gas"'),
        ({"stages": 2}, "`stages` is 2"),
        ({"threads": 0}, "`threads` is 0"),
        ({"agents": 0}, "`agents` is 0"),
        ({"agents": 2}, "multiple of `agents`"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batch(scenario_array(Scenario(), 3), **options)


def test_no_scenario_is_no_batch() -> None:
    with pytest.raises(ValueError, match="`scenarios` is empty"):
        Batch(scenario_array([]))
    with pytest.raises(TypeError, match="`scenarios` must be a NumPy array"):
        Batch([Scenario()])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`scenarios` has dtype float64"):
        Batch(np.zeros(3))  # type: ignore[arg-type]


GOOD: dict[str, Any] = {
    "actions": np.ones((4, 1), np.int32),
    "out_observations": np.empty((4, 3)),
    "out_metrics": np.empty((4, 5)),
    "mask": np.ones(4, np.bool_),
}
FROZEN = np.empty((4, 3))
FROZEN.flags.writeable = False


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("actions", np.ones((4, 1)), TypeError, "has dtype float64, must have int32"),
        ("actions", np.ones((3, 1), np.int32), ValueError, r"has shape \(3, 1\), must have \(4, 1\)"),
        ("actions", [[1]] * 4, TypeError, "must be a NumPy array, not list"),
        ("actions", None, TypeError, "must be a NumPy array, not NoneType"),
        ("actions", np.ones((4, 2), np.int32)[:, ::2], ValueError, "must be C-contiguous"),
        ("out_observations", np.empty((4, 3), np.float32), TypeError, "has dtype float32, must have float64"),
        ("out_observations", np.empty((3, 4)).T, ValueError, "must be C-contiguous"),
        ("out_observations", FROZEN, ValueError, "must be writeable"),
        ("out_metrics", np.empty((4, 3)), ValueError, r"has shape \(4, 3\), must have \(4, 5\)"),
        ("mask", np.ones(4, np.int8), TypeError, "has dtype int8, must have bool"),
        ("mask", np.ones(5, np.bool_), ValueError, r"has shape \(5,\), must have \(4,\)"),
    ],
)
def test_bad_arrays_are_refused_by_name(name: str, value: Any, error: type[Exception], message: str) -> None:
    batch = Batch(scenario_array(Scenario(), 4))
    batch.step(**GOOD)
    with pytest.raises(error, match=f"`{name}` {message}"):
        batch.step(**{**GOOD, name: value})


def test_other_outputs_are_checked_too() -> None:
    batch = Batch(scenario_array(Scenario(), 4))
    with pytest.raises(ValueError, match="`out_account` has shape"):
        batch.account(np.empty((4, 4)))
    with pytest.raises(TypeError, match="`out_observations` must be"):
        batch.observe(None)  # type: ignore[arg-type]

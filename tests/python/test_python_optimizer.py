"""An optimizer written in Python tunes; one that fails costs nothing but the tuning."""

from __future__ import annotations

import os
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import pytest

import edt


class Steps:
    """Takes the next of its numbers at each decision."""

    name = "steps"

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.observations: list[edt.Observation] = []
        self.policy: edt.Policy | None = None

    def start(self, policy: edt.Policy) -> edt.Decision:
        self.policy = policy
        return edt.Decision.uniform(self.numbers.pop(0), "first step")

    def decide(self, observation: edt.Observation) -> edt.Decision:
        self.observations.append(observation)
        number = self.numbers.pop(0) if self.numbers else 1
        return edt.Decision(edt.PerStage.all(number), parallelism=2, reason="next step")


class Alternating:
    """Has many writers and few by turns, on a fixed number of streams."""

    def __init__(self, many: int, few: int) -> None:
        self.turns = (many, few)
        self.writers: list[tuple[int, float]] = []

    def start(self, policy: edt.Policy) -> edt.Decision:
        del policy
        return self.decision()

    def decide(self, observation: edt.Observation) -> edt.Decision:
        self.writers.append((self.turns[len(self.writers) % 2], observation.workers.write))
        return self.decision()

    def decision(self) -> edt.Decision:
        return edt.Decision(edt.PerStage(2, 2, self.turns[len(self.writers) % 2]))


class Dividing:
    """Has four streams all the time, divided among files of different sizes or not."""

    def __init__(self, *shares: edt.SizeShare) -> None:
        self.shares = shares
        self.applied: list[edt.Decision] = []

    def start(self, policy: edt.Policy) -> edt.Decision:
        del policy
        return self.decision()

    def decide(self, observation: edt.Observation) -> edt.Decision:
        self.applied.append(observation.applied)
        return self.decision()

    def decision(self) -> edt.Decision:
        return edt.Decision(edt.PerStage.all(4), reason="as ever", shares=self.shares)


class Paced:
    """Has two streams all the time, of so many bytes per second each."""

    def __init__(self, pacing: int | None) -> None:
        self.decision = edt.Decision(edt.PerStage.all(2), pacing=pacing)
        self.observations: list[edt.Observation] = []

    def start(self, policy: edt.Policy) -> edt.Decision:
        del policy
        return self.decision

    def decide(self, observation: edt.Observation) -> edt.Decision:
        self.observations.append(observation)
        return self.decision


class Failing:
    """Fails at its first decision."""

    def decide(self, observation: edt.Observation) -> edt.Decision:
        raise ArithmeticError(f"nothing is left of {observation.policy.name}")


class Answering:
    """Answers with whatever it was made with."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, observation: edt.Observation) -> edt.Decision:
        del observation
        return self.answer  # type: ignore[return-value]


def make_long(tree: Path) -> None:
    """Adds enough for several decisions: an interval that has little left to do is no observation."""
    for number in range(20):
        (tree / f"{number}").write_bytes(os.urandom(500_000))


def copy(tree: Path, target: Path, optimizer: edt.Optimizer) -> edt.Report:
    make_long(tree)
    report = edt.copy(tree, target, optimizer=optimizer, limit_rate="20MB", interval=0.05, max_streams=9)
    assert all((target / f"{number}").read_bytes() == (tree / f"{number}").read_bytes() for number in range(20))
    return report


def test_it_is_asked_with_observations_and_its_reasons_are_reported(tree: Path, target: Path) -> None:
    steps = Steps(3, 2, 5)
    report = copy(tree, target, steps)
    assert report.optimizer == "steps"
    assert steps.policy is not None
    assert (steps.policy.name, steps.policy.limit.network) == ("fair", 9)
    observation = steps.observations[0]
    assert observation.interval.total_seconds() > 0
    assert observation.throughput.write >= 0.0
    assert observation.policy == steps.policy
    reasons = [tuned.decision.reason for tuned in report.decisions]
    assert any("next step" in reason for reason in reasons)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_it_sees_the_round_trip_time_of_a_network(tree: Path, served: tuple[edt.Server, Path]) -> None:
    server, root = served
    steps = Steps(2)
    make_long(tree)
    edt.copy(tree, server.url, optimizer=steps, limit_rate="20MB", interval=0.05)
    assert (root / "0").read_bytes() == (tree / "0").read_bytes()
    rtts = [observation.rtt for observation in steps.observations if observation.rtt is not None]
    assert rtts
    assert all(timedelta(0) < rtt < timedelta(seconds=5) for rtt in rtts)


def test_an_interval_counts_the_writers_of_its_own_decision_alone(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "slow").mkdir()
    make_long(tree)
    (tree / "long").write_bytes(os.urandom(120_000_000))
    alternating = Alternating(12, 3)
    # Little buffer and slow writers: frames always wait for them. The guard lets a stage shrink to a quarter at a time,
    # and overrules after the third interval that does harm.
    with edt.serve(tmp_path / "slow", worker_rate="2MB", buffer="8MiB") as server:
        edt.copy(tree, server.url, optimizer=alternating, interval=0.5, fsync="none")
    assert (tmp_path / "slow" / "19").read_bytes() == (tree / "19").read_bytes()
    few = [writers for decided, writers in alternating.writers if decided == 3][:2]
    assert len(few) == 2
    assert max(few) <= 3.2, alternating.writers


def small_before_large(tmp_path: Path, url: str, optimizer: edt.Optimizer) -> tuple[int, edt.Report]:
    """Copies 40 small files and six large ones; tells how many small ones were there before the first large one."""
    for name, count, size in (("a-small", 40, 150_000), ("b-large", 6, 6_000_000)):
        (tmp_path / "sizes" / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (tmp_path / "sizes" / name / f"{number}").write_bytes(bytes(size))
    transfer = edt.Transfer(tmp_path / "sizes", url, optimizer=optimizer, limit_rate="20MB", interval=0.1)
    done = [event.path for event in transfer if isinstance(event, edt.FileDone)]
    assert len(done) == 46 and transfer.report is not None
    return next(number for number, path in enumerate(done) if path.startswith("b-large")), transfer.report


def test_streams_are_divided_among_files_of_different_sizes(tmp_path: Path, served: tuple[edt.Server, Path]) -> None:
    shares = (edt.SizeShare(17, 3), edt.SizeShare(22, 1, parallelism=1))
    optimizer = Dividing(*reversed(shares))
    before, report = small_before_large(tmp_path, f"{served[0].url}divided/", optimizer)
    assert before == 40
    assert {each.shares for each in optimizer.applied} == {shares}
    assert report.decisions[0].decision.shares == shares
    # Without shares the largest go first: there are more of them than streams.
    before, report = small_before_large(tmp_path, f"{served[0].url}undivided/", Dividing())
    assert before < 40
    assert report.decisions[0].decision.shares == ()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not pace")
@pytest.mark.parametrize("upwards", [True, False], ids=["upload", "download"])
def test_streams_are_sent_no_faster_than_a_decision_says(
    tmp_path: Path, served: tuple[edt.Server, Path], *, upwards: bool
) -> None:
    server, root = served
    here, there = tmp_path / "here", root / "there"
    content = os.urandom(12_000_000)
    (here if upwards else there).write_bytes(content)
    ends = (here, f"{server.url}there") if upwards else (f"{server.url}there", here)
    paced = Paced(2_000_000)
    report = edt.copy(*ends, optimizer=paced, interval=0.3, chunk_size="1MiB")
    assert here.read_bytes() == there.read_bytes() == content
    assert {observation.applied.pacing for observation in paced.observations} == {2_000_000}
    assert report.decisions[0].decision.pacing == 2_000_000
    rates = [
        (observation.throughput.network, observation.interval.total_seconds()) for observation in paced.observations
    ]
    assert len(rates) >= 3
    # One interval may have what a thread that woke late counts of the one before it.
    assert sum(rate * time for rate, time in rates[1:]) / sum(time for _, time in rates[1:]) < 5_000_000, rates


def test_an_exception_ends_the_tuning_and_not_the_data(tree: Path, target: Path) -> None:
    with pytest.warns(RuntimeWarning, match="(?s)`Failing` failed.*Traceback.*nothing is left of fair"):
        report = copy(tree, target, Failing())
    assert report.is_complete
    assert any("ArithmeticError: nothing is left of fair" in tuned.decision.reason for tuned in report.decisions)


def test_one_that_asks_to_end_the_interpreter_ends_the_tuning_with_a_warning(tree: Path, target: Path) -> None:
    class Leaving:
        def decide(self, _: edt.Observation) -> edt.Decision:
            raise SystemExit(3)

    with pytest.warns(RuntimeWarning, match="`Leaving` failed"):
        assert copy(tree, target, Leaving()).is_complete


def test_a_reason_may_hold_what_is_no_text(tree: Path, target: Path) -> None:
    report = copy(tree, target, Answering(edt.Decision(edt.PerStage.all(2), reason="like \udcff")))
    assert report.is_complete
    assert report.decisions[-1].decision.reason == "like ?"


def test_a_failing_start_ends_the_tuning_and_not_the_data(tree: Path, target: Path) -> None:
    with pytest.warns(RuntimeWarning, match="pop from empty list"):
        assert copy(tree, target, Steps()).is_complete


def divided(*shares: object) -> edt.Decision:
    """A decision with these shares, sound or not."""
    return edt.Decision(edt.PerStage.all(2), shares=shares)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "not with `None`"),
        (edt.Decision.uniform(-1), "no negative numbers"),
        (edt.Decision.uniform(1.5), "float"),  # type: ignore[arg-type]
        (divided(edt.SizeShare(64, 1)), "from 0 to 63, and not 64"),
        (divided(edt.SizeShare(-1, 1)), "from 0 to 63, and not -1"),
        (divided(edt.SizeShare(3, -2)), "no negative numbers"),
        (divided(edt.SizeShare(3, 1), edt.SizeShare(3, 2)), "begin at files of the same size"),
        (divided((3, 1)), "`edt.SizeShare`, which"),
        (edt.Decision(edt.PerStage.all(2), pacing=0), "at least 1 byte per second"),
    ],
)
def test_an_answer_that_is_no_decision_is_explained(tree: Path, target: Path, answer: object, message: str) -> None:
    with pytest.warns(RuntimeWarning, match=message):
        assert copy(tree, target, Answering(answer)).is_complete


def test_warnings_as_errors_do_not_hurt_the_data(tree: Path, target: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copy(tree, target, Failing()).is_complete


def test_more_than_the_policy_allows_is_cut(tree: Path, target: Path) -> None:
    report = copy(tree, target, Answering(edt.Decision.uniform(10**9)))
    assert all(tuned.decision.concurrency.network <= 9 for tuned in report.decisions)


def test_integers_of_numpy_are_integers(tree: Path, target: Path) -> None:
    numpy = pytest.importorskip("numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = copy(tree, target, Answering(edt.Decision.uniform(numpy.int64(3), "of numpy")))
    assert any("of numpy" in tuned.decision.reason for tuned in report.decisions)


def test_stages_are_mapped_one_by_one() -> None:
    assert edt.PerStage(1, 2, 3).map(lambda value: value * 1.5) == edt.PerStage(1.5, 3.0, 4.5)

"""What an optimizer gets and gives; an optimizer may be written in Python."""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from operator import index
from typing import Any, Generic, Literal, Protocol, TypeVar

T = TypeVar("T")
U = TypeVar("U")

# The core's number for "no limit", which is None here.
_NO_LIMIT = 65535

# More bytes per second than that are no pacing.
_NO_PACING = 2**64 - 1

# A size has so many bits, and the exponents of sizes are below that.
_EXPONENTS = 64


@dataclass(frozen=True)
class PerStage(Generic[T]):
    """One value for each stage."""

    read: T
    """The read stage, at the source."""
    network: T
    """The network stage: streams."""
    write: T
    """The write stage, at the destination."""

    @classmethod
    def all(cls, value: T) -> PerStage[T]:
        """Gives all three stages the same value."""
        return cls(value, value, value)

    def map(self, function: Callable[[T], U]) -> PerStage[U]:
        """Applies a function to each value."""
        return PerStage(function(self.read), function(self.network), function(self.write))


@dataclass(frozen=True)
class SizeShare:
    """The streams that are to be at files of some sizes."""

    exponent: int
    """Files of 2^`exponent` bytes and more belong to it, but for those of the next share. The first share has all that
    are smaller too."""
    streams: int
    """How many streams; where there are more or fewer in all, as many of them as this is of all shares."""
    parallelism: int | None = None
    """Chunks of one file in flight at once, if the decision has no lower limit; `None` for no limit."""


@dataclass(frozen=True)
class Decision:
    """What an optimizer answers."""

    concurrency: PerStage[int]
    """Workers of each stage; for the network stage, streams. The engine keeps them within the policy."""
    parallelism: int | None = None
    """Chunks of one file in flight at once; `None` for no limit."""
    pipelining: int | None = None
    """Chunks a stream may have unacknowledged; `None` for no limit."""
    reason: str = ""
    """Why, for people."""
    shares: tuple[SizeShare, ...] = ()
    """How streams are divided among files of different sizes, smallest first.

    Empty, as with most optimizers: each stream takes what is next. What was listed of each size is in
    `Observation.listed`. A share without work leaves its streams to the others.
    """
    pacing: int | None = None
    """Most bytes per second at which the system sends each stream, without bursts.

    `None`, as with most optimizers: as fast as TCP finds right. Only Linux paces; elsewhere it says nothing.
    """

    @classmethod
    def uniform(cls, concurrency: int, reason: str = "") -> Decision:
        """Gives all stages the same concurrency, without limits on parallelism and pipelining."""
        return cls(PerStage.all(concurrency), reason=reason)


@dataclass(frozen=True)
class Buffers:
    """Free and total bytes of the buffers between the stages."""

    sender: int
    """Free bytes between read and network, at the sender."""
    receiver: int
    """Free bytes between network and write, at the receiver."""
    sender_capacity: int
    """Size of the sender's buffer."""
    receiver_capacity: int
    """Size of the receiver's buffer."""


@dataclass(frozen=True)
class SizeClass:
    """Files whose sizes have the same power of two."""

    exponent: int
    """Files of 2^`exponent` bytes and more, and of less than twice that; empty files are of class 0."""
    files: int
    """How many."""
    bytes: int
    """Their bytes."""


@dataclass(frozen=True)
class Listed:
    """The files to be sent that were listed so far, in classes by size."""

    classes: tuple[SizeClass, ...]
    """The classes that have any file, smallest first."""
    complete: bool
    """Whether these are all files of the transfer."""

    @property
    def files(self) -> int:
        """All files."""
        return sum(each.files for each in self.classes)

    @property
    def bytes(self) -> int:
        """Their bytes."""
        return sum(each.bytes for each in self.classes)


@dataclass(frozen=True)
class Policy:
    """The numbers behind a policy: what limits a transfer."""

    name: Literal["fair", "high", "low", "fixed"]
    """The user's word for it."""
    k: float
    """K of the utility: the gain that a further stream must bring [Falcon eq. 4]."""
    loss_weight: float
    """B of the utility: the weight of loss [Falcon eq. 4]."""
    limit: PerStage[int]
    """Most workers of each stage."""
    parallelism: int
    """Most chunks of one file in flight; 65535 for no limit."""
    pipelining: int
    """Most chunks that a stream may have unacknowledged; 65535 for no limit."""


@dataclass(frozen=True)
class Observation:
    """What was observed during one interval, all of it but `loss_before` after the last decision had taken effect."""

    elapsed: timedelta
    """Time since the transfer began, at the end of the interval."""
    interval: timedelta
    """Length of the interval."""
    applied: Decision
    """What was in effect during the interval, as measured: never what was merely requested."""
    workers: PerStage[float]
    """Time-averaged workers of each stage; `applied` has them rounded."""
    throughput: PerStage[float]
    """Bytes per second out of each stage."""
    busy: PerStage[float]
    """Share of their time, 0 to 1, that the workers of each stage spent working rather than waiting."""
    rtt: timedelta | None
    """Smoothed round trip time, averaged over streams; `None` where the system does not tell."""
    loss: float | None
    """Retransmitted share of the segments sent; `None` where the system does not tell."""
    loss_before: float | None
    """The same of the time between the last decision and the interval, in which new streams find their windows; `None`
    also where nothing was sent then."""
    buffer_free: Buffers
    """Free bytes of the buffers at both ends."""
    bytes_left: int | None
    """Bytes not yet sent; `None` while listing goes on."""
    files_left: int | None
    """Files not yet sent; `None` while listing goes on."""
    listed: Listed
    """The files to be sent that were listed so far, by size."""
    held_back: bool
    """Whether a rate that other transfers of this host share, or its change, is what limited."""
    cpu_bound: bool
    """Whether this program kept the processors of its host busy; never in Python, where other work does so too."""
    policy: Policy
    """What limits this transfer."""


class Optimizer(Protocol):
    """Decides the concurrency of each stage from what was observed since the last decision.

    It may also have `start(policy: Policy) -> Decision`, the decision to start with (4 streams without it), and a
    `name` for the report (its class's without it). It is called from a thread of the transfer, one call at a time, with
    the GIL held. An exception ends the tuning, never the transfer, and is shown as a `RuntimeWarning` with its
    traceback.
    """

    def decide(self, observation: Observation, /) -> Decision:
        """Answers an observation with the next decision."""
        ...


class Adapter:
    """Stands between the core, which speaks JSON here, and an optimizer written in Python."""

    def __init__(self, optimizer: Optimizer) -> None:
        if not callable(getattr(optimizer, "decide", None)):
            raise TypeError(f"an optimizer is a name or has a method `decide`, which `{optimizer!r}` has not")
        self.name: str = str(getattr(optimizer, "name", type(optimizer).__name__))
        self._optimizer = optimizer

    def start(self, policy: str) -> str | None:
        """Asks for the decision to start with; `None` leaves it to the caller."""
        start = getattr(self._optimizer, "start", None)
        return None if start is None else self._ask(start, policy_of(json.loads(policy)))

    def decide(self, observation: str) -> str:
        """Asks for the next decision."""
        return self._ask(self._optimizer.decide, _observation_of(json.loads(observation)))

    def _ask(self, ask: Callable[[Any], Decision], argument: object) -> str:
        try:
            return _decision_json(ask(argument))
        except BaseException:  # also one that asks to end the interpreter: it would only end the tuning, unheard
            text = f"the optimizer `{self.name}` failed; the transfer goes on without tuning\n{traceback.format_exc()}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            raise


def decision_of(data: dict[str, Any]) -> Decision:
    """Takes a decision from JSON."""
    return Decision(
        PerStage(**data["concurrency"]),
        _limit_of(data["parallelism"]),
        _limit_of(data["pipelining"]),
        data["reason"],
        # The core leaves them out where there are none.
        tuple(_share_of(each) for each in data.get("shares", ())),
        data.get("pacing"),
    )


def policy_of(data: dict[str, Any]) -> Policy:
    """Takes a policy from JSON."""
    return Policy(**{**data, "limit": PerStage(**data["limit"])})


def _observation_of(data: dict[str, Any]) -> Observation:
    return Observation(
        **{
            **data,
            "elapsed": _duration_of(data["elapsed"]),
            "interval": _duration_of(data["interval"]),
            "applied": decision_of(data["applied"]),
            "workers": PerStage(**data["workers"]),
            "throughput": PerStage(**data["throughput"]),
            "busy": PerStage(**data["busy"]),
            "rtt": None if data["rtt"] is None else _duration_of(data["rtt"]),
            "buffer_free": Buffers(**data["buffer_free"]),
            "listed": _listed_of(data["listed"]),
            "policy": policy_of(data["policy"]),
        }
    )


def _listed_of(data: dict[str, Any]) -> Listed:
    return Listed(tuple(SizeClass(**each) for each in data["classes"]), data["complete"])


def _share_of(data: dict[str, int]) -> SizeShare:
    return SizeShare(data["exponent"], data["streams"], _limit_of(data["parallelism"]))


def _duration_of(data: dict[str, int]) -> timedelta:
    return timedelta(seconds=data["secs"], microseconds=data["nanos"] / 1000)


def _limit_of(number: int) -> int | None:
    return None if number >= _NO_LIMIT else number


def _decision_json(decision: Decision) -> str:
    if not isinstance(decision, Decision):
        raise TypeError(f"an optimizer answers with an `edt.Decision`, not with `{decision!r}`")
    return json.dumps(
        {
            "concurrency": asdict(decision.concurrency.map(_count)),
            "parallelism": _count(decision.parallelism),
            "pipelining": _count(decision.pipelining),
            "shares": _shares_json(decision.shares),
            "pacing": _pacing_json(decision.pacing),
            # Text from a file's name may hold what JSON cannot.
            "reason": str(decision.reason).encode(errors="replace").decode(),
        }
    )


def _shares_json(shares: tuple[SizeShare, ...]) -> list[dict[str, int]]:
    """Shares as the core takes them: smallest sizes first, and no two that begin at the same size."""
    each = sorted(((_exponent(share), share) for share in shares), key=lambda pair: pair[0])
    if len({exponent for exponent, _ in each}) < len(each):
        raise ValueError("two shares of a decision begin at files of the same size")
    return [
        {"exponent": exponent, "streams": _count(share.streams), "parallelism": _count(share.parallelism)}
        for exponent, share in each
    ]


def _exponent(share: SizeShare) -> int:
    if not isinstance(share, SizeShare):
        raise TypeError(f"the shares of a decision are of `edt.SizeShare`, which `{share!r}` is not")
    exponent = index(share.exponent)
    if not 0 <= exponent < _EXPONENTS:
        raise ValueError(f"the exponent of a share is from 0 to {_EXPONENTS - 1}, and not {exponent}")
    return exponent


def _pacing_json(pacing: int | None) -> int | None:
    if pacing is None:
        return None
    rate = index(pacing)
    if rate < 1:
        raise ValueError(f"the pacing of a decision is at least 1 byte per second, or `None`, and not {rate}")
    return min(rate, _NO_PACING)


def _count(value: int | None) -> int:
    # `index` takes the integers of numpy too, and no fractions.
    count = _NO_LIMIT if value is None else index(value)
    if count < 0:
        raise ValueError(f"a decision holds no negative numbers, such as {count}")
    return min(count, _NO_LIMIT)

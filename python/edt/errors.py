"""The exceptions: one class for each kind of failure, each also the built-in exception that it refines."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from edt.report import Report


class Error(Exception):
    """What edt raises. `str()` shows what failed and the cause, and the hint on a line of its own."""

    kind: ClassVar[str] = "io"
    """The name of the kind in JSON events and reports, for example `not-found`."""
    number: ClassVar[int | None] = None
    """What `errno` says in the kinds that are an `OSError`."""
    what: str
    """What could not be done, and where."""
    cause: str | None
    """Why, if known."""
    hint: str | None
    """What to do about it, if known."""

    def __init__(self, what: str, *, cause: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.hint = hint
        raised: Exception = self
        if isinstance(raised, OSError):
            raised.errno = self.number

    def __str__(self) -> str:
        text = self.what if self.cause is None else f"{self.what}: {self.cause}"
        return text if self.hint is None else f"{text}\nhint: {self.hint}"


class NotFoundError(Error, FileNotFoundError):
    """The named file or directory does not exist."""

    kind = "not-found"
    number = errno.ENOENT


class PermissionDeniedError(Error, PermissionError):
    """The operating system or the store denies this user the access."""

    kind = "permission-denied"
    number = errno.EACCES


class AlreadyExistsError(Error, FileExistsError):
    """Something that must not be replaced stands where the file should go."""

    kind = "already-exists"
    number = errno.EEXIST


class WrongTypeError(Error, OSError):
    """The name leads to a directory where a file is needed, or the other way round."""

    kind = "wrong-type"


class NoSpaceError(Error, OSError):
    """The device or the quota is full."""

    kind = "no-space"
    number = errno.ENOSPC


class InvalidInputError(Error, ValueError):
    """An argument, option, URL or name cannot be used."""

    kind = "invalid-input"


class UnsupportedError(Error, OSError):
    """The store or the peer cannot do what was asked."""

    kind = "unsupported"
    number = errno.ENOTSUP


class RefusedError(Error, PermissionError):
    """The peer refuses this caller: wrong secret, unknown identity, read-only root."""

    kind = "refused"
    number = errno.EPERM


class UnreachableError(Error, ConnectionError):
    """No connection to the peer can be made."""

    kind = "unreachable"


class ConnectionLostError(Error, ConnectionError):
    """An established connection broke or fell silent."""

    kind = "connection-lost"


class CorruptedError(Error, OSError):
    """Bytes differ from their digest."""

    kind = "corrupted"


class SourceChangedError(Error, OSError):
    """The source file changed while or since it was read."""

    kind = "source-changed"


class ProtocolError(Error, ConnectionError):
    """The peer broke the wire protocol."""

    kind = "protocol"


class ThrottledError(Error, OSError):
    """The store asks for fewer requests."""

    kind = "throttled"


class CancelledError(Error):
    """The caller cancelled the transfer; the same call again resumes it."""

    kind = "cancelled"


class OptimizerError(Error, RuntimeError):
    """An optimizer failed; only the tuning ends."""

    kind = "optimizer"


class IoError(Error, OSError):
    """Any other failure of storage or operating system."""

    kind = "io"


class TransferFailed(Error):
    """Some items failed; all others are there and verified."""

    kind = "failed"
    report: Report
    """The whole account; its `failures` say what failed."""

    def __init__(self, report: Report) -> None:
        totals = report.totals
        items = totals.files_done + totals.files_skipped + totals.others_done + totals.failed
        first = report.failures[0] if report.failures else None
        super().__init__(
            f"could not copy {totals.failed} of {items} items from `{report.source}` to `{report.destination}`",
            cause=None if first is None else f"first {first}",
            hint=(first and first.hint) or "see `.report.failures`; the same call again sends what is missing",
        )
        self.report = report

    def __reduce__(self) -> tuple[type[TransferFailed], tuple[Report]]:
        return TransferFailed, (self.report,)


_KINDS: dict[str, type[Error]] = {
    error.kind: error
    for error in (
        NotFoundError,
        PermissionDeniedError,
        AlreadyExistsError,
        WrongTypeError,
        NoSpaceError,
        InvalidInputError,
        UnsupportedError,
        RefusedError,
        UnreachableError,
        ConnectionLostError,
        CorruptedError,
        SourceChangedError,
        ProtocolError,
        ThrottledError,
        CancelledError,
        OptimizerError,
        IoError,
    )
}


def of_kind(kind: str, what: str, cause: str | None, hint: str | None) -> Error:
    """Makes the exception of a kind; an unknown kind is an `IoError`."""
    return _KINDS.get(kind, IoError)(what, cause=cause, hint=hint)

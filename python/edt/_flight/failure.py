"""Errors of PyArrow as those of edt."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from edt.errors import (
    AlreadyExistsError,
    CancelledError,
    ConnectionLostError,
    Error,
    InvalidInputError,
    IoError,
    NotFoundError,
    PermissionDeniedError,
    RefusedError,
    UnreachableError,
    UnsupportedError,
    of_kind,
)

_KINDS: tuple[tuple[type[BaseException], type[Error]], ...] = (
    (flight.FlightUnauthenticatedError, RefusedError),
    (flight.FlightUnauthorizedError, PermissionDeniedError),
    (flight.FlightUnavailableError, UnreachableError),
    (flight.FlightTimedOutError, ConnectionLostError),
    (flight.FlightCancelledError, CancelledError),
    (pa.ArrowCancelled, CancelledError),
    (pa.ArrowKeyError, NotFoundError),
    (pa.ArrowNotImplementedError, UnsupportedError),
    (pa.ArrowInvalid, InvalidInputError),
    (pa.ArrowTypeError, InvalidInputError),
    (FileNotFoundError, NotFoundError),
    (FileExistsError, AlreadyExistsError),
)
"""The first that fits counts."""

_AROUND = re.compile(
    r"^(?:(?:Flight|gRPC) returned .*? error, with message: )?(?P<said>.*?)"
    r"(?:\. gRPC client debug context: .*)?(?:\. Detail: .*)?(?:\. Client context: .*)?$",
    re.DOTALL,
)
"""What a service said, without what the libraries on the way put around it."""


_KIND = "edt-error"
"""The header by which edt's service names the kind of an error."""

_named = threading.local()
"""The kind that the last call of this thread was told."""


class Kinds(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    """Makes a client note the kind of an error, which says more than the code of the call."""

    def start_call(self, _info: Any) -> _Kind:
        return _Kind()


class _Kind(flight.ClientMiddleware):  # type: ignore[misc]
    def received_headers(self, headers: dict[str, list[str]]) -> None:
        for kind in headers.get(_KIND, []):
            _named.kind = kind


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Raises errors of PyArrow as edt's: `what` was being done."""
    _named.kind = None
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        if isinstance(cause, Error):
            raise
        raise of(cause, what) from cause


def of(cause: BaseException, what: str) -> Error:
    """The error of edt for one of PyArrow. edt's service tells what failed itself, with its cause and a hint."""
    kind = next((error for known, error in _KINDS if isinstance(cause, known)), IoError)
    found = _AROUND.match(str(cause))
    said, _, hint = (found["said"] if found else str(cause)).partition("\nhint: ")
    first, is_own, source = said.partition("\nsource: ")
    if _named.kind:
        return of_kind(_named.kind, first, source or None, hint or None)
    if is_own or first.startswith("could not "):
        return kind(first, cause=source or None, hint=hint or None)
    return kind(what, cause=said.strip(" .") or type(cause).__name__, hint=hint or None)

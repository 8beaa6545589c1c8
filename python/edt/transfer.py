"""A transfer from one endpoint to another: start reading here."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from edt import _edt
from edt._progress import watching
from edt.errors import Error, InvalidInputError, TransferFailed
from edt.events import Event, event_of
from edt.optimizer import Adapter, Optimizer
from edt.options import Path, TransferOptions, endpoint_text
from edt.report import Report, report_of

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Progress: TypeAlias = bool | Callable[[Event], object] | None
"""`True` shows a bar in terminals and notebooks; a function takes the events; anything else shows nothing. A function
that is slower than thousands of small files misses some: `Report.manifest` has them all."""

_RESUME = "interrupted; the same call again goes on where it was"


def copy(
    source: Path | Sequence[Path],
    destination: Path,
    *,
    optimizer: str | Optimizer = "auto",
    progress: Progress = None,
    **options: Unpack[TransferOptions],
) -> Report:
    """Copies a file to a file, or a directory's content into a directory.

    What an earlier attempt brought is not sent again. Ctrl-C ends it cleanly, with a `KeyboardInterrupt` that says how
    to resume. The GIL is free while bytes move.

    Args:
        source: A path or URL; or several of one store, which go into the destination directory under their own names.
        destination: A path or URL.
        optimizer: A name of `edt.OPTIMIZERS`, or an object of your own; see `edt.Optimizer`.
        progress: `True` for a bar, or a function that takes each `edt.Event` that it is fast enough for
            (`Report.manifest` names every file); what it raises ends the transfer.
        **options: See `edt.TransferOptions`.

    Raises:
        TransferFailed: Some items failed; all others are there. Its `report` lists them.
        Error: The transfer as a whole ended early, for example as `NotFoundError` or `UnreachableError`.
    """
    report = Transfer(source, destination, optimizer=optimizer, **options).run(progress=progress)
    if not report.is_complete:
        raise TransferFailed(report)
    return report


class Transfer:
    """What to move, and how. Every start moves what is missing then."""

    def __init__(
        self,
        source: Path | Sequence[Path],
        destination: Path,
        *,
        optimizer: str | Optimizer = "auto",
        **options: Unpack[TransferOptions],
    ) -> None:
        """Takes the arguments of `edt.copy`; mistakes in paths and options show at the start."""
        sources = [source] if isinstance(source, (str, os.PathLike)) else source
        self._sources = [endpoint_text(path) for path in sources]
        self._destination = endpoint_text(destination)
        self._options: dict[str, Any] = {**options}
        self._adapter: Adapter | None = None
        if isinstance(optimizer, str):
            self._options["optimizer"] = optimizer
        else:
            self._adapter = Adapter(optimizer)
        self.report: Report | None = None
        """The report of the last run that came to its end."""

    def start(self) -> TransferHandle:
        """Starts on threads of the core; options, endpoints, secrets and connections that cannot work raise at once."""
        if not self._sources:
            raise InvalidInputError("could not start the transfer", cause="it has no source", hint="name at least one")
        return TransferHandle(_edt.start(self._sources, self._destination, self._options, self._adapter))

    def run(self, *, progress: Progress = None) -> Report:
        """Runs to the end. Items that failed are in the report; an `Error` says that the transfer ended early."""
        with self.start() as handle, watching(progress) as watch:
            for event in handle:
                watch(event)
            self.report = handle.join()
        return self.report

    async def run_async(self, *, progress: Progress = None) -> Report:
        """Runs to the end, with `progress` called in the event loop. Cancelling the task cancels the transfer."""
        handle = await asyncio.to_thread(self.start)
        try:
            with watching(progress) as watch:
                async for event in handle:
                    watch(event)
            self.report = await asyncio.to_thread(handle.join)
        except BaseException:
            handle.cancel()
            with suppress(Error):
                await asyncio.to_thread(handle.join)
            raise
        return self.report

    def __iter__(self) -> Iterator[Event]:
        """Runs and yields the events; then `report` is there. Leaving the loop early cancels the transfer."""
        with self.start() as handle:
            yield from handle
            self.report = handle.join()


class TransferHandle:
    """A running transfer, from `Transfer.start`. Dropping it, or leaving its `with` block by an exception, cancels.

    The end of the block joins, unless `join` has told the error before.
    """

    def __init__(self, native: _edt.Handle) -> None:
        self._native = native
        self._joining = threading.Lock()
        self._outcome: Report | Error | None = None
        self._has_raised = False

    def __iter__(self) -> Iterator[Event]:
        """Yields the events as they come. Each goes to one taker only; ends when the transfer does."""
        while batch := self._native.next_events():
            yield from map(event_of, batch)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yields the events as they come, without blocking the event loop."""
        while batch := await asyncio.to_thread(self._native.next_events):
            for text in batch:
                yield event_of(text)

    def cancel(self) -> None:
        """Asks the transfer to stop; what was verified is kept for resuming, and `join` raises `CancelledError`."""
        self._native.cancel()

    def join(self) -> Report:
        """Waits for the end and gives the report, any number of times; events that nobody took are dropped."""
        with self._joining:
            if self._outcome is None:
                while self._native.next_events():
                    pass
                try:
                    self._outcome = report_of(self._native.join())
                except Error as error:
                    self._outcome = error
        if isinstance(self._outcome, Error):
            self._has_raised = True
            # Each raise would add to the trace of the one before.
            raise self._outcome.with_traceback(None)
        return self._outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            # What `join` raised in the block was dealt with there.
            if not self._has_raised:
                self.join()
            return
        self.cancel()
        with suppress(Error):
            self.join()
        if isinstance(value, KeyboardInterrupt) and not value.args:
            value.args = (_RESUME,)

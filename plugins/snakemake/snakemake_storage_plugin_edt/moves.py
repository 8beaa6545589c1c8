"""Transfers of edt as the plugin runs them: attempts, progress in the log, and what became of each name."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_storage_plugin_edt.batches import Request
from snakemake_storage_plugin_edt.per_process import PerProcess

if TYPE_CHECKING:
    import edt

# Seconds before the second attempt; doubled for each further one.
_FIRST_WAIT = 1.0

_running: PerProcess[weakref.WeakSet[edt.TransferHandle]] = PerProcess(weakref.WeakSet)


class MoveError(Exception):
    """An object that could not be moved: after which attempt, and why."""


class Abandoned(MoveError):
    """Nobody waits for the objects of this batch any more; what arrived is kept for the next attempt."""


@dataclass
class Moved:
    """What became of the names of a batch."""

    failed: dict[str, MoveError] = field(default_factory=dict)
    """Why each name that failed did."""
    digests: dict[str, str] = field(default_factory=dict)
    """BLAKE3 of the files that are there, as far as they were asked for."""


@dataclass(frozen=True)
class Mover:
    """Runs transfers with the settings of a provider."""

    options: Mapping[str, Any]
    """How edt reaches the storage, and limits of a transfer."""
    retries: int
    """Further attempts after one that broke off."""
    progress: float
    """Seconds between lines of progress; 0 for none."""
    logger: Logger

    def move(
        self, source: str | Path, destination: str | Path, requests: Mapping[str, Sequence[Request]], **options: Any
    ) -> Moved:
        """Moves names below a directory, as often as the settings allow; the name `""` stands for the source itself."""
        import edt

        passing = (
            *(edt.UnreachableError, edt.ConnectionLostError, edt.ThrottledError),
            *(edt.CorruptedError, edt.SourceChangedError, edt.ProtocolError),
        )
        moved, left, attempts = Moved(), list(requests), self.retries + 1
        for attempt in range(1, attempts + 1):
            errors = self._attempt(source, destination, {name: requests[name] for name in left}, options, moved)
            left = [name for name, error in errors.items() if isinstance(error, passing)]
            for name, error in errors.items():
                if attempt == attempts or name not in left:
                    moved.failed[name] = MoveError(f"attempt {attempt} of {attempts}: {error}")
            if not left or attempt == attempts:
                break
            self.logger.warning(f"edt: attempt {attempt} of {attempts} broke off: {errors[left[0]]}")
            _wait(_FIRST_WAIT * 2 ** (attempt - 1), requests)
        return moved

    def _attempt(
        self,
        source: str | Path,
        destination: str | Path,
        requests: Mapping[str, Sequence[Request]],
        options: Mapping[str, Any],
        moved: Moved,
    ) -> dict[str, edt.Error]:
        """Moves what is left; answers with the errors of names, and notes the digests of the others."""
        import edt

        chosen: dict[str, Any] = {} if list(requests) == [""] else {"files": list(requests)}
        transfer = edt.Transfer(source, destination, **self.options, **chosen, **options)
        try:
            report = self._watched(transfer, requests)
            self.logger.info(f"edt: {_told(report)}")
        except edt.CancelledError as error:
            raise Abandoned("it was cancelled; the next attempt goes on where it was") from error
        except edt.Error as error:
            return dict.fromkeys(requests, error)
        if options.get("digest") == "blake3":
            moved.digests.update((entry.path, entry.blake3) for entry in report.manifest() if entry.blake3)
        return _errors(report, requests)

    def _watched(self, transfer: edt.Transfer, requests: Mapping[str, Sequence[Request]]) -> edt.Report:
        import edt

        line = _Line(self.logger, self.progress)
        handle = transfer.start()
        _running.own.add(handle)
        for event in handle:
            if isinstance(event, edt.Planned):
                line.planned = event
            elif isinstance(event, edt.Sampled):
                line.tell(event)
                if _abandoned(requests):
                    handle.cancel()
        return handle.join()


@dataclass
class _Line:
    """A line of progress now and then."""

    logger: Logger
    every: float
    planned: edt.Planned | None = None
    last: float = 0.0

    def tell(self, sampled: edt.Sampled) -> None:
        totals = sampled.totals
        if not self.every or totals.elapsed_s - self.last < self.every:
            return
        self.last = totals.elapsed_s
        files, volume = totals.files_done + totals.files_skipped, totals.bytes_verified + totals.bytes_resumed
        of_files = f" of {self.planned.items}" if self.planned and self.planned.complete else ""
        of_bytes = f" of {self.planned.bytes / 1e9:.1f}" if self.planned and self.planned.complete else ""
        rate, streams = sampled.throughput.network * 8 / 1e9, round(sampled.concurrency.network)
        self.logger.info(
            f"edt: {files}{of_files} files, {volume / 1e9:.1f}{of_bytes} GB, {rate:.2f} Gbit/s, {streams} streams"
        )


def _told(report: edt.Report) -> str:
    """The summary of a report without how it was tuned, in one line."""
    lines = report.summary.splitlines()
    return "; ".join(line for line in lines if not line.startswith(("streams ", "limited by", "how it went", "hint: ")))


def _errors(report: edt.Report, names: Mapping[str, Any]) -> dict[str, edt.Error]:
    """The first error of each name: its own, or that of something below it."""
    from edt.errors import of_kind

    errors: dict[str, edt.Error] = {}
    told = 0
    for failure in report.failures:
        name = failure.path
        while name and name not in names:
            name = name.rpartition("/")[0]
        told += name in names
        if name in names and name not in errors:
            what = failure.what if name == failure.path else f"{failure.path}: {failure.what}"
            errors[name] = of_kind(failure.kind, what, failure.cause, failure.hint)
    if report.totals.failed > told:
        # Nobody knows which: none of them may pass for complete.
        what = f"{report.totals.failed - told} more items of the batch failed"
        errors = {name: errors.get(name) or of_kind("io", what, None, None) for name in names}
    return errors


def _abandoned(requests: Mapping[str, Sequence[Request]]) -> bool:
    return all(request.cancelled.is_set() for several in requests.values() for request in several)


def _wait(seconds: float, requests: Mapping[str, Sequence[Request]]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if _abandoned(requests):
            raise Abandoned("it was cancelled; the next attempt goes on where it was")
        time.sleep(0.05)


@atexit.register
def _end() -> None:
    """Ends what still runs when the process does, so that it is kept for the next attempt."""
    for handle in list(_running.own):
        handle.cancel()
    for thread in threading.enumerate():
        if thread.name.startswith("edt-") and thread is not threading.current_thread():
            thread.join(timeout=5)

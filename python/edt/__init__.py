"""Elastic Data Transfer: moves trees of files between endpoints and tunes itself while it does.

An endpoint is a local path, `edt://host[:port]/path` (an `edt serve` process), `null:` or `zero:SIZE`.
"""

from edt import flight
from edt._edt import OPTIMIZERS, __version__
from edt.errors import (
    AlreadyExistsError,
    CancelledError,
    ConnectionLostError,
    CorruptedError,
    Error,
    InvalidInputError,
    IoError,
    NoSpaceError,
    NotFoundError,
    OptimizerError,
    PermissionDeniedError,
    ProtocolError,
    RefusedError,
    SourceChangedError,
    ThrottledError,
    TransferFailed,
    UnreachableError,
    UnsupportedError,
    WrongTypeError,
)
from edt.events import (
    Event,
    Failure,
    FileDone,
    FileFailed,
    FileSkipped,
    Finished,
    Planned,
    Retried,
    Sampled,
    Totals,
    Tuned,
)
from edt.files import Entry, list, remove, stat
from edt.optimizer import Buffers, Decision, Observation, Optimizer, PerStage, Policy
from edt.options import ConnectOptions, ServeOptions, TransferOptions
from edt.report import ManifestEntry, Report
from edt.server import Server, serve
from edt.transfer import Progress, Transfer, TransferHandle, copy

__all__ = [
    "OPTIMIZERS",
    "AlreadyExistsError",
    "Buffers",
    "CancelledError",
    "ConnectOptions",
    "ConnectionLostError",
    "CorruptedError",
    "Decision",
    "Entry",
    "Error",
    "Event",
    "Failure",
    "FileDone",
    "FileFailed",
    "FileSkipped",
    "Finished",
    "InvalidInputError",
    "IoError",
    "ManifestEntry",
    "NoSpaceError",
    "NotFoundError",
    "Observation",
    "Optimizer",
    "OptimizerError",
    "PerStage",
    "PermissionDeniedError",
    "Planned",
    "Policy",
    "Progress",
    "ProtocolError",
    "RefusedError",
    "Report",
    "Retried",
    "Sampled",
    "ServeOptions",
    "Server",
    "SourceChangedError",
    "ThrottledError",
    "Totals",
    "Transfer",
    "TransferFailed",
    "TransferHandle",
    "TransferOptions",
    "Tuned",
    "UnreachableError",
    "UnsupportedError",
    "WrongTypeError",
    "__version__",
    "copy",
    "flight",
    "list",
    "remove",
    "serve",
    "stat",
]

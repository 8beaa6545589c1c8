"""What every peer has to say for itself: what it needs, how it is served, and how it copies. One file a peer."""

from __future__ import annotations

import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paths import End, Ends
from processes import Measured, Workplace
from servers import Server

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where servers are that the search path of a user may lack."""

DAEMON_USER = "nobody"
"""Who serves files where a server refuses to do so as root."""


@dataclass(frozen=True)
class Setting:
    """One way to run a peer: its name in the results, and its options."""

    name: str
    options: tuple[str, ...] = ()


DEFAULT = Setting("default")


@dataclass(frozen=True)
class Job:
    """One copy to be made: the content of `source`, at the near end, into `target`, at the far end."""

    place: Workplace
    ends: Ends
    source: Path
    target: Path
    ports: tuple[int, int]
    size: int

    @property
    def scratch(self) -> Path:
        """Where a peer keeps its configuration, its keys and its logs."""
        return self.place.path / "peer"

    def serve(self, end: End, port: int, *command: str | Path) -> Server:
        """Starts a server at one end."""
        return Server(end, [path_to(str(command[0])), *command[1:]], port, self.scratch, self.place.environment)

    def start(self, end: End, *command: str | Path) -> Measured:
        """Starts a client at one end; what it looks for in a home directory is not the user's."""
        environment = {**self.place.environment, "HOME": str(self.scratch)}
        return Measured([*end.prefix, path_to(str(command[0])), *command[1:]], environment, talks=False)


class Peer(ABC):
    """A program that can copy a tree from the near to the far end of a path."""

    name: str
    about: str
    programs: tuple[str, ...]
    packages: tuple[str, ...] = ()
    """Of Debian."""
    python_packages: tuple[str, ...] = ()
    """Of PyPI, where the distribution's program is too old to be fair to it."""
    version: tuple[str, ...] = ()
    checks_integrity: bool = False
    lands: bool = True
    """Whether files arrive that can be checked."""
    settings: tuple[Setting, ...] = (DEFAULT,)
    """The first is the peer as it comes; the others are searched for the best."""

    def missing(self) -> list[str]:
        """The programs that are not installed."""
        return [program for program in self.programs if not located(program)]

    @abstractmethod
    def serve(self, job: Job) -> Sequence[Server]:
        """Starts what has to run before the copy."""

    @abstractmethod
    def copy(self, job: Job, setting: Setting) -> Measured:
        """Starts the copy itself."""

    def landed(self, job: Job) -> Path:
        """The directory in which the content of the source appears."""
        return job.target

    def setting(self, name: str) -> Setting:
        """The setting of that name."""
        return next(setting for setting in self.settings if setting.name == name)


def located(program: str) -> str | None:
    """Where a program is: beside this Python, on the search path, or in the folders of system programs."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(program, path=beside) or shutil.which(program) or shutil.which(program, path=SYSTEM_FOLDERS)


def path_to(program: str) -> str:
    """Where an installed program is."""
    found = located(program)
    if found is None:
        raise FileNotFoundError(f"`{program}` is not installed")
    return found

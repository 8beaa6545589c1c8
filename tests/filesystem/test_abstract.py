"""The suites by which fsspec holds file systems to its rules."""

from __future__ import annotations

from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

# The fixtures `fs` and `fs_path` are in conftest.py; those of the suites would hide them.
del AbstractFixtures.fs, AbstractFixtures.fs_path


class TestCopy(AbstractCopyTests, AbstractFixtures):
    """Copies at the server."""


class TestGet(AbstractGetTests, AbstractFixtures):
    """Copies to this machine."""


class TestPut(AbstractPutTests, AbstractFixtures):
    """Copies from this machine."""


class TestOpen(AbstractOpenTests, AbstractFixtures):
    """Exclusive creation."""


class TestPipe(AbstractPipeTests, AbstractFixtures):
    """Writing whole contents."""

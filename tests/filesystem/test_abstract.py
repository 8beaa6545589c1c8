"""The suites by which fsspec holds file systems to its rules."""

from __future__ import annotations

import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

from edt.fsspec import EdtFileSystem


class Fixtures(AbstractFixtures):
    """The fixtures of the suites, with the file system and the directory of conftest.py."""

    @pytest.fixture
    def fs(self, fs: EdtFileSystem) -> EdtFileSystem:
        """The file system."""
        return fs

    @pytest.fixture
    def fs_path(self, fs_path: str) -> str:
        """A directory of the test's own."""
        return fs_path


class TestCopy(AbstractCopyTests, Fixtures):
    """Copies at the server."""


class TestGet(AbstractGetTests, Fixtures):
    """Copies to this machine."""


class TestPut(AbstractPutTests, Fixtures):
    """Copies from this machine."""


class TestOpen(AbstractOpenTests, Fixtures):
    """Exclusive creation."""


class TestPipe(AbstractPipeTests, Fixtures):
    """Writing whole contents."""

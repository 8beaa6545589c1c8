"""Web addresses: what a server is asked for."""

from __future__ import annotations

from pathlib import Path

from endpoints.echo import Echo
from harness import Edt

WRITTEN = (
    *("a//b", "/a", "a%2Fb", "a%2fb/c", "a+b", "a%2Bb", "a;v=1", "a(1)", "a%20b", "a%C3%BC"),
    *("a//b?x=%2F+", "a+b?X-Amz-Signature=1"),
)


def test_one_address_is_asked_for_as_it_was_written(edt: Edt, scratch: Path) -> None:
    with Echo() as echo:
        for number, path in enumerate(WRITTEN):
            edt.copy(f"{echo.root}/{path}", scratch / str(number))
            assert (scratch / str(number)).read_text() == f"/{path}"


def test_several_addresses_are_asked_for_by_their_names(edt: Edt, scratch: Path) -> None:
    with Echo() as echo:
        edt.copy(f"{echo.root}/a+b", f"{echo.root}/c(1)", f"{scratch}/several/")
        found = {path.name: path.read_text() for path in (scratch / "several").iterdir()}
        assert found == {"a+b": "/a%2Bb", "c(1)": "/c%281%29"}
        # Names do not tell these, and one store cannot ask for both.
        for odd in ("a//b", "a%2Fb"):
            refused = edt.run("cp", f"{echo.root}/{odd}", f"{echo.root}/c", f"{scratch}/odd/")
            assert refused.code == 2
            assert "copy from each place with a command of its own" in refused.err

"""Failures become exceptions that ordinary code understands."""

from __future__ import annotations

import errno
import pickle
import socket
from pathlib import Path
from typing import Any

import pytest

import edt
from edt import errors
from edt._flight.place import password


def test_a_missing_source_is_a_file_not_found(target: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        edt.copy("/no/such/source", target)
    error = raised.value
    assert isinstance(error, edt.NotFoundError)
    assert error.kind == "not-found"
    assert error.errno == errno.ENOENT
    assert "/no/such/source" in error.what
    assert error.hint is None or f"hint: {error.hint}" in str(error)


def test_a_port_without_server_is_a_connection_error(target: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"edt://127.0.0.1:{taken.getsockname()[1]}/"
        with pytest.raises(ConnectionError) as raised:
            edt.copy(url, target, retries=0)
    assert isinstance(raised.value, edt.UnreachableError)


def test_a_wrong_secret_is_refused(served: tuple[edt.Server, Path], tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("this is not the secret of the server")
    with pytest.raises(edt.RefusedError) as raised:
        edt.list(served[0].url, token_file=tmp_path / "wrong")
    assert isinstance(raised.value, PermissionError)


def test_a_transfer_with_failed_items_raises_with_its_report(tree: Path, target: Path) -> None:
    target.mkdir()
    (target / "a.txt").write_bytes(b"mine")
    with pytest.raises(edt.TransferFailed) as raised:
        edt.copy(tree, target, overwrite="never")
    report = raised.value.report
    assert (target / "a.txt").read_bytes() == b"mine"
    assert (report.totals.failed, report.totals.files_done) == (1, 3)
    assert [(failure.path, failure.kind) for failure in report.failures] == [("a.txt", "already-exists")]
    assert "1 of" in str(raised.value)
    assert "a.txt" in str(raised.value)


def test_run_leaves_failed_items_to_the_caller(tree: Path, target: Path) -> None:
    target.mkdir()
    (target / "a.txt").write_bytes(b"mine")
    report = edt.Transfer(tree, target, overwrite="never").run()
    assert not report.is_complete


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"policy": "greedy"}, "policy"),
        ({"max_streams": 0}, "max_streams"),
        ({"chunk_size": "16 parsec"}, "chunk_size"),
        ({"interval": -1}, "interval"),
        ({"buffer": 1}, "buffer"),
        ({"optimizer": "nonsense"}, "nonsense"),
    ],
)
def test_an_option_that_cannot_be_used_is_a_value_error(tree: Path, target: Path, options: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name) as raised:
        edt.copy(tree, target, **options)
    assert isinstance(raised.value, edt.InvalidInputError)


@pytest.mark.parametrize("options", [{"no_such_option": 1}, {"concurrency": "four"}, {"optimizer": object()}])
def test_an_option_of_the_wrong_type_or_name_is_a_type_error(tree: Path, target: Path, options: Any) -> None:
    with pytest.raises(TypeError, match=r"no_such_option|concurrency|decide"):
        edt.copy(tree, target, **options)


def test_a_transfer_needs_a_source(target: Path) -> None:
    with pytest.raises(edt.InvalidInputError, match="no source"):
        edt.copy([], target)


@pytest.mark.parametrize("kind", sorted(errors._KINDS))
def test_an_error_survives_pickling(kind: str) -> None:
    error = errors.of_kind(kind, "could not read `a`", "it burns", "use water")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.kind, again.what, again.cause, again.hint) == (kind, "could not read `a`", "it burns", "use water")
    assert str(again) == "could not read `a`: it burns\nhint: use water"


def test_a_failed_transfer_survives_pickling(tree: Path, target: Path) -> None:
    target.mkdir()
    (target / "a.txt").write_bytes(b"mine")
    with pytest.raises(edt.TransferFailed) as raised:
        edt.copy(tree, target, overwrite="never")
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
    assert again.report.failures == raised.value.report.failures


def test_every_kind_of_the_core_has_a_class_of_its_own() -> None:
    source = Path(__file__).parents[2] / "core" / "src" / "error.rs"
    text = source.read_text()
    kinds = {line.split('"')[1] for line in text.splitlines() if line.strip().startswith("Self::") and '=> "' in line}
    assert kinds == set(errors._KINDS)


def test_a_user_without_a_netrc_file_has_the_secret_as_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in (None, ""):
        monkeypatch.delenv("NETRC", raising=False)
        if named is not None:
            monkeypatch.setenv("NETRC", named)
        assert password("host", "user", None, b"secret") == "secret"
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with pytest.raises(edt.NotFoundError):
        password("host", "user", None, b"secret")

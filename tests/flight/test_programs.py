"""Clients in other languages, with the libraries of Java and Go: they list, read bytes and tables, and put."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flight.programs import Program
from flight.service import HOST, Service
from flight.tables import sample, write_parquet
from harness import MIB, SECRET, fill

SIZE = 130 * MIB + 7
ROWS = 10_000


@pytest.fixture(params=["java", "go"])
def other(request: pytest.FixtureRequest, program: Callable[[str], Program]) -> Program:
    """Each client in turn."""
    return program(request.param)


@pytest.fixture
def address(service: Service) -> str:
    """Where the service is."""
    return f"{HOST}:{service.flight_port}"


def test_files_are_listed(other: Program, service: Service, address: str) -> None:
    fill(service.root / "a.bin", 11, "a")
    fill(service.root / "sub" / "b.bin", 12, "b")
    outcome = other.run("list", address, secret=SECRET)
    assert outcome.returncode == 0, outcome.stderr
    assert sorted(outcome.stdout.split()) == ["11", "12"]


def test_all_endpoints_in_parallel_are_the_file(other: Program, service: Service, address: str, scratch: Path) -> None:
    fill(service.root / "large.bin", SIZE, "large")
    outcome = other.run("bytes", address, "large.bin", scratch / "copy.bin", secret=SECRET)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "3\n"
    assert (scratch / "copy.bin").read_bytes() == (service.root / "large.bin").read_bytes()


def test_a_table_is_read(other: Program, service: Service, address: str) -> None:
    write_parquet(service.root / "t.parquet", sample(ROWS))
    outcome = other.run("table", address, "t.parquet", secret=SECRET)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.split() == [str(ROWS), str(sum(range(ROWS)))]


def test_a_file_is_put(other: Program, service: Service, address: str, source: Path) -> None:
    fill(source / "a.bin", 40 * MIB + 3, "a")
    outcome = other.run("put", address, source / "a.bin", "sub/b.bin", secret=SECRET)
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout)["size"] == 40 * MIB + 3
    assert (service.root / "sub" / "b.bin").read_bytes() == (source / "a.bin").read_bytes()
    assert service.leftovers() == []


def test_a_wrong_secret_is_told(other: Program, service: Service, address: str) -> None:
    outcome = other.run("list", address, secret="another secret that is long enough")
    assert outcome.returncode == 3
    assert outcome.stderr.upper().startswith("UNAUTHENTICATED: "), outcome.stderr
    assert "hint: " in outcome.stderr

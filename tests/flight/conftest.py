"""Fixtures of the Flight tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flight.programs import Program, absence, installable
from flight.service import Client, Service, Start
from flight.tables import TableService
from harness import Edt


@pytest.fixture
def serve_flight(edt: Edt, scratch: Path) -> Iterator[Start]:
    """Starts services; those that still run are killed at the end."""
    services: list[Service] = []

    def start(*options: str, **words: str) -> Service:
        root = scratch / f"served-{len(services)}"
        root.mkdir()
        services.append(Service(edt, root, *options, **words))
        return services[-1]

    yield start
    for service in services:
        if service.process.poll() is None:
            service.kill()


@pytest.fixture
def service(serve_flight: Start) -> Service:
    """A service on an empty root."""
    return serve_flight()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """PyArrow's client of the service."""
    with service.client() as client:
        yield client


@pytest.fixture
def table_service(scratch: Path) -> Iterator[Callable[..., TableService]]:
    """Starts services of tables that are not edt's."""
    services: list[TableService] = []

    def start(*options: str) -> TableService:
        services.append(TableService(scratch / f"tables-{len(services)}", *options))
        return services[-1]

    yield start
    for each in services:
        each.stop()


@pytest.fixture
def program() -> Callable[[str], Program]:
    """A client in another language; the test is skipped by name where it was not built, and fails where it must be."""

    def find(name: str) -> Program:
        if reason := absence(name):
            message = f"{name}: {reason}; run `python tests/flight/build.py`"
            if os.environ.get("EDT_ENDPOINTS") == "all" and installable(name):
                pytest.fail(message, pytrace=False)
            pytest.skip(message)
        return Program(name)

    return find

"""The storage provider: settings, and what all objects of it share."""

from __future__ import annotations

import atexit
import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

from snakemake_storage_plugin_edt.batches import Batcher
from snakemake_storage_plugin_edt.listings import Listings, Unknown
from snakemake_storage_plugin_edt.lookers import Lookers
from snakemake_storage_plugin_edt.per_process import PerProcess
from snakemake_storage_plugin_edt.query import Place, QueryError, place_of
from snakemake_storage_plugin_edt.settings import Mount, StorageProviderSettings, check, mounts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import edt
    from snakemake_interface_storage_plugins.common import Operation

    from snakemake_storage_plugin_edt.storage_object import StorageObject

T = TypeVar("T")


class StorageProvider(StorageProviderBase):
    """Reaches storages through edt. Nothing is opened before the first object is asked for."""

    settings: StorageProviderSettings

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.settings is None:
            self.settings = StorageProviderSettings()
        check(self.settings)
        self._lookers = PerProcess(Lookers)

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        return [
            ExampleQuery("edt://host/path/file.txt", "A file or directory of an edt server.", QueryType.ANY),
            ExampleQuery(
                "edt+s3://bucket/path/file.txt", "An object of S3, or a prefix as a directory.", QueryType.ANY
            ),
            ExampleQuery("edt+https://host/path/file.txt", "A file of a web server.", QueryType.INPUT),
        ]

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        try:
            place_of(query)
        except QueryError as error:
            return StorageQueryValidationResult(query=query, valid=False, reason=str(error))
        return StorageQueryValidationResult(query=query, valid=True)

    @classmethod
    def get_storage_object_cls(cls) -> type[StorageObject]:
        from snakemake_storage_plugin_edt.storage_object import StorageObject

        return StorageObject

    def postprocess_query(self, query: str) -> str:
        try:
            return place_of(query).query
        except QueryError:
            return query

    def safe_print(self, query: str) -> str:
        try:
            return place_of(query).shown()
        except QueryError:
            return query

    def use_rate_limiter(self) -> bool:
        return self.settings.max_requests_per_second is not None

    def default_max_requests_per_second(self) -> float:
        return 1000.0

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:  # noqa: ARG002 (all share one limit)
        return place_of(query).root

    def mounted(self, place: Place) -> Path | None:
        """The path where a place is there already, if a mount says so."""
        query = place.query
        for mount in self._mounts:
            if query == mount.url:
                return mount.path
            if query.startswith(mount.url + "/"):
                return mount.path / place.path[len(place_of(mount.url).path) :].lstrip("/")
        return None

    async def entry(self, place: Place) -> edt.Entry | None:
        """What the storage says of a place, `None` if nothing is there; does not hold up the event loop."""
        known = self.listings.known(place)
        if not isinstance(known, Unknown):
            return known
        return await self.beside(lambda: self.listings.entry(place))

    async def beside(self, work: Callable[[], T]) -> T:
        """Runs what waits for a storage on a thread beside the event loop."""
        return await self._lookers.own.run(work)

    @cached_property
    def listings(self) -> Listings:
        """What is known of the objects."""
        return Listings(self.settings.stat_ttl, self.reach, self.settings.retries)

    @cached_property
    def retrievals(self) -> Batcher:
        """Brings objects to local paths."""
        from snakemake_storage_plugin_edt.cache import Cache
        from snakemake_storage_plugin_edt.retrieving import Retriever

        folder = self.settings.cache_dir and os.path.expanduser(os.path.expandvars(self.settings.cache_dir))
        cache = Cache(Path(folder), _bytes(self.settings.cache_size)) if folder else None
        home = Path(folder).absolute() if folder else self.local_prefix.absolute() / ".edt"
        retriever = Retriever(home, cache, self.listings, self._mover, self.settings.writable)
        return Batcher(retriever.carry_out, "edt-retrieve", self._is_looking)

    @cached_property
    def stores(self) -> Batcher:
        """Brings local paths to storages."""
        from snakemake_storage_plugin_edt.storing import Storer

        return Batcher(Storer(self.listings, self._mover).carry_out, "edt-store", self._is_looking)

    def _is_looking(self) -> bool:
        return self._lookers.own.are_looking()

    @cached_property
    def _mover(self) -> Any:
        from snakemake_storage_plugin_edt.moves import Mover

        limits = {"max_streams": self.settings.max_streams, "limit_rate": self.settings.limit_rate}
        options = {**self.reach, **{name: value for name, value in limits.items() if value is not None}}
        return Mover(options, self.settings.retries, self.settings.progress, self.logger)

    @cached_property
    def reach(self) -> dict[str, Any]:
        """The options by which edt reaches and trusts servers."""
        settings = self.settings
        options: dict[str, Any] = {"plain": settings.plain}
        if settings.token_file is not None:
            options["token_file"] = os.path.expanduser(os.path.expandvars(settings.token_file))
        elif settings.token is not None:
            options["token_file"] = _private_file(settings.token)
        if settings.known_hosts is not None:
            options["known_hosts"] = os.path.expanduser(os.path.expandvars(settings.known_hosts))
        return options

    @cached_property
    def _mounts(self) -> list[Mount]:
        return mounts_of(self.settings.mounts)


def _bytes(text: str) -> int:
    from humanfriendly import InvalidSize, parse_size

    try:
        return int(parse_size(text))
    except InvalidSize as error:
        raise WorkflowError(f"could not use the cache size `{text}` of edt: write for example 500GB") from error


def _private_file(secret: str) -> str:
    """Puts a secret where edt reads one: a file of this user alone, that goes with the process."""
    file, name = tempfile.mkstemp(prefix="edt-token-")
    with os.fdopen(file, "w") as writer:
        writer.write(secret)
    atexit.register(_remove, name, os.getpid())
    return name


def _remove(name: str, process: int) -> None:
    """A process that was forked from the one that needs the file leaves it where it is."""
    if os.getpid() == process:
        Path(name).unlink(missing_ok=True)

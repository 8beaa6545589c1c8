"""A storage object: one file or directory of a storage, and its local copy.

Snakemake calls the `managed_` coroutines; the methods without that prefix do the same and block.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.exceptions import FileOrDirectoryNotFoundError
from snakemake_interface_storage_plugins.io import IOCacheStorageInterface, Mtime, get_constant_prefix
from snakemake_interface_storage_plugins.storage_object import (
    StorageObjectGlob,
    StorageObjectRead,
    StorageObjectTouch,
    StorageObjectWrite,
)

from snakemake_storage_plugin_edt.batches import Request
from snakemake_storage_plugin_edt.local import beside, make_room
from snakemake_storage_plugin_edt.provider import StorageProvider
from snakemake_storage_plugin_edt.query import Place, place_of

if TYPE_CHECKING:
    import edt

T = TypeVar("T")

# Snakemake tells the time of a directory by this file inside, where there is one.
_TIMESTAMP = ".snakemake_timestamp"


class StorageObject(StorageObjectRead, StorageObjectWrite, StorageObjectGlob, StorageObjectTouch):
    """One file or directory."""

    provider: StorageProvider

    def __post_init__(self) -> None:
        super().__post_init__()
        self._place: Place | None = None
        self._of = ""

    @property
    def place(self) -> Place:
        """Where it is. Snakemake replaces the query of an object when it fills in wildcards."""
        if self._place is None or self._of != self.query:
            self._place, self._of = place_of(self.query), self.query
        return self._place

    def local_suffix(self) -> str:
        return self.place.suffix

    def get_inventory_parent(self) -> str | None:
        if not self.provider.listings.is_listable(self.place):
            return None
        return str(self.cache_key(self.place.parent.suffix))

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """Tells of the object, and of all beside it where one listing does."""
        if self.get_inventory_parent() in cache.exists_in_storage.has_inventory:
            return
        mounted = self.provider.mounted(self.place)
        with self._explained("check"):
            listings = self.provider.listings
            siblings = None if mounted else await self.provider.beside(lambda: listings.siblings(self.place))
        if siblings is None:
            key = self.cache_key()
            cache.exists_in_storage[key] = await self.managed_exists()
            if cache.exists_in_storage[key]:
                cache.mtime[key] = Mtime(storage=await self.managed_mtime())
                cache.size[key] = await self.managed_size()
            return
        cache.exists_in_storage.has_inventory.add(self.get_inventory_parent())
        for place, entry in siblings:
            key = self.cache_key(place.suffix)
            cache.exists_in_storage[key] = True
            if entry.kind == "file":
                cache.mtime[key] = Mtime(storage=_seconds(entry.modified_ns))
                cache.size[key] = entry.size

    def cleanup(self) -> None:
        """Nothing but the local copy is left, and Snakemake removes that."""

    def exists(self) -> bool:
        mounted = self.provider.mounted(self.place)
        return mounted.exists() if mounted else self.provider.listings.entry(self.place) is not None

    def mtime(self) -> float:
        mounted = self.provider.mounted(self.place)
        if mounted:
            return (mounted / _TIMESTAMP if (mounted / _TIMESTAMP).exists() else mounted).stat().st_mtime
        entry = self._found(self.provider.listings.entry(self.place))
        if entry.kind == "directory":
            entry = self.provider.listings.entry(self.place.child(_TIMESTAMP)) or entry
        return _seconds(entry.modified_ns)

    def size(self) -> int:
        mounted = self.provider.mounted(self.place)
        if mounted:
            return mounted.stat().st_size if mounted.is_file() else 0
        return self._found(self.provider.listings.entry(self.place)).size

    def checksum(self) -> str | None:
        """None: a digest by an algorithm that Snakemake knows would cost a read of the object."""
        return None

    def local_footprint(self) -> int:
        if self.provider.mounted(self.place):
            return 0
        entry = self._found(self.provider.listings.entry(self.place))
        if entry.kind != "directory":
            return entry.size
        return sum(entry.size for _, entry in self.provider.listings.below(self.place))

    def retrieve_object(self) -> None:
        if not self._linked():
            self.provider.retrievals.run(self._request())

    def store_object(self) -> None:
        self.provider.stores.run(self._request())

    def remove(self) -> None:
        self.provider.listings.remove(self.place)

    def touch(self) -> None:
        """Sets the time to the present one: of a directory by its time stamp, of a file by storing it again."""
        place = self.place
        entry = self._found(self.provider.listings.entry(place))
        with tempfile.TemporaryDirectory(dir=self.provider.local_prefix, prefix=".edt-touch-") as folder:
            fresh = Path(folder) / "fresh"
            if entry.kind == "directory":
                place = place.child(_TIMESTAMP)
                fresh.touch()
            else:
                copy = Path(folder) / "copy"
                self.provider.retrievals.run(Request(place, copy, self.print_query))
                # The first copy may share its time with an object of the cache.
                shutil.copyfile(copy, fresh)
                # The cache takes the leave to write from its copies; of what a link leads to only they tell the mode.
                mode = stat.S_IMODE(copy.stat().st_mode) | stat.S_IWUSR if entry.mode is None else entry.mode
                # It has to be read here.
                fresh.chmod(mode | stat.S_IRUSR)
            self.provider.stores.run(Request(place, fresh, self.print_query))

    def list_candidate_matches(self) -> Iterable[str]:
        """The queries of all that lies below the part of the query without wildcards."""
        root, _, below = get_constant_prefix(self.query, strip_incomplete_parts=True).partition("://")[2].partition("/")
        directory = self.place.within(root, below)
        return [found.query for found, entry in self.provider.listings.below(directory) if entry.kind != "other"]

    async def managed_exists(self) -> bool:
        with self._explained("check"):
            async with self._rate_limiter(Operation.EXISTS):
                if self.provider.mounted(self.place):
                    return self.exists()
                return await self.provider.entry(self.place) is not None

    async def managed_mtime(self) -> float:
        with self._explained("tell the time of"):
            async with self._rate_limiter(Operation.MTIME):
                return await self._looked(self.mtime)

    async def managed_size(self) -> int:
        with self._explained("tell the size of"):
            async with self._rate_limiter(Operation.SIZE):
                return await self._looked(self.size)

    async def managed_checksum(self) -> str | None:
        return self.checksum()

    async def managed_local_footprint(self) -> int:
        with self._explained("tell the size of"):
            async with self._rate_limiter(Operation.SIZE):
                if not self.provider.mounted(self.place):
                    entry = self._found(await self.provider.entry(self.place))
                    if entry.kind != "directory":
                        return entry.size
                return await self.provider.beside(self.local_footprint)

    async def managed_retrieve(self) -> None:
        if self._linked():
            return
        await self.wait_for_free_space()
        with self._explained("retrieve"):
            async with self._rate_limiter(Operation.RETRIEVE):
                await self.provider.retrievals.submit(self._request())

    async def managed_store(self) -> None:
        with self._explained("store"):
            async with self._rate_limiter(Operation.STORE):
                await self.provider.stores.submit(self._request())

    async def managed_remove(self) -> None:
        with self._explained("remove"):
            async with self._rate_limiter(Operation.REMOVE):
                await self.provider.beside(self.remove)

    async def managed_touch(self) -> None:
        with self._explained("touch"):
            async with self._rate_limiter(Operation.TOUCH):
                await self.provider.beside(self.touch)

    async def _looked(self, answer: Callable[[], T]) -> T:
        """Answers from what is known, or after a look that does not hold up the event loop."""
        if not self.provider.mounted(self.place):
            entry = await self.provider.entry(self.place)
            if entry is not None and entry.kind == "directory":
                await self.provider.entry(self.place.child(_TIMESTAMP))
        return answer()

    def _found(self, entry: edt.Entry | None) -> edt.Entry:
        if entry is None:
            raise FileOrDirectoryNotFoundError(self.print_query, self.local_path())
        return entry

    def _request(self) -> Request:
        return Request(self.place, self.local_path().absolute(), self.print_query)

    def _linked(self) -> bool:
        """Links the local path to where the object is mounted, if it is."""
        mounted = self.provider.mounted(self.place)
        if mounted is None:
            return False
        if not mounted.exists():
            raise FileOrDirectoryNotFoundError(self.print_query, mounted)
        path = self.local_path()
        # A link that is there is replaced at once: other jobs may use it.
        if not path.is_symlink():
            make_room(path)
        part = beside(path)
        try:
            part.symlink_to(mounted)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return True

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        """Says of every error which object it is about."""
        try:
            yield
        except (WorkflowError, FileOrDirectoryNotFoundError):
            raise
        except Exception as error:
            # What edt says of its own command line.
            said = str(error).replace(" --token-file", " --storage-edt-token-file")
            raise WorkflowError(f"could not {verb} `{self.print_query}`: {said}") from error


def _seconds(modified_ns: int | None) -> float:
    """The time as `os.stat` tells it of a file with the same one, to the last digit; 0 if the storage keeps none."""
    seconds, nanoseconds = divmod(modified_ns or 0, 1_000_000_000)
    return seconds + 1e-9 * nanoseconds

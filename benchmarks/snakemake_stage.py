"""Does what Snakemake does with the objects of a storage plugin, and prints what it took as JSON.

`snakemake_stage.py PLUGIN check|retrieve FOLDER SETTINGS QUERY COUNT`: `{n}` in the query stands for 0 to COUNT-1.
The calls and their order are those of Snakemake 9: it asks for one object after another, and retrieves those of a
scheduling round in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import Any


def main() -> int:
    plugin, action, folder, settings, query, count = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    module = importlib.import_module(f"snakemake_storage_plugin_{plugin}")
    settings_class = getattr(module, "StorageProviderSettings", None)
    provider = module.StorageProvider(
        local_prefix=Path(folder),
        logger=logging.getLogger("snakemake"),
        settings=settings_class(**json.loads(settings)) if settings_class else None,
    )
    objects = [provider.object(query.replace("{n}", str(number))) for number in range(int(count))]
    begin = time.monotonic()
    asyncio.run({"check": check, "retrieve": retrieve}[action](objects))
    wall_s = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_SELF)
    size = sum(found.local_path().stat().st_size for found in objects) if action == "retrieve" else 0
    print(json.dumps({"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime, "bytes": size}), flush=True)
    return 0


async def check(objects: list[Any]) -> None:
    """What building the graph of jobs asks of existing inputs."""
    for found in objects:
        if not await found.managed_exists():
            raise FileNotFoundError(found.query)
        await found.managed_mtime()
        await found.managed_size()


async def retrieve(objects: list[Any]) -> None:
    """What a scheduling round does with the inputs of its jobs."""

    async def each(found: Any) -> None:
        await found.managed_mtime()
        await found.managed_retrieve()

    await asyncio.gather(*map(each, objects))


if __name__ == "__main__":
    sys.exit(main())

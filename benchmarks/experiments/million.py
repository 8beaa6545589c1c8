"""1,000,000 entries: the memory of both sides does not grow with the number of files."""

from __future__ import annotations

import datasets
from bench import Options
from processes import Cost, Workplace, workplace
from results import Figure, Outcome


def run(options: Options) -> Outcome:
    """A dry run over all entries, and a real copy of all of them (of a fifth, if quick)."""
    with workplace() as place:
        source = place.empty("source")
        size = datasets.make("million", source)
        entries = size.files + size.files // 1000
        dry_client, dry_server = copy(place, "--dry-run", str(source))
        some = [str(source)] if not options.quick else ["--include", "0[01]??/**", str(source)]
        client, server = copy(place, *some)
        arrived = sum(1 for path in (place.path / "target").rglob("*") if path.is_file())
    expected = size.files if not options.quick else size.files // 5
    if arrived != expected:
        raise RuntimeError(f"{arrived} of {expected} files arrived")
    return Outcome(
        "million",
        f"{entries} entries (empty files in directories of 1,000) on tmpfs: a dry run over all of them, and a copy "
        f"of {arrived} files.",
        [
            Figure("dry run: wall time", "s", [dry_client.wall_s]),
            Figure("dry run: peak memory, client", "MiB", [dry_client.peak_mib], at_most=300),
            Figure("dry run: peak memory, server", "MiB", [dry_server.peak_mib], at_most=300),
            Figure("copy: files per second", "", [arrived / client.wall_s]),
            Figure("copy: peak memory, client", "MiB", [client.peak_mib], at_most=300),
            Figure("copy: peak memory, server", "MiB", [server.peak_mib], at_most=300),
        ],
        options.scale,
    )


def copy(place: Workplace, *words: str) -> tuple[Cost, Cost]:
    """Copies to a fresh server; returns the costs of client and server."""
    server, port = place.serve(place.empty("target"))
    return place.copy(*words, f"edt://127.0.0.1:{port}/").end(), server.stop()

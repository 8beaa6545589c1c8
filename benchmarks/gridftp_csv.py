"""Turns the GridFTP logs published with HARP into files for `edt history import`."""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gridftp_logs import FASTEST_MIBPS, FOLDER, MEBIBIT, SHORTEST_S, date_s

COLUMNS = (
    *("start_s", "source", "destination", "bandwidth_bytes_per_s", "rtt_s", "tcp_buffer_bytes"),
    *("files", "mean_file_bytes", "concurrency", "parallelism", "pipelining", "throughput_bytes_per_s"),
)


def converted(rows: Iterable[dict[str, str]]) -> Iterator[dict[str, object]]:
    """The rows in the form of the import, without those that HARP drops and those that lack a size or a throughput.

    The logs tell the day of a transfer and the order, or only the order: each begins where the one before it ended, and
    not before its day. A parameter that a log does not have was at GridFTP's default, which is 1.
    """
    now = 0.0
    for row in rows:
        # Both logs count in Mibit/s, whatever they call it.
        given = (row["file_size_B"], row["file_count"], row.get("thr_mibps") or row.get("thr_mbps"))
        size, files, rate = (float(text or 0) for text in given)
        throughput = rate * MEBIBIT
        seconds = size * files / throughput if throughput > 0 else 0.0
        if seconds < SHORTEST_S or rate > FASTEST_MIBPS:
            continue
        now = max(now, date_s(row["date"]) if row.get("date") else 0.0)
        yield {
            "start_s": round(now, 3),
            "source": row["src"],
            # The same endpoints in GridFTP's other mode behave as others.
            "destination": row["dst"] + (" (fast)" if row["fast"] in ("1", "ON") else ""),
            "bandwidth_bytes_per_s": float(row["bw_bps"]) / 8 if row["bw_bps"] else None,
            "rtt_s": row["rtt_s"],
            "tcp_buffer_bytes": row["buf_B"],
            "files": round(files),
            "mean_file_bytes": size,
            "concurrency": parameter(row["cc"], 1),
            "parallelism": parameter(row["p"], 1),
            "pipelining": parameter(row["pp"], 0),
            "throughput_bytes_per_s": throughput,
        }
        now += seconds


def parameter(text: str, least: int) -> int:
    """A parameter, or GridFTP's default where there is none."""
    return max(int(float(text)), least) if text else 1


def convert(logs: Path, file: Path) -> int:
    """Writes one of the logs as a CSV file, and returns how many transfers it holds."""
    with (
        gzip.open(logs, "rt", encoding="utf-8", newline="") as stream,
        file.open("w", encoding="utf-8", newline="") as out,
    ):
        writer = csv.DictWriter(out, COLUMNS)
        writer.writeheader()
        count = 0
        for row in converted(csv.DictReader(stream)):
            writer.writerow(row)
            count += 1
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes each of the logs into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, metavar="FOLDER", help="where to write a CSV file for each log")
    parser.add_argument("--logs", type=Path, default=FOLDER, metavar="FOLDER", help="where the logs lie (%(default)s)")
    options = parser.parse_args(arguments)
    found = sorted(options.logs.glob("*.csv.gz"))
    if not found:
        parser.error(f"there is no log, *.csv.gz, in `{options.logs}`: name their folder with --logs")
    options.output.mkdir(parents=True, exist_ok=True)
    for logs in found:
        file = options.output / logs.name.removesuffix(".gz")
        print(f"{convert(logs, file)} transfers in {file}")


if __name__ == "__main__":
    main()

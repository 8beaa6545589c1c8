"""Large files over loopback on tmpfs, digests on, against raw TCP with sendfile."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import datasets
from bench import Options
from processes import Cost, Measured, Workplace, compiled, port_of, workplace
from results import Figure, Outcome

STREAMS = 4


@dataclass(frozen=True)
class Run:
    """One repetition of one contender."""

    wall_s: float
    cpu_s: float
    client_mib: float
    server_mib: float


def run(options: Options) -> Outcome:
    """Interleaves the contenders, so that a change of the machine's pace meets all of them."""
    scale, repetitions = (0.25, 5) if options.quick else (1.0, 7)
    with workplace() as place:
        source = place.empty("source")
        size = datasets.make("cloudlab-1g", source, scale)
        contenders: dict[str, list[Run]] = {"raw": [], "auto": [], "fixed": []}
        measure_raw(place, source)
        for _ in range(repetitions):
            contenders["raw"].append(measure_raw(place, source))
            contenders["auto"].append(measure_edt(place, source, "--optimizer", "auto"))
            contenders["fixed"].append(
                measure_edt(place, source, "--optimizer", "fixed", "--concurrency", str(STREAMS))
            )
    return Outcome(
        "loopback-large",
        f"{size.files} files of {size.bytes / size.files / 2**30:.3g} GiB on tmpfs over loopback, digests on "
        "(crc32c, crc64nvme, BLAKE3), against raw TCP from file to file: `sendfile` at the sender, `recv` and `pwrite` "
        "of 256 KiB at the receiver, no digests.",
        figures(contenders, size.bytes),
        options.scale,
        [
            f"Raw TCP and edt `fixed` use {STREAMS} streams; `auto` chooses its own number. Wall time is that of the "
            "sending process, from its start to its end, when everything is published at the receiver. CPU is user and "
            "system time of both processes. Ratios are taken repetition by repetition.",
        ],
    )


def measure_raw(place: Workplace, source: Path) -> Run:
    """Sends the files by raw TCP."""
    program = compiled("rawtcp")
    target = place.empty("target")
    receiver = Measured([program, "receive", target, str(STREAMS)], {})
    port = port_of(receiver.line())
    sender = Measured([program, "send", str(port), str(STREAMS), *sorted(source.iterdir())], {})
    run = account(sender.end(), receiver.end())
    shutil.rmtree(target)
    return run


def measure_edt(place: Workplace, source: Path, *options: str) -> Run:
    """Sends the files by edt to a server of its own."""
    target = place.empty("target")
    server, port = place.serve(target)
    client = place.copy(*options, source, f"edt://127.0.0.1:{port}/").end()
    run = account(client, server.stop())
    same_sizes(source, target)
    shutil.rmtree(target)
    return run


def account(client: Cost, server: Cost) -> Run:
    return Run(client.wall_s, client.cpu_s + server.cpu_s, client.peak_mib, server.peak_mib)


def same_sizes(source: Path, target: Path) -> None:
    """Fails unless every file arrived; the content is checked by the tests, and by edt itself."""
    for file in source.iterdir():
        if (target / file.name).stat().st_size != file.stat().st_size:
            raise RuntimeError(f"`{file.name}` did not arrive whole")


def figures(contenders: dict[str, list[Run]], size: int) -> list[Figure]:
    """Goodput, CPU and memory of each contender, and the ratios that the bars are about."""
    gigabytes = size / 1e9
    raw = contenders["raw"]
    found = [
        Figure("raw TCP: goodput", "Gbit/s", [8 * gigabytes / run.wall_s for run in raw]),
        Figure("raw TCP: CPU per GB", "s", [run.cpu_s / gigabytes for run in raw]),
    ]
    for name in ("auto", "fixed"):
        runs = contenders[name]
        pairs = list(zip(runs, raw, strict=True))
        found += [
            Figure(f"edt {name}: goodput", "Gbit/s", [8 * gigabytes / run.wall_s for run in runs]),
            Figure(f"edt {name}: CPU per GB", "s", [run.cpu_s / gigabytes for run in runs]),
            Figure(
                f"edt {name}: goodput / raw TCP", "", [base.wall_s / run.wall_s for run, base in pairs], at_least=0.8
            ),
            Figure(
                f"edt {name}: CPU per GB / raw TCP", "", [run.cpu_s / base.cpu_s for run, base in pairs], at_most=1.5
            ),
            Figure(f"edt {name}: peak memory, client", "MiB", [run.client_mib for run in runs], at_most=300),
            Figure(f"edt {name}: peak memory, server", "MiB", [run.server_mib for run in runs], at_most=300),
        ]
    return found

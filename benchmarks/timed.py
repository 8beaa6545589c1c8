"""A transfer by edt that is ended after some time: data that do not run out, and what it told of each interval."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.agents import Serving
from paths import Ends
from processes import EDT, Failed, Measured, Workplace
from reasons import is_guards
from timelines import Sample

FILE = 16 << 20
"""Bytes of a file of the data set `uniform`."""
SPARE = 64
"""Files beyond what the path could move: each stream has one under way."""
SLACK_S = 0.05
"""By how much an interval may end before its second."""
LATE_S = 20.0
"""How long after its time a transfer that tells nothing is killed."""
INTERRUPTED = 130
"""The exit status of `edt cp` that was asked to end."""
SWEEP_S = 0.2


def supply(source: Path, place: Workplace, rate_bps: float, seconds: float) -> Path:
    """More files than a path can move in a time: hard links to those of `source`, which take no memory."""
    files = sorted(source.iterdir())
    count = math.ceil(1.1 * rate_bps / 8 * (seconds + LATE_S) / FILE) + SPARE
    directory = place.empty("supply")
    for index in range(count):
        os.link(files[index % len(files)], directory / f"{index:06}.bin")
    return directory


class Sweeper:
    """Removes files that have arrived, for the time of a `with` block, so that memory holds only those on their way."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self) -> None:
        """Looks for files again and again."""
        while not self.over.wait(SWEEP_S):
            with suppress(FileNotFoundError), os.scandir(self.target) as entries:
                # Partial files are below a directory of the server's own.
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        os.unlink(entry.path)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


@dataclass(frozen=True)
class Timed:
    """What a transfer told until it was ended."""

    begin: float
    """When it was started, on the clock of `time.monotonic`."""
    timeline: list[Sample]
    """What was shown, half a second each or less."""
    intervals: tuple[float, ...] = ()
    """When each interval between two decisions ended, in seconds."""


def timed(place: Workplace, ends: Ends, words: Sequence[str], source: Path, seconds: float) -> Timed:
    """Copies for so many seconds with these options of `edt cp`, from the near to the far end, without any past."""
    environment = {**place.environment, "EDT_HISTORY": "machines", "EDT_DATA_DIR": str(place.empty("edt-data"))}
    with Serving(place, ends, []) as url, Sweeper(place.path / "target"):
        copy = ["cp", "--plain", "--json", "--quiet", *words]
        shown = followed(Measured([*ends.near.prefix, EDT, *copy, source, url], environment), seconds)
    return replace(shown, intervals=recorded(environment))


def recorded(environment: Mapping[str, str]) -> tuple[float, ...]:
    """When the intervals of the one transfer that a history holds ended."""
    command: list[str | Path] = [EDT, "history", "export", "--format", "json", "--table", "intervals"]
    told = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if told.returncode:
        raise Failed(f"the history cannot be read: {told.stderr.strip()}")
    return tuple(round(json.loads(line)["elapsed_s"], 3) for line in told.stdout.splitlines())


def followed(client: Measured, seconds: float) -> Timed:
    """Reads what `edt cp --json` tells, and ends it after its time; fails if it ends before that."""
    late = threading.Timer(seconds + LATE_S, client.kill)
    late.daemon = True
    late.start()
    try:
        timeline = told(client, seconds)
    except BaseException:
        client.kill()
        with suppress(Failed):
            client.end(expected=-signal.SIGKILL)
        raise
    finally:
        late.cancel()
    client.end(expected=INTERRUPTED)
    return Timed(client.begin, timeline)


def told(client: Measured, seconds: float) -> list[Sample]:
    """What was shown up to that time; asks the client to end then, and reads until it has.

    What is shown at the end of an interval covers all of it, and some of that was shown before: so throughput is told
    by the bytes that were verified since.
    """
    assert client.process.stdout is not None
    timeline: list[Sample] = []
    before = (0.0, 0)
    overruled = asked = False
    for line in client.process.stdout:
        event = json.loads(line)
        if event["event"] == "tuned":
            reason = event["decision"]["reason"]
            overruled = is_guards(reason)
        elif event["event"] == "sampled" and not asked and event["elapsed_s"] > before[0]:
            timeline.append(short(event, before, overruled=overruled))
            before = event["elapsed_s"], event["totals"]["bytes_verified"]
            asked = event["elapsed_s"] >= seconds - SLACK_S
            if asked:
                # Not SIGINT: who runs in the background may have been told to ignore that one.
                os.kill(client.process.pid, signal.SIGTERM)
    return timeline


def short(event: dict[str, Any], before: tuple[float, int], *, overruled: bool) -> Sample:
    """What is kept, from the seconds and the verified bytes of what was shown before."""
    loss = event["loss"]
    throughput = (event["totals"]["bytes_verified"] - before[1]) / (event["elapsed_s"] - before[0])
    return {
        "elapsed_s": round(event["elapsed_s"], 3),
        "throughput": {"network": round(throughput)},
        "concurrency": {"network": round(event["concurrency"]["network"], 2)},
        "loss": loss if loss is None else round(loss, 6),
        "overruled": overruled,
    }

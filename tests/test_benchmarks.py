"""The parts of the benchmarks in which a mistake would pass for a figure."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

import bench
import datasets
import emulated
import optimizers_page
import page
import peers
import plots
import results
import run
from bench import Options
from copies import Copied, Data, compare, copied
from experiments import system_calls
from experiments.peers import kept_as
from harness import wait_until
from paths import LOOPBACK, End
from peers.peer import DEFAULT, Setting
from points import OutOfTime, Point, Points
from processes import Failed, Measured, TooSlow, Workplace
from results import Figure, Outcome
from servers import Server, free_port
from settings import Known, best_of

BURNER = """
import os, socket, sys, time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
child = os.fork()
if child == 0:
    # Leaves an orphan behind, as a daemon does that forks twice for a connection.
    if os.fork() == 0:
        burn(0.4)
        open(sys.argv[2], "w").close()
        time.sleep(60)
    os._exit(0)
os.waitpid(child, 0)
burn(0.2)
open(sys.argv[2] + "2", "w").close()
time.sleep(60)
"""


def test_the_cpu_time_of_a_server_holds_that_of_its_orphans(scratch: Path) -> None:
    port, done = free_port(), scratch / "done"
    server = Server(End("127.0.0.1"), [sys.executable, "-c", BURNER, str(port), str(done)], port, scratch, {})
    while not (done.exists() and (scratch / "done2").exists()):
        assert server.reaper.process.poll() is None
    cost = server.stop()
    assert 0.55 < cost.cpu_s < 1.0, cost


def test_a_server_that_does_not_listen_is_named_with_what_it_said(scratch: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such option')"]
    with pytest.raises(Failed, match="no such option"):
        Server(End("127.0.0.1"), command, free_port(), scratch, {})


def test_a_client_that_takes_too_long_is_ended_with_its_children(scratch: Path) -> None:
    file = scratch / "pid"
    client = Measured(["sh", "-c", f"sleep 60 & echo $! > {file}; wait"], {}, talks=False)
    with pytest.raises(TooSlow):
        client.end(limit_s=2)
    child = int(file.read_text())
    wait_until(lambda: ended(child), "the end of the child")


def ended(process: int) -> bool:
    """Whether a process is gone, or waits for nobody but its parent to notice."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def test_points_of_the_same_identity_are_not_measured_again(scratch: Path) -> None:
    file = scratch / "points.json"
    first = Points(file, "commit 1", resume=False)
    assert first.measured("a", lambda: {"value": 1}) == {"value": 1}
    with pytest.raises(KeyboardInterrupt):
        first.measured("b", interrupted)
    again = Points(file, "commit 1", resume=True)
    assert again.measured("a", unexpected) == {"value": 1}
    assert again.measured("b", lambda: {"value": 2}) == {"value": 2}


def test_what_is_known_comes_after_the_deadline_too_and_nothing_else(scratch: Path) -> None:
    file = scratch / "points.json"
    Points(file, "commit 1", resume=False).measured("a", lambda: {"value": 1})
    late = Points(file, "commit 1", resume=True, deadline=time.monotonic())
    assert late.measured("a", unexpected) == {"value": 1}
    with pytest.raises(OutOfTime):
        late.measured("b", unexpected)


def test_points_of_another_commit_are_measured_again(scratch: Path) -> None:
    file = scratch / "points.json"
    Points(file, "commit 1", resume=False).measured("a", lambda: {"value": 1})
    assert Points(file, "commit 2", resume=True).measured("a", lambda: {"value": 2}) == {"value": 2}
    assert Points(file, "commit 2", resume=False).measured("a", lambda: {"value": 3}) == {"value": 3}


def interrupted() -> dict[str, int]:
    raise KeyboardInterrupt


def unexpected() -> dict[str, int]:
    raise AssertionError("measured again")


SETTINGS = tuple(Setting(name) for name in ("default", "failing", "slow", "fast", "middle"))
WALLS = {"default": 4.0, "slow": 9.0, "fast": 1.0, "middle": 1.4}


def test_the_search_finds_the_fastest_setting_and_gives_the_others_less_time() -> None:
    limits = {}

    def measure(setting: Setting, limit_s: float) -> Copied:
        limits[setting.name] = limit_s
        if setting.name == "failing":
            return Copied(1000, 1, limit_s, failed="refused")
        wall = WALLS[setting.name]
        return Copied(1000, 1, min(wall, limit_s), slower=wall > limit_s)

    found = best_of(SETTINGS, 20.0, measure)
    assert found.best.name == "fast"
    assert found.tried == {"default": 2000.0, "failing": 0.0, "slow": 0.0, "fast": 8000.0, "middle": 8000 / 1.4}
    assert limits == {"default": 20.0, "failing": 6.0, "slow": 6.0, "fast": 6.0, "middle": 1.5}


def test_the_search_keeps_the_default_where_nothing_gets_through() -> None:
    found = best_of(SETTINGS, 5.0, lambda _, limit_s: Copied(1000, 1, limit_s, slower=True))
    assert found.best.name == "default"


def test_a_known_setting_is_forgotten_when_the_version_changes(scratch: Path) -> None:
    peer, file = peers.ALL["rsync"], scratch / "settings.json"
    best = peer.settings[1]
    Known(file).learn("open small rsync", "3.2", best_of([best], 9, lambda *_: Copied(1000, 1, 1)))
    assert Known(file).setting("open small rsync", peer, "3.2") == best
    assert Known(file).setting("open small rsync", peer, "3.3") is None
    assert Known(file).setting("open large rsync", peer, "3.2") is None


def test_a_copy_that_lost_or_changed_something_does_not_count(scratch: Path) -> None:
    source, landed = scratch / "source", scratch / "landed"
    size = datasets.make("uniform", source, 2 / 64)
    data = Data("uniform", source, size)
    shutil.copytree(source, landed)
    compare(data, landed)
    victim = next(landed.iterdir())
    with victim.open("r+b") as file:
        file.seek(5_000_000)
        byte = file.read(1)
        file.seek(5_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(Failed, match="content"):
        compare(data, landed)
    victim.unlink()
    with pytest.raises(Failed, match="1 of 2 files"):
        compare(data, landed)


@pytest.mark.parametrize("name", [name for name in peers.ALL if not peers.ALL[name].missing()])
def test_a_peer_copies_a_tree_over_loopback(name: str, scratch: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("some servers give up the rights of root")
    place = Workplace(scratch)
    source = place.empty("source")
    data = Data("small", source, datasets.make("small", source, 20 / 4096))
    peer = peers.ALL[name]
    run = copied(place, LOOPBACK, peer, peer.settings[0], data, 60)
    assert not run.failed and not run.slower, run.failed
    assert run.goodput_bps > 0 and run.client_cpu_s > 0 and run.server_cpu_s > 0
    assert peer.settings[0].name in (DEFAULT.name, "fixed 8")


@pytest.mark.parametrize("name", [name for name in datasets.NAMES if name != "million"])
def test_a_data_set_is_scaled_to_the_bytes_that_were_asked_for(name: str) -> None:
    size = datasets.size_of(name, datasets.scale_for(name, 100e6))
    assert 0.5 * 100e6 < size.bytes < 1.5 * 100e6


def test_the_same_seed_gives_the_same_bytes(scratch: Path) -> None:
    for number in range(2):
        datasets.make("tiny", scratch / str(number), 0.001)
    datasets.make("tiny", scratch / "other", 0.001, seed=2)
    first, second, other = (b"".join(sorted(read(scratch / name))) for name in ("0", "1", "other"))
    assert first == second != other


def read(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in root.rglob("*.bin")]


def test_a_bar_on_memory_holds_for_the_worst_run_and_others_for_the_median() -> None:
    assert Figure("memory", "MiB", [1.0, 1.0, 9.0], at_most=5).passed is False
    assert Figure("ratio", "", [1.0, 1.0, 9.0], at_most=5).passed is True
    assert Figure("ratio", "", [1.0, 6.0, 9.0], at_least=5).passed is True
    assert json.dumps(Figure("free", "", [1.0]).passed) == "null"


SUMMARY = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.67    0.000074          14         5           munmap
  5.83    0.000007           0        12         3 statx
  0.00    0.000000           0         1           execve
------ ----------- ----------- --------- --------- ----------------
100.00    0.000081           4        18         3 total
"""


def test_a_summary_of_system_calls_is_read_with_and_without_errors() -> None:
    assert system_calls.parsed(SUMMARY) == {"munmap": 5, "statx": 12, "execve": 1}


@pytest.fixture
def kept(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results are kept and the page is written, in place of those of the repository."""
    for module in (bench, page, plots, results):
        monkeypatch.setattr(module, "FOLDER", scratch)
    monkeypatch.setattr(bench, "KEPT", scratch / "tmp")
    monkeypatch.setattr(page, "PAGE", scratch / "RESULTS.md")
    monkeypatch.setattr(sys, "argv", ["run.py", "peers", "--minutes", "1", "--resume"])
    return scratch


def asked(*paths: str) -> Options:
    """A short run of the peers over some paths."""
    return Options(paths=paths, datasets=("large",), tools=("edt",), repetitions=1, seconds=0.1)


def test_the_results_of_a_path_stay_when_another_one_is_measured(kept: Path) -> None:
    if reason := emulated.missing():
        pytest.skip(f"no path can be emulated here: {reason}")
    assert run.measure("peers", asked("loopback"))
    first = (kept / "peers-loopback.json").read_text()
    assert run.measure("peers", asked("newy-cern/15", "lossy"))
    assert (kept / "peers-loopback.json").read_text() == first
    for path in ("loopback", "newy-cern/15", "lossy"):
        document = json.loads((kept / f"{kept_as(path)}.json").read_text())
        assert {point["path"] for point in document["points"].values()} == {path}
        assert {row[0] for table in document["tables"] for row in table["rows"]} == {path}
    page.write()
    text = (kept / "RESULTS.md").read_text()
    for name in ("peers-loopback", "peers-newy-cern-15", "peers-lossy"):
        assert text.count(f"## {name}\n") == text.count(f"(results/{name}.png)") == 1
        assert (kept / f"{name}.png").exists()


def test_what_was_measured_is_kept_when_a_later_path_fails(kept: Path) -> None:
    assert not run.measure("peers", asked("loopback", "no-such-path"))
    assert (kept / "peers-loopback.json").exists()


def test_peers_are_known_once_every_path_is(kept: Path) -> None:
    options = asked("open", "newy-cern/15")
    results.keep(Outcome("peers-open", "", [], options.scale), "")
    assert not run.is_known("peers", options)
    results.keep(Outcome("peers-newy-cern-15", "", [], options.scale), "")
    assert run.is_known("peers", options)
    assert not run.is_known("peers", asked("open", "lossy"))
    assert not run.is_known("cpu", options)


def test_peers_of_all_paths_stand_on_the_page_where_their_experiment_does(kept: Path) -> None:
    for name in ("agents", "cpu", "million", "peers-lossy", "peers-open", "bars-cloudlab"):
        results.keep(Outcome(name, "", [], "quick"), "")
    order = ["bars-cloudlab", "peers-lossy", "peers-open", "cpu", "agents", "million"]
    assert [document["name"] for document in page.documents()] == order


def followed(*shares: float) -> Point:
    """What a copy over 1 Gbit/s reported: intervals of a second with these shares of it; streams cost nothing."""
    timeline = [
        {
            "elapsed_s": float(second),
            "throughput": {"network": share * 1e9 / 8},
            "concurrency": {"network": 0.0},
            "loss": None,
        }
        for second, share in enumerate(shares, start=1)
    ]
    return {"path": "open", "load": "light", "rate_bps": 1e9, "timeline": timeline}


def test_a_copy_is_near_the_best_once_three_intervals_are_on_average() -> None:
    assert optimizers_page.until_near(followed(0.2, 0.95, 0.5, 0.9, 0.95, 0.92, 0.1), 1.0) == 4.0
    assert optimizers_page.until_near(followed(0.9, 0.9, 0.9, 0.9), 1.0) == 1.0
    assert optimizers_page.until_near(followed(0.2, 0.95, 0.5, 0.9, 0.8, 0.1), 1.0) is None


def test_regret_is_what_was_missed_of_the_best_in_the_first_seconds() -> None:
    assert optimizers_page.regret(followed(0.5, 0.5, 1.0, 0.0), 1.0) == pytest.approx(1 / 3)
    late = followed(*[0.5] * 60)
    assert optimizers_page.regret(late, 1.0) == pytest.approx(0.5)
    assert optimizers_page.regret(followed(*[0.5] * 30, *[1.0] * 30), 0.5) == pytest.approx(0.0)


def test_the_best_constant_is_that_of_the_best_mean_utility() -> None:
    points = {
        name: {**followed(0.0, share, share, 0.0), "name": name}
        for name, share in (("fixed 4", 0.5), ("fixed 8", 0.8), ("falcon", 0.9))
    }
    best, constant = optimizers_page.best_fixed(points, "open", "light")
    assert best == pytest.approx(0.8) and constant["name"] == "fixed 8"

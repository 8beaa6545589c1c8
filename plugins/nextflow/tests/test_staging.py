"""Inputs from an edt server: what arrives, what is fetched again and what is not, and what must fail."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from harness import MIB, Server, fill
from pipeline import Pipeline, until
from reset_proxy import ResetProxy

OLD_NS = 1_600_000_000_123_456_789

MANY = """
process count {{
    input: path x
    output: stdout
    script: "cat * | wc -c; ls | wc -l"
}}
workflow {{ count(Channel.fromPath('{url}*').collect()) | view {{ 'told ' + it.trim().replace('\\n', ' ') }} }}
"""

ONE = """
process check {{
    input: path x
    output: stdout
    script: "sha256sum < $x"
}}
workflow {{ check(Channel.of(file('{url}'))) | view {{ 'sum ' + it.split(' ')[0] }} }}
"""


def digest(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


KINDS = """
process kinds {
    input:
    path one
    path folder
    path many
    val text
    output:
    stdout emit: out
    tuple val(text), path('again') , emit: kept
    script:
    "(cat $one; find -L $folder -type f | sort | xargs cat; cat $many; echo $text) | tee again"
}
process after {
    input: tuple val(place), path(x)
    output: stdout
    script: "echo $place"
}
workflow {
    base = 'URL'
    folder = file(base + 'folder')
    println "exists ${file(base + 'one file.txt').exists()} ${file(base + 'no').exists()}"
    println "list ${folder.list().sort()} ${folder.isDirectory()} ${file(base + 'one file.txt').size()}"
    println "time ${file(base + 'one file.txt').lastModified()}"
    println "deep ${files(base + 'folder/**.txt').collect { it.name }.sort()}"
    println "any ${files(base + 'many/f?.txt').size()}"
    Channel.fromFilePairs(base + 'pairs/p_{1,2}.txt').view { name, pair -> "pair $name ${pair*.name}" }
    one = file(base + 'one file.txt')
    kinds(one, folder, Channel.fromPath(base + 'many/f*.txt').collect(sort: true), one)
    kinds.out.out.view { 'told ' + it.trim().replace('\\n', ',') }
    after(kinds.out.kept)
}
"""


def test_files_directories_and_patterns_arrive_and_nothing_is_done_twice(server: Server, pipeline: Pipeline) -> None:
    root = server.root
    for name, text in {
        "one file.txt": "one\n",
        "folder/a.txt": "a\n",
        "folder/deep/b.txt": "b\n",
        "pairs/p_1.txt": "1",
        "pairs/p_2.txt": "2",
        **{f"many/f{number}.txt": f"{number}\n" for number in range(3)},
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    os.utime(root / "one file.txt", ns=(OLD_NS, OLD_NS))
    script = KINDS.replace("URL", server.url())
    run = pipeline.run(script)
    place = server.url("one%20file.txt")
    assert run.lines("told ") == [f"one,a,b,0,1,2,{place}"]
    assert run.lines("exists ") == ["true false"]
    assert run.lines("list ") == ["[a.txt, deep] true 4"]
    assert run.lines("time ") == [str(OLD_NS // 1_000_000)]
    assert run.lines("deep ") == ["[a.txt, b.txt]"]
    assert run.lines("any ") == ["3"]
    assert run.lines("pair ") == ["p [p_1.txt, p_2.txt]"]
    assert "Exception" not in run.log
    arrived = next(path for path in pipeline.staged() if path.name == "one file.txt")
    assert arrived.stat().st_mtime_ns == OLD_NS
    assert run.staged() == 6

    again = pipeline.run(script, "-resume")
    assert (again.submitted(), again.cached(), again.staged()) == (0, 2, 0)
    for folder in pipeline.work.glob("stage-*"):
        shutil.rmtree(folder)
    again = pipeline.run(script, "-resume")
    assert (again.submitted(), again.cached(), again.staged()) == (0, 2, 6)


def test_a_file_that_is_missing_fails_at_once_and_is_named(server: Server, pipeline: Pipeline) -> None:
    run = pipeline.run(ONE.format(url=server.url("no/such file")), expected=1)
    assert f"Can't stage file {server.url('no/such%20file')} -- file does not exist" in run.out
    assert "try 1 of 3" not in run.out


def test_two_thousand_small_inputs_of_a_task_are_staged_together(server: Server, pipeline: Pipeline) -> None:
    for number in range(2000):
        fill(server.root / "many" / f"f{number}", 1000, number)
    run = pipeline.run(MANY.format(url=server.url("many/")))
    assert run.lines("told ") == ["2000000 2000"]
    assert run.staged() == 2000
    # A batch takes what is asked for meanwhile: 2000 transfers would each connect for themselves.
    assert len(list((pipeline.work / ".edt" / "staging").iterdir())) <= 4
    kept = [json.loads(line) for line in server.edt.run("history", "export", "--format", "json").out.splitlines()]
    assert {(row["source"], row["outcome"]) for row in kept} == {(f"127.0.0.1_{server.port}", "complete")}
    assert sum(row["files_done"] for row in kept) == 2000


@pytest.fixture
def large(server: Server) -> Path:
    """A file that a connection breaks in."""
    fill(server.root / "large", 96 * MIB, "large")
    return server.root / "large"


def test_a_connection_that_is_reset_goes_on_where_it_was(server: Server, pipeline: Pipeline, large: Path) -> None:
    pipeline.configure("edt.maxStreams = 2")
    with ResetProxy(server.port, seed=1, resets=4, after_bytes=(8 * MIB, 24 * MIB)) as proxy:
        run = pipeline.run(ONE.format(url=server.url("large", port=proxy.port)))
        assert proxy.done > 0
    (kept,) = [json.loads(line) for line in server.edt.run("history", "export", "--format", "json").out.splitlines()]
    assert (kept["outcome"], kept["bytes_verified"], kept["retries"] > 0) == ("complete", 96 * MIB, True)
    # Each reset loses what is in buffers and not verified yet; four times anew, all of it would go at least twice.
    assert proxy.carried < 2 * 96 * MIB
    assert run.lines("sum ") == [digest(large)]
    assert "try 1 of 3" not in run.out


def test_a_killed_run_goes_on_where_it_was(server: Server, pipeline: Pipeline, large: Path) -> None:
    script = ONE.format(url=server.url("large"))
    pipeline.configure("edt { limitRate = '24MB'; progress = 1 }")
    process = pipeline.start(script)
    until(lambda: pipeline.moved_mb() > 40)
    pipeline.kill(process)
    assert not pipeline.staged()
    pipeline.configure()
    run = pipeline.run(script, "-resume")
    assert run.lines("sum ") == [digest(large)]
    assert pipeline.kept_mb(run) > 30
    assert [path.stat().st_size for path in pipeline.staged()] == [96 * MIB]


FOLDER = """
process count {{
    input: path folder
    output: stdout
    script: "cat $folder/* | wc -c"
}}
workflow {{ count(Channel.of(file('{url}'))) | view {{ 'told ' + it.trim() }} }}
"""


def test_what_arrived_before_a_disk_was_full_is_not_fetched_again(server: Server, pipeline: Pipeline) -> None:
    for number in range(3):
        fill(server.root / "folder" / f"{number}", 6 * MIB, number)
    fill(server.root / "folder" / "large", 24 * MIB, "large")
    script = FOLDER.format(url=server.url("folder"))
    lanes = pipeline.work / ".edt" / "staging"
    # Files of more than 8 MiB cannot be written: on a disk that is full this is no different.
    pipeline.before = ("bash", "-c", 'ulimit -f 8192; exec "$@"', "-")
    pipeline.run(script, expected=1)
    assert sorted(path.name for path in lanes.glob("*/data/folder/*")) == ["0", "1", "2"]
    pipeline.before = ()
    run = pipeline.run(script, "-resume")
    assert run.lines("told ") == [str(42 * MIB)]
    assert pipeline.kept_mb(run) > 15
    assert not [path for path in lanes.rglob("*") if path.is_file() and path.name != "lock"]


def test_what_a_killed_run_completed_of_many_files_is_not_fetched_again(server: Server, pipeline: Pipeline) -> None:
    sizes = [12 * MIB if number % 4 == 0 else MIB for number in range(24)]
    for number, size in enumerate(sizes):
        fill(server.root / "many" / f"f{number:02}", size, number)
    script = MANY.format(url=server.url("many/"))
    lanes = pipeline.work / ".edt" / "staging"

    def whole() -> list[int]:
        return [path.stat().st_size for path in lanes.glob("*/data/many/*")]

    def handed() -> list[int]:
        return [path.stat().st_size for path in pipeline.staged()]

    pipeline.configure("edt { limitRate = '6MB'; progress = 1 }")
    process = pipeline.start(script)
    until(lambda: len(whole() + handed()) >= 4)
    kept = sum(whole() + handed())
    # What was published in the last moment need not be noted yet.
    time.sleep(1)
    pipeline.kill(process)
    # A batch that ended meanwhile is Nextflow's, which asks for none of its files again.
    there = handed()
    # The next run asks for two files at once: its batches are others.
    pipeline.configure("edt.transfers = 2")
    run = pipeline.run(script, "-resume")
    assert run.lines("told ") == [f"{sum(sizes)} 24"]
    assert run.staged() == 24 - len(there)
    assert pipeline.kept_mb(run) + sum(there) / 1e6 >= kept / 1e6 - 0.1
    assert not [path for path in lanes.rglob("*") if path.is_file() and path.name != "lock"]


def test_what_is_fetched_ahead_is_there_when_tasks_ask_for_it(server: Server, pipeline: Pipeline) -> None:
    for number in range(60):
        fill(server.root / "many" / f"f{number}", 1000, number)
    script = """
include {{ edtPrefetch }} from 'plugin/nf-edt'
process one {{ input: path x
    output: stdout
    script: "cat $x | wc -c" }}
workflow {{
    one(Channel.fromPath('{url}*').map {{ edtPrefetch(it) }})
    one.out.map {{ it.trim().toInteger() }}.sum().view {{ 'sum ' + it }}
}}
"""
    run = pipeline.run(script.format(url=server.url("many/")))
    assert run.lines("sum ") == ["60000"]
    assert "60 files were fetched ahead" in run.out
    assert run.staged() == 60
    ahead = pipeline.work / ".edt" / "ahead"
    assert not [path for path in ahead.rglob("*") if path.is_file() and not path.is_symlink()]

    again = pipeline.run(script.format(url=server.url("many/")), "-resume")
    assert (again.submitted(), again.cached(), again.staged()) == (0, 60, 0)
    shutil.rmtree(next(pipeline.work.glob("stage-*")))
    again = pipeline.run(script.format(url=server.url("many/")), "-resume")
    assert (again.submitted(), again.cached(), again.staged()) == (0, 60, 60)


def test_names_and_links_lead_nowhere_else(server: Server, pipeline: Pipeline) -> None:
    authority = server.url("").split("://")[1].split("/")[0]
    for name in (f"run1/{authority}/x.txt", "other/keep.txt", "real/a.txt", "real/deep/b.txt"):
        (server.root / name).parent.mkdir(parents=True, exist_ok=True)
        (server.root / name).write_text(name)
    for name, target in {"link": "real", "real/deep/loop": "..", "run1/link": "../other"}.items():
        (server.root / name).symlink_to(target)
    script = """
println "glob ${files('URL/run1/*', type: 'any').collect { it.toString() }.sort()}"
println "linked ${files('URL/link/*.txt').collect { it.name }} ${file('URL/link/a.txt').exists()}"
println "deep ${files('URL/real/**.txt').collect { it.name }.sort()}"
println "gone ${file('URL/run1').deleteDir()} ${file('URL/run1').exists()}"
"""
    run = pipeline.run(script.replace("URL", server.url("").rstrip("/")))
    assert run.lines("glob ") == [f"[{server.url('run1')}/{authority}, {server.url('run1')}/link]"]
    assert run.lines("linked ") == ["[a.txt] true"]
    assert run.lines("deep ") == ["[a.txt, b.txt]"]
    assert run.lines("gone ") == ["true false"]
    assert sorted(path.name for path in server.root.iterdir()) == ["link", "other", "real"]
    assert (server.root / "other" / "keep.txt").exists()


def test_what_has_changed_since_it_was_fetched_ahead_is_fetched_again(server: Server, pipeline: Pipeline) -> None:
    for name in ("inside", "outside"):
        (server.root / name).write_text("old")
    script = """
include { edtPrefetch } from 'plugin/nf-edt'
process one { input: path x
    output: stdout
    script: "cat $x" }
workflow {
    inside = edtPrefetch(file('URL/inside'))
    outside = edtPrefetch(file('URL/outside'))
    while (files("${workflow.workDir}/.edt/ahead/*/*/{in,out}side", hidden: true).size() < 2) sleep(20)
    inside.append(' and new')
    new File('ROOT/outside').text = 'newer'
    one(Channel.of(inside, outside))
    one.out.view { 'is ' + it }
}
"""
    run = pipeline.run(script.replace("URL", server.url("").rstrip("/")).replace("ROOT", str(server.root)))
    assert sorted(run.lines("is ")) == ["newer", "old and new"]

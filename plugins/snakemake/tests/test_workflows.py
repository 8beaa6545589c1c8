"""Workflows that real Snakemake processes run on a real edt server."""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness import MIB, Server, fill, wait_until
from workflow import CURRENT, ENOUGH, Outcome, Workflow, ended, journaled, kill

MAP_REDUCE = """
    N = range(200)

    rule all:
        input: "sum.txt"

    rule reduce:
        input: expand("part/{n}.txt", n=N)
        output: "sum.txt"
        shell: "cat {input} | sort | uniq -c > {output}"
"""

ONE_LARGE = """
    rule all:
        input: "size.txt"

    rule size:
        input: "large.bin"
        output: "size.txt"
        shell: "sha256sum < {input} > {output}"
"""


def test_the_inputs_of_a_job_are_one_transfer(workflow: Workflow) -> None:
    for number in range(200):
        workflow.put(f"part/{number}.txt", "x\n")
    workflow.rules(MAP_REDUCE)
    outcome = workflow.run()
    assert (workflow.data / "sum.txt").read_text().split() == ["200", "x"]
    retrieved, stored = outcome.transfers()
    assert "200 files" in retrieved and "1 file" in stored
    kept = [json.loads(line) for line in workflow.server.edt.run("history", "list", "--json").out.splitlines()]
    assert [(row["files_done"], row["destination"] == "local") for row in kept] == [(1, False), (200, True)]
    assert "Nothing to be done" in workflow.run().log


def test_directories_temporary_and_protected_outputs_are_kept_as_they_should(workflow: Workflow) -> None:
    workflow.put("in.txt", "content")
    workflow.rules("""
        rule all:
            input: "last.txt"

        rule make:
            input: "in.txt"
            output: directory("tree"), temp("passing.txt")
            shell: "mkdir -p {output[0]}/a/b && cp {input} {output[0]}/a/b/f && cp {input} {output[1]}"

        rule use:
            input: "tree", "passing.txt"
            output: protected("last.txt")
            shell: "cat {input[0]}/a/b/f {input[1]} > {output}"
    """)
    workflow.run()
    assert (workflow.data / "tree/a/b/f").read_text() == "content"
    assert (workflow.data / "last.txt").read_text() == "contentcontent"
    # Older versions remove the local copy alone, whatever the storage.
    assert CURRENT is not (workflow.data / "passing.txt").exists()
    assert "Nothing to be done" in workflow.run().log
    # In another working directory everything comes from the storage, the directory too.
    (workflow.data / "last.txt").unlink()
    elsewhere = workflow.beside("elsewhere")
    elsewhere.run()
    assert (workflow.data / "last.txt").read_text() == "contentcontent"


def test_an_input_that_changed_at_the_storage_is_fetched_again(workflow: Workflow) -> None:
    # Of small files Snakemake compares the local copy with what it noted, not the storage.
    fill(workflow.data / "large.bin", 2 * MIB, "one")
    workflow.rules(ONE_LARGE)
    workflow.run("--keep-storage-local-copies")
    first = (workflow.data / "size.txt").read_text()
    fill(workflow.data / "large.bin", 2 * MIB, "two")
    workflow.run("--keep-storage-local-copies")
    assert (workflow.data / "size.txt").read_text() != first


def test_a_retrieval_that_was_killed_is_gone_on_with(workflow: Workflow) -> None:
    fill(workflow.data / "large.bin", 48 * MIB, 1)
    workflow.rules(ONE_LARGE)
    running = workflow.start("--storage-edt-limit-rate", "16MB")
    partial = workflow.folder / ".snakemake/storage/edt/.edt/lanes"
    wait_until(lambda: journaled(partial) > ENOUGH, "some of the file arrived")
    kill(running)
    running.communicate()
    assert not list((workflow.folder / ".snakemake/storage/edt/edt").rglob("large.bin"))
    workflow.run("--unlock")
    outcome = workflow.run()
    assert "resumed: " in outcome.log, outcome.log
    assert not [path for path in partial.rglob("*") if path.is_file() and path.name != "lock"]


def test_a_server_that_goes_away_for_a_while_ends_nothing(workflow: Workflow, server: Server) -> None:
    fill(workflow.data / "large.bin", 24 * MIB, 2)
    workflow.rules(ONE_LARGE)
    running = workflow.start("--storage-edt-limit-rate", "12MB")
    partial = workflow.folder / ".snakemake/storage/edt/.edt/lanes"
    wait_until(lambda: journaled(partial) > ENOUGH // 2, "some of the file arrived")
    server.kill()
    server.start()
    assert ended(running).code == 0


def test_two_runs_at_once_fetch_a_shared_input_once(workflow: Workflow, scratch: Path) -> None:
    fill(workflow.data / "large.bin", 16 * MIB, 3)
    workflow.rules(ONE_LARGE.replace('"size.txt"', """f"size-{config['name']}.txt\""""))
    other = workflow.beside("other")
    options = ["--storage-edt-cache-dir", str(scratch / "cache"), "--storage-edt-limit-rate", "8MB"]
    runs = [each.start(*options, "--config", f"name=run{number}") for number, each in enumerate((workflow, other))]
    outcomes = [ended(run) for run in runs]
    assert [outcome.code for outcome in outcomes] == [0, 0], [outcome.log for outcome in outcomes]
    assert sum(fetched(outcome) for outcome in outcomes) == 1


def test_an_output_that_is_updated_can_be_written_and_the_cache_stays(workflow: Workflow, scratch: Path) -> None:
    table = workflow.put("table.txt", "first\n")
    os.utime(table, (0, 1_700_000_000))
    workflow.put("more.txt", "second\n")
    workflow.rules("""
        rule all:
            input: "done.txt"

        rule add:
            input: before_update("table.txt"), "more.txt"
            output: update("table.txt")
            shell: "cat {input[1]} >> {output}"

        rule last:
            input: "table.txt"
            output: "done.txt"
            shell: "cp {input} {output}"
    """)
    workflow.run("--storage-edt-cache-dir", str(scratch / "cache"), "--storage-edt-writable")
    assert (workflow.data / "done.txt").read_text() == "first\nsecond\n"
    assert (workflow.data / "table.txt").read_text() == "first\nsecond\n"
    cached = [path for path in (scratch / "cache/objects").glob("*/*") if path.suffix != ".used"]
    assert sorted(path.read_text() for path in cached) == ["first\n", "second\n"]


def test_a_wrong_secret_is_an_error_without_a_trace(workflow: Workflow, scratch: Path) -> None:
    wrong = scratch / "wrong"
    wrong.write_text("another secret than that of the server")
    wrong.chmod(0o600)
    workflow.rules(ONE_LARGE)
    outcome = workflow.run("--storage-edt-token-file", str(wrong), expected=1)
    assert "WorkflowError" in outcome.log and "could not check `edt://" in outcome.log
    assert "secret is wrong" in outcome.log and "--storage-edt-token-file" in outcome.log
    assert "Traceback" not in outcome.log


def test_what_is_missing_is_named_and_nothing_is_left(workflow: Workflow) -> None:
    workflow.rules(ONE_LARGE)
    outcome = workflow.run(expected=1)
    assert "large.bin" in outcome.log and "Missing input files" in outcome.log


def fetched(outcome: Outcome) -> int:
    """How often a run fetched the 16 MiB file."""
    return sum("16.8 MB" in line for line in outcome.transfers())

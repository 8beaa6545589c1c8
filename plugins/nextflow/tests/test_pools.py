"""The threads with which Nextflow stages and publishes, where a run uses edt."""

from __future__ import annotations

import pytest

from harness import Server
from pipeline import Pipeline

SCRIPT = """
def session = nextflow.Global.session
def staging = {
    def field = session.filePorter.class.getDeclaredField('threadPool')
    field.accessible = true
    field.get(session.filePorter).with { "$corePoolSize to $maximumPoolSize" }
}
println "before ${staging()}"
file('URL')
println "after ${staging()}"
println "publishing ${session.publishDirExecutorService().with { "$corePoolSize to $maximumPoolSize" }}"
"""
CHOSEN = "threadPool.FileTransfer.maxThreads = 12\nthreadPool.PublishDir.maxThreads = 13"


@pytest.mark.parametrize(
    ("config", "after", "publishing"),
    [
        ("", "256 to 256", "256 to 256"),
        ("edt.transfers = 3", "3 to 3", "3 to 3"),
        (CHOSEN, None, "10 to 13"),
    ],
    ids=["edt", "chosen for edt", "chosen for Nextflow"],
)
def test_a_run_that_uses_edt_asks_for_more_files_at_once(
    server: Server, pipeline: Pipeline, config: str, after: str | None, publishing: str
) -> None:
    pipeline.configure(config)
    run = pipeline.run(SCRIPT.replace("URL", server.url("x")))
    (before,) = run.lines("before ")
    assert before != "256 to 256"
    assert run.lines("after ") == [after or before]
    assert run.lines("publishing ") == [publishing]

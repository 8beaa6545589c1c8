"""The threads with which Nextflow stages and publishes, where a run uses edt."""

from __future__ import annotations

import pytest

from harness import Server
from pipeline import Pipeline

SCRIPT = """
def session = nextflow.Global.session
def size(pool) {
    def seconds = pool.getKeepAliveTime(java.util.concurrent.TimeUnit.SECONDS)
    def idle = pool.allowsCoreThreadTimeOut() ? ", idle for $seconds s" : ''
    "$pool.corePoolSize to $pool.maximumPoolSize$idle"
}
def staging = {
    def field = session.filePorter.class.getDeclaredField('threadPool')
    field.accessible = true
    size(field.get(session.filePorter))
}
println "before ${staging()}"
file('URL')
println "after ${staging()}"
println "publishing ${size(session.publishDirExecutorService())}"
"""
IDLE = ", idle for 60 s"
CHOSEN = "threadPool.FileTransfer.maxThreads = 12\nthreadPool.PublishDir.maxThreads = 13"


@pytest.mark.parametrize(
    ("config", "after", "publishing"),
    [
        ("", f"256 to 256{IDLE}", f"256 to 256{IDLE}"),
        ("edt.transfers = 3", f"3 to 3{IDLE}", f"3 to 3{IDLE}"),
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
    assert not before.startswith("256 ") and IDLE not in before
    assert run.lines("after ") == [after or before]
    assert run.lines("publishing ") == [publishing]

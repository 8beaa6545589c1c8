"""The same plugin in each version of Nextflow and of Java that is supported, and with the parser of new versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import programs
from harness import Edt, Server
from pipeline import Pipeline

OLD_9, NEW = programs.VERSIONS[1:]
JAVA_11, JAVA_21 = programs.JAVAS
# Nextflow 25.04 needs Java 17.
SUPPORTED = [
    *((old, java) for old in (programs.OLDEST, OLD_9) for java in (JAVA_11, programs.SYSTEM, JAVA_21)),
    *((NEW, java) for java in (programs.SYSTEM, JAVA_21)),
]
OLD_NS = 1_600_000_000_000_000_000
SCRIPT = """
include { edtPrefetch } from 'plugin/nf-edt'
process upper {
    publishDir 'URL/out', mode: 'copy'
    input: path x
    path folder
    val place
    output: tuple val(place), path("${x.name}.up")
    script: "cat $x $folder/* | tr a-z A-Z > ${x.name}.up"
}
workflow {
    upper(Channel.fromPath('URL/d/*.txt').map { edtPrefetch(it) }, file('URL/e'), file('URL/e/f'))
}
"""


@pytest.mark.parametrize(("version", "java"), SUPPORTED, ids=lambda program: program.name)
def test_it_stages_publishes_and_resumes(
    server: Server, edt: Edt, scratch: Path, version: programs.Version, java: programs.Java
) -> None:
    if why := programs.absence(version, java):
        pytest.skip(why)
    for name in ("d/a.txt", "d/b.txt", "e/f"):
        (server.root / name).parent.mkdir(exist_ok=True)
        (server.root / name).write_text(name)
        os.utime(server.root / name, ns=(OLD_NS, OLD_NS))
    pipeline = Pipeline(scratch / "launch", edt, version, java.program)
    script = SCRIPT.replace("URL", server.url().rstrip("/"))
    run = pipeline.run(script)
    assert run.submitted() == 2
    assert run.staged() == 3
    texts = {path.name: path.read_text() for path in (server.root / "out").iterdir()}
    assert texts == {f"{name}.txt.up": f"D/{name.upper()}.TXTE/F" for name in "ab"}
    again = pipeline.run(script, "-resume")
    assert (again.submitted(), again.cached()) == (0, 2)


def test_the_parser_of_new_versions_knows_the_options(server: Server, edt: Edt, scratch: Path) -> None:
    if why := programs.absence(NEW):
        pytest.skip(why)
    pipeline = Pipeline(scratch / "launch", edt, NEW)
    pipeline.environment["NXF_SYNTAX_PARSER"] = "v2"
    pipeline.configure("edt { retries = 3 }")
    run = pipeline.run(f"workflow {{ println 'is ' + file('{server.url()}').exists() }}")
    assert run.lines("is ") == ["true"]
    assert "Unrecognized config option" not in run.out

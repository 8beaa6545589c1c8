"""Outputs to an edt server: modes, what stands there already, directories, and files that a script writes itself."""

from __future__ import annotations

import json
from pathlib import Path

from harness import Server
from pipeline import Pipeline

SCRIPT = """
params.text = 'one'
process copied { publishDir 'URL/copied', mode: 'copy'
    output: path 'a.txt'
    script: "echo ${params.text} > a.txt" }
process moved { publishDir 'URL/moved', mode: 'move'
    output: path 'a.txt'
    script: "echo ${params.text} > a.txt" }
process kept { publishDir 'URL/kept', mode: 'copy', overwrite: false
    output: path 'a.txt'
    script: "echo ${params.text} > a.txt" }
process replaced { publishDir 'URL/replaced', overwrite: true
    output: path 'a.txt'
    script: "echo ${params.text} > a.txt" }
process folder { publishDir 'URL/folder', mode: 'copy', saveAs: { 'in/' + it }
    output: path 'd'
    script: "mkdir -p d/e; echo ${params.text} > d/e/a.txt; ln -s e/a.txt d/link; touch d/${params.text}" }
process standard { publishDir 'URL/standard', mode: 'copy', overwrite: 'standard'
    output: path 'a.txt'
    script: "echo ${params.text} > a.txt" }
process lenient { publishDir 'URL/lenient', mode: 'copy', overwrite: 'lenient'
    output: path 'a.txt'
    script: "echo ${params.text} > a.txt" }
process deep { publishDir 'URL/deep', mode: 'copy', overwrite: 'deep'
    output: path 'a.txt'
    script: "echo ${params.text} > a.txt" }
workflow {
    copied(); moved(); kept(); replaced(); folder(); standard(); lenient(); deep()
    file('URL/written.txt').text = params.text
    file('URL/written.txt').append(' more')
    file('URL/written.txt').copyTo('URL/second/copy.txt')
    file('URL/second/copy.txt').moveTo('URL/second/renamed.txt')
    file('URL/empty/below').mkdirs()
    println "removed ${file('URL/second/renamed.txt').delete()} ${file('URL/second/renamed.txt').exists()}"
    file('URL/written.txt').copyTo('URL/second/last.txt')
    println "read ${file('URL/second/last.txt').text}"
    println "gone ${file('URL/empty').deleteDir()} ${file('URL/empty').exists()}"
    file('local.txt').text = 'local'
    file('local.txt').copyTo('URL/from-local.txt')
    file('URL/from-local.txt').copyTo('back.txt')
    println "back ${file('back.txt').text}"
}
"""

# `lenient` compares sizes alone.
OVERWRITTEN = ("copied", "moved", "replaced", "standard", "deep")
LEFT = ("kept", "lenient")
COMPARED = ("copied", "kept", "standard", "lenient", "deep")
"""What a run that changes nothing does not publish again."""


def texts(root: Path) -> dict[str, str]:
    """The files below a directory, links followed."""
    return {str(path.relative_to(root)): path.read_text().strip() for path in root.rglob("*") if path.is_file()}


def expected(copied: str, left: str, folder: dict[str, str]) -> dict[str, str]:
    """What must be there."""
    return {
        **{f"{name}/a.txt": copied for name in OVERWRITTEN},
        **{f"{name}/a.txt": left for name in LEFT},
        **{f"folder/in/d/{name}": text for name, text in folder.items()},
        "written.txt": f"{copied} more",
        "second/last.txt": f"{copied} more",
        "from-local.txt": "local",
    }


def test_outputs_are_published_as_the_mode_says(server: Server, pipeline: Pipeline) -> None:
    (server.root / "out").mkdir()
    script = SCRIPT.replace("URL", server.url("out"))
    run = pipeline.run(script)
    assert run.lines("removed ") == ["true false"]
    assert run.lines("gone ") == ["true false"]
    assert (run.lines("read "), run.lines("back ")) == (["one more"], ["local"])
    folder = {"e/a.txt": "one", "link": "one", "one": ""}
    assert texts(server.root / "out") == expected("one", "one", folder)
    # The tasks whose files are copied keep theirs in the work directory.
    made = sorted(path.stat().st_mtime_ns for path in pipeline.work.glob("??/*/a.txt"))
    there = [(server.root / "out" / name / "a.txt").stat().st_mtime_ns for name in (*COMPARED, "replaced")]
    assert set(there) <= set(made)
    assert len(made) == 6

    assert not list((server.root / "out").rglob(".*"))

    times = {name: (server.root / "out" / name / "a.txt").stat().st_ctime_ns for name in COMPARED}
    pipeline.run(script, "-resume")
    assert {name: (server.root / "out" / name / "a.txt").stat().st_ctime_ns for name in COMPARED} == times

    again = pipeline.run(script, "--text", "two")
    assert again.code == 0
    folder = {"e/a.txt": "two", "link": "two", "two": ""}
    assert texts(server.root / "out") == expected("two", "one", folder)


def test_many_outputs_are_published_together(server: Server, pipeline: Pipeline) -> None:
    script = f"""
process many {{ publishDir '{server.url("out")}', mode: 'copy'
    output: path 'f*'
    script: "for i in \\$(seq 1000); do echo \\$i > f\\$i; done" }}
workflow {{ many() }}
"""
    run = pipeline.run(script)
    assert len(list((server.root / "out").iterdir())) == 1000
    assert "published 1000 files" in run.out
    assert len(list((pipeline.work / ".edt" / "publishing").iterdir())) <= 4


def test_a_directory_may_have_a_name_as_long_as_file_systems_allow(server: Server, pipeline: Pipeline) -> None:
    name = "x" * 250
    script = f"""
process make {{ publishDir '{server.url("out")}', mode: 'copy'
    output: path 'x*'
    script: "mkdir {name}; echo one > {name}/a" }}
workflow {{ make() }}
"""
    pipeline.run(script)
    assert [path.name for path in (server.root / "out").iterdir()] == [name]
    assert (server.root / "out" / name / "a").read_text() == "one\n"


def test_what_a_run_writes_about_itself_goes_there_too(server: Server, pipeline: Pipeline) -> None:
    names = {"trace": "trace.txt", "report": "report.html", "timeline": "timeline.html"}
    words = [word for kind, name in names.items() for word in (f"-with-{kind}", server.url(f"out/{name}"))]
    run = pipeline.run("process counted { script: 'true' }\nworkflow { counted() }", *words)
    assert run.submitted() == 1
    written = {kind: (server.root / "out" / name).read_text() for kind, name in names.items()}
    assert "COMPLETED" in written["trace"]
    for kind in ("report", "timeline"):
        assert "counted" in written[kind]
        assert written[kind].rstrip().endswith("</html>")


OUTPUTS = """
nextflow.preview.output = true
process one {
    output: path 'a.txt'
    script: "echo one > a.txt"
}
workflow {
    main: one()
    publish: one.out >> 'results'
}
output {
    'results' {
        mode 'copy'
        index { path 'index.json' }
    }
}
"""


def test_outputs_of_a_workflow_are_published_with_their_index(server: Server, pipeline: Pipeline) -> None:
    pipeline.configure(f"outputDir = '{server.url('outputs')}'")
    pipeline.run(OUTPUTS)
    results = server.root / "outputs" / "results"
    assert {path.name for path in results.iterdir()} == {"a.txt", "index.json"}
    assert (results / "a.txt").read_text() == "one\n"
    assert json.loads((results / "index.json").read_text()) == [["a", server.url("outputs/results/a.txt")]]
    time = (results / "a.txt").stat().st_ctime_ns
    assert pipeline.run(OUTPUTS, "-resume").cached() == 1
    assert (results / "a.txt").stat().st_ctime_ns == time

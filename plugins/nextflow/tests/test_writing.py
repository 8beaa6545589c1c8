"""What is written in part: channels that fail, and directories whose publication breaks off."""

from __future__ import annotations

from pathlib import Path

from harness import MIB, Server, assert_no_wrong_file, contents
from pipeline import Pipeline, until

BROKEN = """
import java.nio.ByteBuffer
import java.nio.file.Files
import java.nio.file.OpenOption
import java.nio.file.StandardOpenOption

def attempt = { Closure work -> try { work(); 'done' } catch (IOException error) { error.message } }
def written = { String name, OpenOption... options ->
    def out = Files.newOutputStream(file("URL/$name"), options)
    def failed = attempt { 20.times { out.write(new byte[1 << 20]) } }
    println "$name: $failed, then ${attempt { out.close() }}"
}
written('new')
written('replaced')
written('longer', StandardOpenOption.APPEND)
Thread.start {
    def channel = Files.newByteChannel(file('URL/stopped'), StandardOpenOption.CREATE, StandardOpenOption.WRITE)
    channel.write(ByteBuffer.wrap(new byte[1000]))
    Thread.currentThread().interrupt()
    def failed = attempt { channel.write(ByteBuffer.wrap(new byte[1000])) }
    Thread.interrupted()
    println "stopped: $failed, then ${attempt { channel.close() }}"
}.join()
println "there ${file('URL/new').exists()} ${file('URL/stopped').exists()}"
file('URL/short').text = 'short'
"""


def test_a_channel_that_fails_in_the_middle_publishes_nothing(server: Server, pipeline: Pipeline) -> None:
    for name in ("replaced", "longer"):
        (server.root / name).write_text("as it was")
    # Files of more than 8 MiB cannot be written: on a disk that is full this is no different.
    pipeline.before = ("bash", "-c", 'ulimit -f 8192; exec "$@"', "-")
    run = pipeline.run(BROKEN.replace("URL", server.url().rstrip("/")))
    for name in ("new", "replaced", "longer"):
        (told,) = run.lines(f"{name}: ")
        assert told.startswith("File too large, then could not write"), told
        assert told.endswith("nothing was published"), told
    assert run.lines("stopped: ")[0].endswith("nothing was published")
    assert run.lines("there ") == ["false false"]
    assert {path.name: path.read_text() for path in server.root.iterdir() if path.is_file()} == {
        "replaced": "as it was",
        "longer": "as it was",
        "short": "short",
    }
    assert not list((pipeline.work / ".edt" / "writing").iterdir())


MODES = """
file('URL/new').text = 'new'
file('URL/replaced').text = 'another'
file('URL/longer') << ' and more'
"""


def test_a_file_that_a_channel_writes_has_the_mode_of_a_new_one_or_of_the_one_that_it_replaces(
    server: Server, pipeline: Pipeline
) -> None:
    for name in ("replaced", "longer"):
        (server.root / name).write_text("as it was")
        (server.root / name).chmod(0o664)
    pipeline.before = ("bash", "-c", 'umask 027; exec "$@"', "-")
    pipeline.run(MODES.replace("URL", server.url().rstrip("/")))
    modes = {path.name: path.stat().st_mode & 0o777 for path in server.root.iterdir() if path.is_file()}
    assert modes == {"new": 0o640, "replaced": 0o664, "longer": 0o664}


FOLDER = """
process make {
    publishDir 'URL/out', mode: 'copy'
    output: path 'd'
    script: "mkdir -p d/e; for i in 1 2 3 4 5 6; do head -c 16M /dev/urandom > d/e/\\$i; done; echo last > d/last"
}
workflow { make() }
"""
SLOW = "edt { limitRate = '24MB'; progress = 1 }"


def made(pipeline: Pipeline) -> Path:
    """The directory that the task has made."""
    (found,) = pipeline.work.glob("??/*/d")
    return found


def assert_only_a_part(out: Path, whole: Path) -> None:
    """Holds what is there of a publication to one directory under another name, with whole files alone."""
    (part,) = out.iterdir()
    assert part.name.startswith(".d.edt-")
    assert_no_wrong_file(whole, part)
    assert len(contents(part)) < len(contents(whole))


def test_a_directory_whose_publication_is_killed_is_not_there_and_goes_on(server: Server, pipeline: Pipeline) -> None:
    script = FOLDER.replace("URL", server.url().rstrip("/"))
    pipeline.configure(SLOW)
    process = pipeline.start(script)
    until(lambda: pipeline.moved_mb() > 40)
    pipeline.kill(process)
    assert_only_a_part(server.root / "out", made(pipeline))
    pipeline.configure()
    run = pipeline.run(script, "-resume")
    assert (run.submitted(), run.cached()) == (0, 1)
    assert [path.name for path in (server.root / "out").iterdir()] == ["d"]
    assert contents(server.root / "out" / "d") == contents(made(pipeline))
    assert pipeline.kept_mb(run) > 30


def test_a_directory_is_published_by_a_server_that_goes_away_meanwhile(server: Server, pipeline: Pipeline) -> None:
    pipeline.configure(SLOW)
    process = pipeline.start(FOLDER.replace("URL", server.url().rstrip("/")))
    until(lambda: pipeline.moved_mb() > 40)
    server.kill()
    assert_only_a_part(server.root / "out", made(pipeline))
    server.start()
    assert process.wait(90) == 0, (pipeline.folder / "out").read_text()
    assert [path.name for path in (server.root / "out").iterdir()] == ["d"]
    assert contents(server.root / "out" / "d") == contents(made(pipeline))
    assert sum(path.stat().st_size for path in (server.root / "out" / "d" / "e").iterdir()) == 96 * MIB

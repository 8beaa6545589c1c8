"""Links at a server: where they lead, where they lead to nothing, and what is told when nobody can find out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import Server
from pipeline import Pipeline
from reset_proxy import ResetProxy

LINKS = {
    "file": "../real/a",
    "folder": "../real",
    "gone": "nothing",
    "long": "x" * 300,
    "endless": "endless",
    "one": "other",
    "other": "one",
    "outside": "../../outside",
    "absolute": "/etc/hostname",
}
ALL = """
import java.nio.file.Files
def names = { what -> Files.newDirectoryStream(file('URL/links')).findAll(what).collect { it.name }.sort() }
println "all ${names { true }}"
println "files ${names { Files.isRegularFile(it) }}"
println "folders ${names { Files.isDirectory(it) }}"
println "there ${names { it.exists() }}"
println "below ${files('URL/**').collect { it.name }.sort().unique()}"
"""
CUT = """
import java.nio.file.Files
import java.nio.file.NoSuchFileException
import java.nio.file.NotDirectoryException
import java.nio.file.attribute.BasicFileAttributes
def found = new java.util.concurrent.ConcurrentHashMap()
def attempt = { Closure work ->
    try { work().toString() }
    catch (NoSuchFileException | NotDirectoryException error) { 'missing' }
    catch (IOException error) { 'failed' }
}
PORTS.collect { port -> Thread.start {
    def link = file("edt://127.0.0.1:${port}/links/file")
    def one = attempt { Files.readAttributes(link, BasicFileAttributes).with { "${it.size()} ${it.isRegularFile()}" } }
    def below = attempt { Files.newDirectoryStream(file("edt://127.0.0.1:${port}/links/folder")).collect { it.name } }
    found[port] = "$one, $below"
} }*.join()
found.values().each { println "told $it" }
"""


@pytest.fixture
def linked(server: Server) -> Path:
    """A directory with links of all kinds."""
    (server.root / "real").mkdir()
    (server.root / "real" / "a").write_text("12345")
    (server.root / "links").mkdir()
    (server.root.parent / "outside").write_text("not to be seen")
    for name, target in LINKS.items():
        (server.root / "links" / name).symlink_to(target)
    return server.root / "links"


def test_a_link_that_leads_nowhere_keeps_no_other_from_being_listed(
    server: Server, pipeline: Pipeline, linked: Path
) -> None:
    run = pipeline.run(ALL.replace("URL", server.url().rstrip("/")))
    assert run.lines("all ") == [f"[{', '.join(sorted(LINKS))}]"]
    assert run.lines("files ") == ["[file]"]
    assert run.lines("folders ") == ["[folder]"]
    assert run.lines("there ") == ["[file, folder]"]
    assert run.lines("below ") == ["[a, file]"]


@pytest.fixture
def cut(server: Server) -> Iterator[list[int]]:
    """Ports at which the server is reached by connections that break, each port after another number of bytes."""
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(ResetProxy(server.port, seed=0, resets=1_000_000, after_bytes=(size, size)))
            for size in range(200, 6200, 200)
        ]
        yield [proxy.port for proxy in proxies]


def test_what_could_not_be_followed_is_no_file_that_is_missing(
    server: Server, pipeline: Pipeline, linked: Path, cut: list[int]
) -> None:
    pipeline.configure("edt.retries = 0")
    run = pipeline.run(CUT.replace("PORTS", str(cut)))
    told = run.lines("told ")
    assert len(told) == len(cut)
    assert set(told) <= {f"{one}, {below}" for one in ("5 true", "failed") for below in ("[a]", "failed")}
    assert "5 true, [a]" in told
    assert "failed, failed" in told

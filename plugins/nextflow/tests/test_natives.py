"""The native library: which one a machine gets, and what is said where there is none that fits."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import programs
from harness import Server
from pipeline import Pipeline

SOURCES = Path(__file__).resolve().parent / "java" / "io" / "edt" / "nf"
GLIBC = "7f0a00000000-7f0a00028000 r--p 00000000 08:01 42   /usr/lib/x86_64-linux-gnu/libc.so.6\n"
MUSL = "7f0a00000000-7f0a00014000 r--p 00000000 08:01 42   /lib/ld-musl-x86_64.so.1\n"
HERE = f"linux-{platform.machine()}"


@pytest.fixture
def natives(scratch: Path) -> Callable[[Path | None], list[str]]:
    """What the class says, with a library that is given or with those of the plugin."""
    if shutil.which("javac") is None or not programs.PLUGIN.exists():
        pytest.skip("there is no compiler of Java, or the plugin is not built")
    classes = f"{programs.BUILT / 'classes'}:{scratch / 'classes'}"
    subprocess.run(["javac", "-cp", classes, "-d", scratch / "classes", SOURCES / "Natives.java"], check=True)
    for name, text in (("glibc", GLIBC), ("musl", GLIBC.replace("libc.so.6", "libz.so.1") + MUSL)):
        (scratch / name).write_text(text)

    def told(library: Path | None) -> list[str]:
        given = [f"-Dedt.library={library}"] if library else []
        words = [str(scratch / name) for name in ("glibc", "musl", "nothing")]
        command = ["java", *given, "-cp", classes, "io.edt.nf.Natives", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()

    return told


def test_a_machine_gets_the_library_for_its_own_c_library(natives: Callable[[Path | None], list[str]]) -> None:
    assert natives(None) == [f"platform {HERE}", "musl false", "musl true", "musl false", "loaded", "loaded"]


def test_a_library_that_does_not_fit_is_named_each_time(
    natives: Callable[[Path | None], list[str]], scratch: Path
) -> None:
    (scratch / "other.so").write_text("of another kind of machine")
    first, second = natives(scratch / "other.so")[-2:]
    assert first == second
    assert first.startswith(f"said could not load the library of edt: {scratch}/other.so: ")
    assert f"hint: this machine is {HERE}" in first
    missing = natives(scratch / "missing.so")[-1]
    assert f"could not find the library of edt for this machine, {HERE}, at {scratch}/missing.so" in missing


def test_a_panic_becomes_an_exception_and_ends_nothing(scratch: Path) -> None:
    if shutil.which("javac") is None or not programs.PLUGIN.exists():
        pytest.skip("there is no compiler of Java, or the plugin is not built")
    classes = f"{programs.BUILT / 'classes'}:{scratch / 'classes'}"
    subprocess.run(["javac", "-cp", classes, "-d", scratch / "classes", SOURCES / "Panics.java"], check=True)
    (scratch / "file").write_text("12345")
    command = ["java", "-cp", classes, "io.edt.nf.Panics", str(scratch / "file")]
    *panics, kind = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert kind == "f"
    if panics == 2 * ["no panic"]:
        pytest.skip("the library was built without debug assertions, and panics for nobody")
    assert panics == 2 * ["panic: edt panicked: on purpose (hint: report this as a bug): false"]


def test_a_plugin_without_a_library_for_the_machine_says_so(server: Server, pipeline: Pipeline) -> None:
    plugin = Path(pipeline.environment["NXF_HOME"]) / "plugins" / programs.PLUGIN.stem
    (plugin / "native" / HERE).rename(plugin / "native" / "linux-other")
    run = pipeline.run(f"println file('{server.url('x')}').exists()", expected=1)
    assert f"could not find the library of edt for this machine, {HERE}, at " in run.out
    assert "the plugin was built for " in run.out
    assert "linux-other" in run.out
    assert "edt.library" in run.out

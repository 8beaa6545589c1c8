"""The options of the plugin: what is said of each that does not fit, and which are taken."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import programs

SOURCE = Path(__file__).resolve().parent / "java" / "io" / "edt" / "nf" / "Options.java"
NAMES = (
    *("knownHosts", "limitRate", "maxStreams", "mounts", "partialDir", "plain", "progress", "retries", "schemes"),
    *("statTtl", "tokenFile", "transfers"),
)
A_DURATION = "seconds, or a duration such as '10s'"
A_MAP = "such as ['edt://host/data': '/mnt/data']"
PATHS = f"URLs that lead to absolute paths, {A_MAP}"
SCHEMES = "a list of ftp, ftps, http, https, sftp"
WRONG = {
    "retries": [
        ("'many'", "many", "a whole number from 0 to 100"),
        ("101", "101", "a whole number from 0 to 100"),
        ("1.5", "1.5", "a whole number from 0 to 100"),
    ],
    "transfers": [
        ("0", "0", "a whole number from 1 to 10000"),
        ("10001", "10001", "a whole number from 1 to 10000"),
    ],
    "progress": [("'soon'", "soon", A_DURATION), ("-1", "-1", A_DURATION)],
    "statTtl": [("'2 parsec'", "2 parsec", A_DURATION), ("-0.5", "-0.5", A_DURATION)],
    "schemes": [("['https', 's3']", "s3", SCHEMES), ("'edt'", "edt", SCHEMES)],
    "mounts": [
        ("'/mnt/data'", "/mnt/data", f"a map {A_MAP}"),
        ("['edt://host/data': 'mnt']", "edt://host/data=mnt", PATHS),
        ("['s3://bucket': '/mnt']", "s3://bucket=/mnt", PATHS),
    ],
    "tokenFile": [("'none'", "none", "the path of a file that can be read")],
}
"""By option: a value as it is written, as it is told, and what is to be written instead."""
WRONG_BELOW = {
    "plain": ["maybe", "yes"],
    "maxStreams": ["0", "70000", "-1", "few"],
    "limitRate": ["0", "fast", "-1MB"],
}
"""Values that the natives check."""
RIGHT = (
    "edt { retries = 0; transfers = 10000; progress = 0; statTtl = 0.5; partialDir = '/tmp/parts' }",
    "edt { retries = '100'; progress = '10s'; statTtl = 2.s; schemes = 'https'; mounts = ['edt://host/d': '/mnt/d'] }",
    "edt { schemes = ['https', 'http', 'ftp', 'ftps', 'sftp']; mounts = ['sftp://host/d': '/mnt/d'] }",
    "params.other = 1",
    "edt { plain = true; maxStreams = 65535; limitRate = '50 MB'; knownHosts = 'none-yet' }",
)


def said(scratch: Path, configs: list[str], begin: str = "said ") -> list[str]:
    """What is said of each configuration, or what lines with another begin tell."""
    if shutil.which("javac") is None or programs.absence():
        pytest.skip(programs.absence() or "there is no compiler of Java")
    classes = f"{programs.BUILT / 'classes'}:{scratch / 'classes'}:{programs.OLDEST.folder}/*"
    subprocess.run(["javac", "-cp", classes, "-d", scratch / "classes", SOURCE], check=True)
    command = ["java", *programs.OPTIONS, "-cp", classes, "io.edt.nf.Options", *configs]
    out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=scratch).stdout
    # Nextflow logs between these lines.
    return [line.removeprefix(begin) for line in out.splitlines() if line.startswith(begin)]


def test_each_value_that_does_not_fit_is_named_with_what_fits(scratch: Path) -> None:
    expected = {
        "edt.speed = 1": f"unknown option `edt.speed`: there are {', '.join(NAMES)}",
        "edt = 3": "could not use `3` for `edt`: write edt { option = value }",
    }
    for name, values in WRONG.items():
        for written, told, instead in values:
            expected[f"edt.{name} = {written}"] = f"could not use `{told}` for the option `edt.{name}`: write {instead}"
    for name, texts in WRONG_BELOW.items():
        for text in texts:
            expected[f"edt.{name} = '{text}'"] = f"could not use the setting `{name}`: `{text}` does not fit"
    assert {*WRONG, *WRONG_BELOW, "knownHosts", "partialDir"} == set(NAMES)
    assert dict(zip(expected, said(scratch, list(expected)), strict=True)) == expected


def test_values_that_fit_are_taken(scratch: Path) -> None:
    assert said(scratch, list(RIGHT)) == len(RIGHT) * ["nothing"]


def test_a_path_may_begin_with_the_home_directory(scratch: Path) -> None:
    [home, here] = said(scratch, ["edt.partialDir = '~/parts'", "edt.partialDir = 'parts'"], "path ")
    assert home.startswith("/")
    assert home.endswith("/parts")
    assert "~" not in home
    assert here == str(scratch.resolve() / "parts")

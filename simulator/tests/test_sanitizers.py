"""The C++ sources compile without a warning, and run clean under sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent
CMAKE = shutil.which("cmake")


@pytest.mark.skipif(CMAKE is None or sys.platform == "win32", reason="needs cmake and the sanitizers of GCC or Clang")
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_batches_of_every_kind_run_clean(sanitizers: str, tmp_path: Path) -> None:
    options = [
        "-DEDT_PYTHON=OFF",
        "-DEDT_WARNINGS_AS_ERRORS=ON",
        f"-DEDT_SANITIZE={sanitizers}",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_UNITY_BUILD=ON",
    ]
    configure = [str(CMAKE), "-S", str(SOURCE), "-B", str(tmp_path), *options]
    build = [str(CMAKE), "--build", str(tmp_path), "--target", "simulation_test"]
    for command in (configure, build, [str(tmp_path / "simulation_test")]):
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "CMAKE_BUILD_PARALLEL_LEVEL": "1"}
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr

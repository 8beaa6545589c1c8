"""Builds the plugin nf-edt; with `--host`, only with the native library of this machine, as the tests need it.

Libraries for machines of all kinds need `cargo-zigbuild` (`pip install cargo-zigbuild ziglang`) and the targets of
Rust (`rustup target add ...`); what cannot be built here is left out, and said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "nextflow"
NATIVE = FOLDER / "native"
# By the names under which the plugin looks for them. 2.17 is the C library of the oldest systems still in use.
TARGETS = {
    "linux-x86_64": "x86_64-unknown-linux-gnu.2.17",
    "linux-aarch64": "aarch64-unknown-linux-gnu.2.17",
    "linux-x86_64-musl": "x86_64-unknown-linux-musl",
    "linux-aarch64-musl": "aarch64-unknown-linux-musl",
    "macos-x86_64": "x86_64-apple-darwin",
    "macos-aarch64": "aarch64-apple-darwin",
}


def main() -> int:
    if unknown := [word for word in sys.argv[1:] if word != "--host"]:
        print(f"unknown: {' '.join(unknown)}", file=sys.stderr)
        return 2
    if shutil.which("mvn") is None:
        print("the plugin for Nextflow is not built: `mvn` (Maven) is not installed", file=sys.stderr)
        return 1
    shutil.rmtree(NATIVE, ignore_errors=True)
    host = host_platform()
    if "--host" in sys.argv[1:]:
        build_host(host)
    else:
        build_all(host)
    run("mvn", "-q", "-B", f"-Dbuilt={FOLDER}", "package", folder=ROOT / "plugins" / "nextflow")
    archive = next(FOLDER.glob("nf-edt-*.zip"))
    platforms = ", ".join(sorted(path.name for path in NATIVE.iterdir()))
    print(f"{archive.relative_to(ROOT)}: {archive.stat().st_size / 1e6:.0f} MB, for {platforms}", flush=True)
    return 0


def host_platform() -> str:
    """The name of this machine's kind."""
    lines = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
    triple = next(line.split()[1] for line in lines if line.startswith("host: "))
    return next((name for name, target in TARGETS.items() if target.removesuffix(".2.17") == triple), triple)


def build_host(host: str) -> None:
    """Builds for this machine, with what else the build of the workspace has compiled."""
    # Chosen together with the command line, dependencies have the features with which the workspace has compiled them.
    run("cargo", "build", "--release", "--locked", "-p", "edt-cli", "-p", "edt-jni", "--lib")
    keep(host, ROOT / "target" / "release")


def build_all(host: str) -> None:
    """Builds for all kinds of machines for which there is a compiler here, and at least for this one."""
    if shutil.which("cargo-zigbuild") is None:
        print(f"only {host} is built, for machines like this one: `cargo-zigbuild` is not installed", flush=True)
        build_host(host)
        return
    for name, target in TARGETS.items():
        triple = target.removesuffix(".2.17")
        if not is_installed(triple) or (name.startswith("macos") and sys.platform != "darwin"):
            print(f"{name} is left out: there is no standard library of Rust for {triple} here", flush=True)
            continue
        run("cargo", "zigbuild", "--release", "--locked", "-p", "edt-jni", "--target", target, more=flags(triple))
        keep(name, ROOT / "target" / triple / "release")


def flags(triple: str) -> dict[str, str]:
    """What the environment must say for a target: Rust links musl in, and then builds no library to load."""
    name = f"CARGO_TARGET_{triple.upper().replace('-', '_')}_RUSTFLAGS"
    return {name: "-C target-feature=-crt-static"} if triple.endswith("musl") else {}


def is_installed(triple: str) -> bool:
    """Whether this compiler can build for a target."""
    root = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    return (Path(root) / "lib" / "rustlib" / triple / "lib").is_dir()


def keep(name: str, built: Path) -> None:
    """Puts a library where the plugin is packed from, without what only debuggers need."""
    library = next(path for path in (built / "libedt_jni.so", built / "libedt_jni.dylib") if path.exists())
    target = NATIVE / name / library.name
    target.parent.mkdir(parents=True)
    shutil.copy2(library, target)
    strip = next((tool for tool in ("llvm-strip", "strip") if shutil.which(tool)), None)
    if strip and "aarch64" not in name:
        subprocess.run([strip, "-S", target], check=True)


def run(*command: str, folder: Path = ROOT, more: dict[str, str] | None = None) -> None:
    """Runs a command, with more variables in its environment."""
    subprocess.run(command, cwd=folder, env={**os.environ, **(more or {})}, check=True)


if __name__ == "__main__":
    sys.exit(main())

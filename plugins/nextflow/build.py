"""Builds the plugin nf-edt for Nextflow, with native libraries for all kinds of machines that can be built here.

    build.py                 the plugin, with all libraries that can be built here
    build.py --host          the plugin, with the library for machines like this one, as the tests need it: below
                             target/nextflow/host
    build.py --libraries     these libraries alone, below target/nextflow/native
    build.py --with FOLDER   the plugin, with the libraries that a folder has: of several machines, put together

Libraries for other kinds of Linux, and for an old C library, need `cargo-zigbuild` and `ziglang` (`pip install
cargo-zigbuild`); all need their targets of Rust (`rustup target add ...`). What cannot be built is left out, and said.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "nextflow"
HOST = FOLDER / "host"
"""What is built for this machine alone, apart from what is built for all."""
OLD_GLIBC = ".2.17"
"""The C library of the oldest systems still in use, as cargo-zigbuild is told of it."""
TARGETS = {
    "linux-x86_64": "x86_64-unknown-linux-gnu",
    "linux-aarch64": "aarch64-unknown-linux-gnu",
    "linux-x86_64-musl": "x86_64-unknown-linux-musl",
    "linux-aarch64-musl": "aarch64-unknown-linux-musl",
    "macos-x86_64": "x86_64-apple-darwin",
    "macos-aarch64": "aarch64-apple-darwin",
}
"""The targets of Rust by the names under which the plugin looks for libraries."""
LIBRARIES = ("libedt_jni.so", "libedt_jni.dylib")


def main() -> int:
    words = arguments()
    if not words.libraries and shutil.which("mvn") is None:
        print("the plugin for Nextflow is not built: `mvn` (Maven) is not installed", file=sys.stderr)
        return 1
    built = HOST if words.host else FOLDER
    native = built / "native"
    shutil.rmtree(native, ignore_errors=True)
    native.mkdir(parents=True)
    if words.given:
        take(words.given, native)
    elif words.host:
        build_host(native)
    else:
        build_all(native)
    there = sorted(path.name for path in native.iterdir())
    if not there:
        print("no library for any kind of machine is there: the plugin would not run", file=sys.stderr)
        return 1
    if words.libraries:
        print(f"{native.relative_to(ROOT)}: for {', '.join(there)}", flush=True)
    else:
        pack(built, there)
    return 0


def arguments() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--host", action="store_true")
    choice.add_argument("--libraries", action="store_true")
    choice.add_argument("--with", dest="given", type=Path, metavar="FOLDER")
    words = parser.parse_args()
    if words.given and words.given.resolve() == FOLDER / "native":
        parser.error(f"{words.given} is made anew: copy the libraries elsewhere first")
    return words


def pack(built: Path, there: list[str]) -> None:
    """Compiles the classes, and packs them with the libraries."""
    run("mvn", "-q", "-B", f"-Dbuilt={built}", "package", folder=ROOT / "plugins" / "nextflow")
    archive = next(built.glob("nf-edt-*.zip"))
    print(f"{archive.relative_to(ROOT)}: {archive.stat().st_size / 1e6:.0f} MB, for {', '.join(there)}", flush=True)


def take(folder: Path, native: Path) -> None:
    """Takes libraries that were built elsewhere: FOLDER/NAME/libedt_jni.so."""
    for name in TARGETS:
        found = [folder / name / library for library in LIBRARIES if (folder / name / library).is_file()]
        if found:
            keep(native / name, found[0])
        else:
            print(f"{name} is left out: {folder / name} holds no library", flush=True)


def build_host(native: Path) -> None:
    """Builds for this machine, with what else the build of the workspace has compiled."""
    triple = host()
    # Chosen together with the command line, dependencies have the features with which the workspace has compiled them.
    run("cargo", "build", "--release", "--locked", "-p", "edt-cli", "-p", "edt-jni", "--lib")
    library = library_in(ROOT / "target" / "release")
    kept = keep(native / next((name for name, target in TARGETS.items() if target == triple), triple), library)
    if shutil.which("strip"):
        subprocess.run(["strip", "-S", kept], check=True)


def build_all(native: Path) -> None:
    """Builds for all kinds of machines for which there are compilers here."""
    zig = located("cargo-zigbuild")
    if all(reason(target, zig) for target in TARGETS.values()):
        print(f"{host()} is built as it is on this machine: it needs a C library as new as this one's", flush=True)
        build_host(native)
    for name, target in TARGETS.items():
        if (native / name).exists():
            continue
        if why := reason(target, zig):
            print(f"{name} is left out: {why}", flush=True)
        else:
            build(native / name, target, zig)


def reason(target: str, zig: str | None) -> str | None:
    """Why a target cannot be built here; `None` if it can."""
    darwin = sys.platform == "darwin"
    if target.endswith("darwin") and not darwin:
        return "it is built on macOS"
    if not target.endswith("darwin") and zig is None:
        return "`cargo-zigbuild` is not installed: pip install cargo-zigbuild"
    if not has_target(target):
        return f"Rust has no library for it: rustup target add {target}"
    return None


def build(place: Path, target: str, zig: str | None) -> None:
    """Builds for one kind of machine, without what only debuggers need."""
    linux = not target.endswith("darwin")
    program = [zig or "cargo-zigbuild"] if linux else ["cargo"]
    chosen = target + (OLD_GLIBC if target.endswith("gnu") else "")
    words = ["rustc", "--release", "--locked", "-p", "edt-jni", "--lib", "--target", chosen]
    run(*program, *words, "--", "-C", "strip=symbols", more=flags(target))
    keep(place, library_in(output() / target / "release"))


def flags(target: str) -> dict[str, str]:
    """What the environment must say: Rust links musl in, and then builds no library to load; zig is beside Python."""
    found = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    if target.endswith("musl"):
        found[f"CARGO_TARGET_{target.upper().replace('-', '_')}_RUSTFLAGS"] = "-C target-feature=-crt-static"
    return found


def located(program: str) -> str | None:
    """Where a program is, beside this Python or on the path."""
    beside = Path(sys.executable).parent / program
    return str(beside) if beside.exists() else shutil.which(program)


def output() -> Path:
    """Where cargo builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def host() -> str:
    """The target of Rust for machines like this one."""
    lines = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
    return next(line.split()[1] for line in lines if line.startswith("host: "))


def has_target(target: str) -> bool:
    """Whether the compiler can build for a target."""
    root = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    return (Path(root) / "lib" / "rustlib" / target / "lib").is_dir()


def library_in(folder: Path) -> Path:
    """The library in a folder of cargo."""
    return next(path for path in (folder / name for name in LIBRARIES) if path.exists())


def keep(place: Path, library: Path) -> Path:
    """Puts a library where the plugin is packed from."""
    target = place / library.name
    target.parent.mkdir(parents=True)
    shutil.copy2(library, target)
    return target


def run(*command: str, folder: Path = ROOT, more: dict[str, str] | None = None) -> None:
    """Runs a command, with more variables in its environment."""
    subprocess.run(command, cwd=folder, env={**os.environ, **(more or {})}, check=True)


if __name__ == "__main__":
    sys.exit(main())

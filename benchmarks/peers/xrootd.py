"""XRootD: `xrdcp -r` from an `xrootd` server, with and without checksums."""

from __future__ import annotations

import shutil
from pathlib import Path

from peers.peer import DAEMON_USER, Job, Peer, Setting
from processes import Measured
from servers import Server


class XRootD(Peer):
    """`xrdcp` pulls from a server without authentication or encryption: only then do its streams carry data (`-S`)."""

    programs = ("xrdcp", "xrootd")
    packages = ("xrootd-client", "xrootd-server")
    version = ("xrdcp", "--version")
    settings = (
        Setting("default"),
        Setting("parallel 4 S 4", ("--parallel", "4", "-S", "4")),
        Setting("parallel 4 S 15", ("--parallel", "4", "-S", "15")),
        Setting("parallel 16 S 8", ("--parallel", "16", "-S", "8")),
        Setting("parallel 64 S 8", ("--parallel", "64", "-S", "8")),
        Setting("parallel 64", ("--parallel", "64")),
    )

    def __init__(self, name: str, about: str, *, checksum: str | None) -> None:
        self.name = name
        self.about = about
        self.checksum = checksum
        self.checks_integrity = checksum is not None

    def serve(self, job: Job) -> list[Server]:
        state = job.scratch / "xrootd"
        state.mkdir()
        shutil.chown(state, DAEMON_USER)
        port = job.ports[0]
        configuration = state / "xrootd.cfg"
        configuration.write_text(
            f"xrd.port {port}\nall.export {job.source}\nall.adminpath {state}\nall.pidpath {state}\n"
            "xrootd.chksum adler32\nxrootd.async off\n"
        )
        log = ("-l", state / "xrootd.log", "-n", "bench")
        return [job.serve(job.ends.near, port, "xrootd", "-R", DAEMON_USER, "-c", configuration, *log)]

    def copy(self, job: Job, setting: Setting) -> Measured:
        url = f"root://{job.ends.near.address}:{job.ports[0]}/{job.source}/"
        checksum = ("--cksum", self.checksum) if self.checksum else ()
        return job.start(job.ends.far, "xrdcp", "-r", "-s", "-N", *checksum, *setting.options, url, f"{job.target}/")

    def landed(self, job: Job) -> Path:
        return job.target / job.source.name


PLAIN = XRootD("xrdcp", "`xrdcp -r`, a pull, not encrypted, no digests", checksum=None)
CHECKED = XRootD("xrdcp-adler32", "`xrdcp -r --cksum adler32`, a pull, not encrypted", checksum="adler32")

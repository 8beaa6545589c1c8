"""rsync: to its own daemon, over one connection."""

from __future__ import annotations

from peers.peer import Job, Peer, Setting
from processes import Measured
from servers import Server


class Rsync(Peer):
    """`rsync -r` to a daemon; it always compares a digest of each file."""

    name = "rsync"
    about = "`rsync -rt` to a daemon, not encrypted, digest of each file compared"
    programs = ("rsync",)
    packages = ("rsync",)
    version = ("rsync", "--version")
    checks_integrity = True
    settings = (
        Setting("default"),
        Setting("whole-file inplace", ("--whole-file", "--inplace")),
        Setting("whole-file xxh128", ("--whole-file", "--checksum-choice=xxh128")),
    )

    def serve(self, job: Job) -> list[Server]:
        end, port = job.ends.far, job.ports[0]
        configuration = job.scratch / "rsyncd.conf"
        configuration.write_text(
            f"use chroot = no\nuid = root\ngid = root\nlog file = {job.scratch}/rsyncd.log\n"
            f"pid file = {job.scratch}/rsyncd.pid\n[data]\npath = {job.target}\nread only = no\n"
        )
        address = (f"--address={end.address}", f"--port={port}")
        return [job.serve(end, port, "rsync", "--daemon", "--no-detach", *address, f"--config={configuration}")]

    def copy(self, job: Job, setting: Setting) -> Measured:
        url = f"rsync://{job.ends.far.address}:{job.ports[0]}/data/"
        return job.start(job.ends.near, "rsync", "-rt", *setting.options, f"{job.source}/", url)

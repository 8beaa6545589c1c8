"""GridFTP: `globus-url-copy` between two servers (third-party), as the papers use it."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from paths import End
from peers.peer import DAEMON_USER, Job, Peer, Setting, path_to
from processes import Measured
from servers import Server


class GridFtp(Peer):
    """A server at each end without authentication or encryption; the client at the near end only controls."""

    name = "gridftp"
    about = "`globus-url-copy -r` from server to server, anonymous, not encrypted, no digests"
    programs = ("globus-url-copy", "globus-gridftp-server")
    packages = ("globus-gass-copy-progs", "globus-gridftp-server-progs")
    version = ("globus-url-copy", "-version")
    settings = (
        Setting("default"),
        Setting("cc 4 p 4", ("-fast", "-pp", "-cc", "4", "-p", "4")),
        Setting("cc 8 p 1", ("-fast", "-pp", "-cc", "8", "-p", "1")),
        Setting("cc 16 p 1", ("-fast", "-pp", "-cc", "16", "-p", "1")),
        Setting("cc 32 p 4", ("-fast", "-pp", "-cc", "32", "-p", "4")),
    )

    def serve(self, job: Job) -> list[Server]:
        shutil.chown(job.target, DAEMON_USER)
        servers = []
        for end, port in zip((job.ends.near, job.ends.far), job.ports, strict=True):
            interfaces = ("-control-interface", end.address, "-data-interface", end.address)
            quiet = ("-log-level", "error", "-logfile", job.scratch / f"gridftp-{port}.log")
            access = ("-allow-anonymous", "-anonymous-user", DAEMON_USER)
            program = path_to("globus-gridftp-server")
            command = (program, "-port", str(port), *access, *interfaces, *quiet)
            servers.append(job.serve(end, port, *with_names(job, end), *command))
        return servers

    def copy(self, job: Job, setting: Setting) -> Measured:
        near, far = (
            f"ftp://{end.address}:{port}{directory}/"
            for end, port, directory in zip(
                (job.ends.near, job.ends.far), job.ports, (job.source, job.target), strict=True
            )
        )
        command = (path_to("globus-url-copy"), *setting.options, "-r", "-cd", near, far)
        return job.start(job.ends.near, *with_names(job, job.ends.near), *command)


def with_names(job: Job, end: End) -> tuple[str | Path, ...]:
    """Words before a command that name both ends for it alone: GridFTP looks up addresses, and its own host's name."""
    if not end.prefix:
        return ()
    hosts = job.scratch / f"hosts-{end.address}"
    names = {job.ends.near.address: "near", job.ends.far.address: "far"}
    names[end.address] += f" {socket.gethostname()}"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address, name in names.items()))
    return ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts)

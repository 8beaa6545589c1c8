"""edt over sftp, to the same sshd as rclone."""

from __future__ import annotations

from peers.peer import DEFAULT, Job, Setting
from peers.rclone import RcloneSftp
from processes import EDT, Measured


class EdtSftp(RcloneSftp):
    """`edt cp` through the system's ssh; what arrives is compared by size."""

    name = "edt-sftp"
    about = "`edt cp` over sftp to OpenSSH, encrypted, tuned automatically"
    programs = (str(EDT), "sshd", "ssh", "ssh-keygen")
    python_packages: tuple[str, ...] = ()
    version = (str(EDT), "--version")
    settings: tuple[Setting, ...] = (DEFAULT,)

    def copy(self, job: Job, setting: Setting) -> Measured:
        folder = job.scratch / "ssh"
        configuration = folder / "ssh_config"
        configuration.write_text(
            f"IdentityFile {folder}/client\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known_hosts\n"
        )
        ssh = folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec ssh -F {configuration} "$@"\n')
        ssh.chmod(0o700)
        # A path that begins with a slash of its own begins at the root.
        url = f"sftp://root@{job.ends.far.address}:{job.ports[0]}/{job.target}/"
        return job.start(job.ends.near, "env", f"EDT_SSH={ssh}", EDT, "cp", *setting.options, job.source, url)

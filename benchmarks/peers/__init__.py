"""The peers, by name; the order is that of tables and plots."""

from __future__ import annotations

import subprocess
import sys

from peers import edt, s3, xrootd
from peers.aria2 import Aria2
from peers.gridftp import GridFtp
from peers.iperf3 import Iperf3
from peers.peer import Peer, path_to
from peers.rclone import RcloneSftp, RcloneWebdav
from peers.rsync import Rsync
from peers.sftp import EdtSftp

ALL: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        edt.AUTO,
        edt.FIXED,
        edt.ENCRYPTED,
        GridFtp(),
        xrootd.PLAIN,
        xrootd.CHECKED,
        RcloneWebdav(),
        RcloneSftp(),
        Rsync(),
        Aria2(),
        Iperf3(),
        EdtSftp(),
        *s3.CLIENTS,
    )
}


def install(names: list[str]) -> None:
    """Installs what peers miss: Debian packages, which needs root, and Python packages beside this Python."""
    absent = [ALL[name] for name in names if ALL[name].missing()]
    if packages := sorted({package for peer in absent for package in peer.packages}):
        # Servers of packages must not start by themselves: RUNLEVEL=1 keeps invoke-rc.d from it.
        environment = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
        subprocess.run([*environment, "apt-get", "update", "-q"], check=True)
        options = ["install", "-y", "-q", "--no-install-recommends"]
        subprocess.run([*environment, "apt-get", *options, *packages], check=True)
    if packages := sorted({package for peer in absent for package in peer.python_packages}):
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *packages], check=True)


def versions(names: list[str]) -> dict[str, str]:
    """What each program says about its version: the first line that holds a digit."""
    found = {}
    for name in names:
        program, *options = ALL[name].version
        result = subprocess.run([path_to(program), *options], capture_output=True, text=True, check=False)
        lines = (result.stdout + result.stderr).splitlines()
        found[name] = next((line.strip() for line in lines if any(letter.isdigit() for letter in line)), "")
    return found

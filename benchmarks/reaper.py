"""Runs a server, and tells at its end what it and all of its descendants cost: `python reaper.py FILE COMMAND...`.

Many servers fork for each connection, so that `wait4` on the server alone may miss them. This process takes up
orphans (`PR_SET_CHILD_SUBREAPER`) and waits for every one, so that `RUSAGE_CHILDREN` holds them all. Children of a
server that ignores SIGCHLD would be missing; none of the peers does, which the tests of the benchmarks hold them to.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 3.0


def main() -> int:
    file, command = Path(sys.argv[1]), sys.argv[2:]
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "could not become the reaper of orphans")
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    server = subprocess.Popen(command)
    asked = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked
        asked = True
        # `os.kill`, because `Popen.terminate` may reap, and the loop below does that.
        os.kill(server.pid, signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    signal.signal(signal.SIGALRM, lambda *_: os.kill(server.pid, signal.SIGKILL))
    signal.signal(signal.SIGTERM, stop)
    status = wait_for(server.pid)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    end_orphans()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {"user_s": usage.ru_utime, "system_s": usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}
    file.write_text(json.dumps(cost))
    return 0 if asked else (os.waitstatus_to_exitcode(status) or 0)


def wait_for(server: int) -> int:
    """Reaps whatever ends until the server does; returns its status."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == server:
            return status


def end_orphans() -> None:
    """Asks what the server left behind to end, insists, and reaps it."""
    limit = time.monotonic() + GRACE_S
    asked: set[int] = set()
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            continue
        for child in children():
            if time.monotonic() > limit:
                os.kill(child, signal.SIGKILL)
            elif child not in asked:
                asked.add(child)
                os.kill(child, signal.SIGTERM)
        time.sleep(0.005)


def children() -> list[int]:
    """The processes whose parent is this one; orphans of the server have become that."""
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main())

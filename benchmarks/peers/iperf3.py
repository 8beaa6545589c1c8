"""iperf3: no files, but the most that TCP carries over the path from memory to memory."""

from __future__ import annotations

from peers.peer import Job, Peer, Setting
from processes import Measured
from servers import Server


class Iperf3(Peer):
    """`iperf3` sends as many bytes as the data set holds."""

    name = "iperf3"
    about = "as many bytes from memory to memory: the limit, no files"
    programs = ("iperf3",)
    packages = ("iperf3",)
    version = ("iperf3", "--version")
    lands = False
    settings = (
        Setting("default"),
        Setting("P 4", ("-P", "4")),
        Setting("P 8", ("-P", "8")),
        Setting("P 16", ("-P", "16")),
    )

    def serve(self, job: Job) -> list[Server]:
        end, port = job.ends.far, job.ports[0]
        return [job.serve(end, port, "iperf3", "-s", "-B", end.address, "-p", str(port))]

    def copy(self, job: Job, setting: Setting) -> Measured:
        to = ("-c", job.ends.far.address, "-p", str(job.ports[0]))
        return job.start(job.ends.near, "iperf3", *to, "-n", str(job.size), *setting.options)

"""Traffic of others on a path: streams of iperf3 from memory to memory."""

from __future__ import annotations

import time

from paths import Ends
from peers.peer import path_to
from processes import Measured, Workplace
from servers import Server, free_port

WARM_UP_S = 10.0
"""How long the streams have the path for themselves, to find their windows."""
LONGEST_S = 7200


class Traffic:
    """So many TCP streams from the near to the far end, for the time of a `with` block; none at all with 0."""

    def __init__(self, place: Workplace, ends: Ends, streams: int) -> None:
        self.place, self.ends, self.streams = place, ends, streams

    def __enter__(self) -> None:
        if not self.streams:
            return
        near, far, port = self.ends.near, self.ends.far, free_port()
        environment = self.place.environment
        serve = [path_to("iperf3"), "-s", "-B", far.address, "-p", str(port)]
        self.server = Server(far, serve, port, self.place.empty("traffic"), environment)
        send = ["-c", far.address, "-p", str(port), "-P", str(self.streams), "-t", str(LONGEST_S)]
        self.client = Measured([*near.prefix, path_to("iperf3"), *send], environment, talks=False)
        time.sleep(WARM_UP_S)

    def __exit__(self, *_: object) -> None:
        if self.streams:
            self.client.dismiss()
            self.server.stop()

"""SeaweedFS: master, volume server, filer and S3 gateway in one process."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from endpoints.programs import located
from endpoints.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from endpoints.servers.server import HOST
from servers import free_port

BLIND_KEY = "edtblind"
"""The access key of a user who may put and get objects, and not list them; the secret is the same."""
PARTS = ("master", "volume", "filer", "s3")


class SeaweedFs(S3Server):
    """`weed server -s3`; its files are volumes, not objects."""

    name = "seaweedfs"
    needs = ("seaweedfs", "clients")
    ready_s = 60.0
    keeps_files = False

    def __init__(self, scratch: Path | None = None) -> None:
        super().__init__(scratch)
        self.ports = {name: (free_port(), free_port()) for name in PARTS}
        self.port = self.ports["s3"][0]
        self.data = self.scratch / "data"

    def command(self) -> list[str | Path]:
        self.data.mkdir(exist_ok=True)
        everything = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = [
            {"name": key, "credentials": [{"accessKey": key, "secretKey": SECRET_KEY}], "actions": actions}
            for key, actions in ((ACCESS_KEY, everything), (BLIND_KEY, ["Read", "Write"]))
        ]
        configuration = self.scratch / "s3.json"
        configuration.write_text(json.dumps({"identities": identities}))
        ports = []
        for name, (port, grpc_port) in self.ports.items():
            ports += [f"-{name}.port={port}", f"-{name}.port.grpc={grpc_port}"]
        return [
            *(located("weed"), "-logtostderr=true", "-v=0", "server", f"-dir={self.data}", f"-ip={HOST}", *ports),
            *(f"-ip.bind={HOST}", "-master.telemetry=false", "-master.volumeSizeLimitMB=1024", "-volume.max=0"),
            *("-volume.preStopSeconds=0",),
            *("-s3", f"-s3.config={configuration}", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        ]

    def stop(self) -> None:
        # Asked to end, it takes longer than the reaper waits.
        self.kill()
        super().stop()
        for name, (_, grpc_port) in self.ports.items():
            with suppress(OSError):
                Path(f"/tmp/seaweedfs-{name}-grpc-{grpc_port}.sock").unlink()

"""edt itself: tuned automatically, with a constant concurrency, and with encryption."""

from __future__ import annotations

from peers.peer import DEFAULT, Job, Peer, Setting
from processes import EDT, Measured
from servers import Server


class Edt(Peer):
    """edt with a scheme and options of its own; encryption is chosen by the scheme `edts`."""

    programs = (str(EDT),)
    version = (str(EDT), "--version")
    checks_integrity = True

    def __init__(
        self, name: str, about: str, settings: tuple[Setting, ...] = (DEFAULT,), *, scheme: str = "edt"
    ) -> None:
        self.name = name
        self.about = about
        self.settings = settings
        self.scheme = scheme

    def serve(self, job: Job) -> list[Server]:
        end, port = job.ends.far, job.ports[0]
        security = ["--plain"] if self.scheme == "edt" else []
        return [job.serve(end, port, EDT, "serve", *security, "--listen", f"{end.address}:{port}", job.target)]

    def copy(self, job: Job, setting: Setting) -> Measured:
        security = ["--plain"] if self.scheme == "edt" else []
        url = f"{self.scheme}://{job.ends.far.address}:{job.ports[0]}/"
        report = ["--report", str(job.scratch / "report.json")]
        return job.start(job.ends.near, EDT, "cp", *security, *report, *setting.options, job.source, url)


def fixed(concurrency: int) -> Setting:
    """A constant concurrency."""
    return Setting(f"fixed {concurrency}", ("--optimizer", "fixed", "--concurrency", str(concurrency)))


AUTO = Edt("edt", "tuned automatically, digests on, not encrypted")
FIXED = Edt(
    "edt-fixed",
    "with the best constant concurrency, digests on, not encrypted",
    tuple(fixed(concurrency) for concurrency in (8, 4, 16, 24)),
)
ENCRYPTED = Edt("edt-tls", "tuned automatically, digests on, TLS 1.3", scheme="edts")

"""aria2: pulls over HTTP from nginx at the near end, by a list of URLs."""

from __future__ import annotations

from urllib.parse import quote

from peers.peer import Job, Peer, Setting
from processes import Measured
from servers import Server


class Aria2(Peer):
    """`aria2c` at the far end; the list of files is made beforehand and not counted."""

    name = "aria2"
    about = "`aria2c -i` from nginx, a pull, not encrypted, no digests, list of files given"
    programs = ("aria2c", "nginx")
    packages = ("aria2", "nginx-light")
    version = ("aria2c", "--version")
    settings = (
        Setting("default"),
        Setting("j 16", ("-j", "16")),
        Setting("j 4 x 4", ("-j", "4", "-x", "4", "-s", "4", "-k", "1M")),
        Setting("j 4 x 16", ("-j", "4", "-x", "16", "-s", "16", "-k", "1M")),
        Setting("j 64", ("-j", "64")),
    )

    def serve(self, job: Job) -> list[Server]:
        end, port = job.ends.near, job.ports[0]
        self.write_list(job)
        folder = job.scratch / "nginx"
        folder.mkdir()
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        configuration = folder / "nginx.conf"
        configuration.write_text(
            f"daemon off; user root; worker_processes 2; pid {folder}/pid; error_log stderr error;\n"
            f"events {{ worker_connections 4096; }}\n"
            f"http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; {temporary}\n"
            f"server {{ listen {end.address}:{port}; root {job.source}; }} }}\n"
        )
        return [job.serve(end, port, "nginx", "-c", configuration, "-p", folder)]

    def write_list(self, job: Job) -> None:
        """One entry for each file: its URL and where it goes."""
        root = f"http://{job.ends.near.address}:{job.ports[0]}/"
        with (job.scratch / "urls").open("w") as urls:
            for path in sorted(job.source.rglob("*")):
                if path.is_file():
                    name = str(path.relative_to(job.source))
                    urls.write(f"{root}{quote(name)}\n out={name}\n")

    def copy(self, job: Job, setting: Setting) -> Measured:
        quiet = ("--no-conf", "--quiet", "--file-allocation=none", "--auto-file-renaming=false")
        return job.start(job.ends.far, "aria2c", *quiet, *setting.options, "-d", job.target, "-i", job.scratch / "urls")

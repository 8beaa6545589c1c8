"""What all servers that speak S3 have in common: keys, a client, and buckets."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from endpoints.servers.http import HttpServer
from endpoints.servers.server import Place

ACCESS_KEY = "edtaccess"
SECRET_KEY = "edtsecretkey"
REGION = "us-east-1"
BUCKET = "edt-test"


class S3Server(HttpServer):
    """A server that answers to S3, with one bucket for all places."""

    @property
    def authority(self) -> Path | None:
        """Who signed its certificate, if it has one."""
        return None

    @property
    def environment(self) -> dict[str, str]:
        return s3_environment(self.url)

    def client(self, url: str | None = None) -> Any:
        """A boto3 client of it, or of a proxy in front of it; each request is made once."""
        boto3 = importlib.import_module("boto3")
        config = importlib.import_module("botocore.config").Config(
            retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, read_timeout=60
        )
        return boto3.client(
            "s3",
            endpoint_url=url or self.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
            config=config,
            verify=self.authority and str(self.authority),
        )

    def answers(self) -> bool:
        if not self.speaks():
            return False
        errors = importlib.import_module("botocore.exceptions")
        try:
            client = self.client()
            if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
        except (errors.ClientError, errors.BotoCoreError):
            return False
        return True

    def speaks(self) -> bool:
        """Whether it says anything; clients would wait longer before they ask again."""
        return super().answers()

    def bucket(self) -> str:
        """A fresh bucket, for tests that need one of their own."""
        name = f"edt-{self.fresh()}"
        self.client().create_bucket(Bucket=name)
        return name

    def place(self) -> Place:
        return Place(f"s3://{BUCKET}/{self.fresh()}/", self.environment)


def s3_environment(url: str) -> dict[str, str]:
    """What an S3 client finds in its environment; the files of whoever runs the tests are out of its sight."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": url,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }

"""What the S3 servers of the tests support, tried with boto3: `python tests/endpoints/support.py` prints a table."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "benchmarks")]

from endpoints.servers import Moto, RcloneS3, SeaweedFs, VersityGw  # noqa: E402 (the lines above find it)
from endpoints.servers.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server  # noqa: E402

PART = 5 << 20
DATA = b"123456789"
CRC64NVME = 0x9A6C9329AC4BC9B5
CRC32C = 0x82F63B78


@functools.lru_cache
def crc(data: bytes, polynomial: int, width: int) -> str:
    """A reflected CRC of all ones, in base64 as S3 has it."""
    table = []
    for first in range(256):
        entry = first
        for _ in range(8):
            entry = entry >> 1 ^ (polynomial if entry & 1 else 0)
        table.append(entry)
    value = (1 << width) - 1
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return base64.b64encode((value ^ (1 << width) - 1).to_bytes(width // 8, "big")).decode()


CHECKSUMS: dict[str, Callable[[bytes], str]] = {
    "CRC64NVME": lambda data: crc(data, CRC64NVME, 64),
    "CRC32C": lambda data: crc(data, CRC32C, 32),
    "CRC32": lambda data: base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode(),
    "SHA256": lambda data: base64.b64encode(hashlib.sha256(data).digest()).decode(),
}


class Probe:
    """Tries one server; each method tries one thing and says `yes`, or what came instead."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.client = server.client()
        self.prefix = server.fresh()

    def key(self, name: str, **words: Any) -> dict[str, Any]:
        """The words that name an object, and more."""
        return {"Bucket": BUCKET, "Key": f"{self.prefix}/{name}", **words}

    def put(self, name: str, data: bytes = DATA, **words: Any) -> Any:
        """Puts an object."""
        return self.client.put_object(**self.key(name), Body=data, **words)

    def upload(self, name: str, parts: list[bytes], algorithm: str | None, kind: str, **words: Any) -> Any:
        """Uploads parts, with a checksum of each, and completes them."""
        chosen = {"ChecksumAlgorithm": algorithm, "ChecksumType": kind} if algorithm else {}
        upload = self.client.create_multipart_upload(**self.key(name), **chosen)["UploadId"]
        done = []
        for number, part in enumerate(parts, 1):
            sums = {f"Checksum{algorithm}": CHECKSUMS[algorithm](part)} if algorithm else {}
            answer = self.client.upload_part(**self.key(name), UploadId=upload, PartNumber=number, Body=part, **sums)
            done.append({"PartNumber": number, "ETag": answer["ETag"], **sums})
        return self.client.complete_multipart_upload(
            **self.key(name), UploadId=upload, MultipartUpload={"Parts": done}, **words
        )

    def put_if_none_match(self) -> str:
        self.put("once", IfNoneMatch="*")
        return refused(412, lambda: self.put("once", IfNoneMatch="*"))

    def put_if_match(self) -> str:
        etag = self.put("match")["ETag"]
        self.put("match", b"new", IfMatch=etag)
        return refused(412, lambda: self.put("match", b"newer", IfMatch=etag))

    def complete_if_none_match(self) -> str:
        self.upload("complete", [DATA], None, "", IfNoneMatch="*")
        return refused(412, lambda: self.upload("complete", [DATA], None, "", IfNoneMatch="*"))

    def checksum(self, algorithm: str) -> str:
        field = f"Checksum{algorithm}"
        value = CHECKSUMS[algorithm](DATA)
        self.put("sum", DATA, **{field: value})
        found = self.client.head_object(**self.key("sum"), ChecksumMode="ENABLED").get(field)
        wrong = refused(400, lambda: self.put("wrong", DATA, **{field: CHECKSUMS[algorithm](b"other")}))
        return both(found == value, wrong == "yes")

    def multipart_checksum(self, algorithm: str, kind: str) -> str:
        field = f"Checksum{algorithm}"
        parts = [b"a" * PART, DATA]
        whole = CHECKSUMS[algorithm](b"".join(parts))
        words = {field: whole, "ChecksumType": kind} if kind == "FULL_OBJECT" else {}
        self.upload("parts", parts, algorithm, kind, **words)
        head = self.client.head_object(**self.key("parts"), ChecksumMode="ENABLED")
        if kind == "COMPOSITE":
            return "yes" if str(head.get(field)).endswith("-2") else f"no: HEAD says {head.get(field)}"
        wrong = {field: CHECKSUMS[algorithm](b"other"), "ChecksumType": kind}
        verdict = refused(400, lambda: self.upload("parts", parts, algorithm, kind, **wrong))
        return both(head.get(field) == whole, verdict == "yes")

    def part_is_verified(self) -> str:
        upload = self.client.create_multipart_upload(**self.key("part"), ChecksumAlgorithm="CRC64NVME")["UploadId"]
        wrong = {"ChecksumCRC64NVME": CHECKSUMS["CRC64NVME"](b"other")}
        words = self.key("part", UploadId=upload, PartNumber=1, Body=DATA, **wrong)
        return refused(400, lambda: self.client.upload_part(**words))

    def list_parts(self) -> str:
        sums = {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "FULL_OBJECT"}
        upload = self.client.create_multipart_upload(**self.key("listed"), **sums)["UploadId"]
        value = CHECKSUMS["CRC64NVME"](DATA)
        words = self.key("listed", UploadId=upload)
        self.client.upload_part(**words, PartNumber=7, Body=DATA, ChecksumCRC64NVME=value)
        part = self.client.list_parts(**words)["Parts"][0]
        if (part["PartNumber"], part["Size"]) != (7, len(DATA)):
            return f"no: {part}"
        return "yes, with checksums" if part.get("ChecksumCRC64NVME") == value else "yes, without checksums"

    def list_uploads(self) -> str:
        upload = self.client.create_multipart_upload(**self.key("begun"))["UploadId"]
        found = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{self.prefix}/begun").get("Uploads", [])
        return "yes" if [item["UploadId"] for item in found] == [upload] else f"no: {len(found)} found"

    def abort_upload(self) -> str:
        upload = self.client.create_multipart_upload(**self.key("aborted"))["UploadId"]
        self.client.abort_multipart_upload(**self.key("aborted"), UploadId=upload)
        return refused(404, lambda: self.client.list_parts(**self.key("aborted"), UploadId=upload))

    def part_copy(self) -> str:
        self.put("origin", b"a" * PART + DATA)
        upload = self.client.create_multipart_upload(**self.key("copied"))["UploadId"]
        words = self.key("copied", UploadId=upload)
        origin = {"CopySource": f"{BUCKET}/{self.prefix}/origin", "CopySourceRange": f"bytes={PART}-{PART + 8}"}
        etag = self.client.upload_part_copy(**words, PartNumber=1, **origin)["CopyPartResult"]["ETag"]
        self.client.complete_multipart_upload(**words, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
        return same(self.client.get_object(**self.key("copied"))["Body"].read(), DATA)

    def copy(self) -> str:
        etag = self.put("origin")["ETag"]
        origin = {"CopySource": f"{BUCKET}/{self.prefix}/origin"}
        self.client.copy_object(**self.key("copy"), **origin, CopySourceIfMatch=etag)
        wrong = refused(412, lambda: self.client.copy_object(**self.key("copy"), **origin, CopySourceIfMatch='"x"'))
        got = same(self.client.get_object(**self.key("copy"))["Body"].read(), DATA)
        return got if wrong == "yes" else f"{got}; If-Match: {wrong}"

    def get_part(self) -> str:
        self.upload("parts", [b"a" * PART, DATA], None, "")
        answer = self.client.get_object(**self.key("parts"), PartNumber=2)
        if answer["Body"].read() != DATA:
            return "no: not that part"
        return "yes" if answer.get("PartsCount") == 2 else "yes, without a count"

    def get_if_match(self) -> str:
        etag = self.put("matched")["ETag"]
        self.client.get_object(**self.key("matched"), IfMatch=etag, Range="bytes=2-4")
        return refused(412, lambda: self.client.get_object(**self.key("matched"), IfMatch='"x"', Range="bytes=2-4"))

    def attributes(self) -> str:
        self.upload("parts", [b"a" * PART, DATA], "SHA256", "COMPOSITE")
        wanted = ["ETag", "Checksum", "ObjectParts", "ObjectSize"]
        answer = self.client.get_object_attributes(**self.key("parts"), ObjectAttributes=wanted)
        parts = answer.get("ObjectParts", {}).get("Parts", [])
        return "yes" if len(parts) == 2 else f"without parts ({', '.join(sorted(set(answer) & set(wanted)))})"

    def small_parts(self) -> str:
        return refused(400, lambda: self.upload("small", [DATA, DATA], None, ""))

    def metadata(self) -> str:
        self.upload("plain", [DATA], None, "")
        self.put("kept", Metadata={"mtime": "1.5"})
        found = self.client.head_object(**self.key("kept"))["Metadata"]
        return "yes" if found == {"mtime": "1.5"} else f"no: {found}"

    def file_and_folder(self) -> str:
        self.put("both")
        self.put("both/inner")
        return same(self.client.get_object(**self.key("both"))["Body"].read(), DATA)

    def folder_object(self) -> str:
        self.put("folder/", b"")
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.prefix}/folder/").get("Contents", [])
        return "yes" if len(found) == 1 else f"no: {len(found)} listed"

    def pages(self) -> str:
        for number in range(5):
            self.put(f"pages/{number}")
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=f"{self.prefix}/pages/", PaginationConfig={"PageSize": 2}
        )
        counts = [len(page.get("Contents", [])) for page in pages]
        return "yes" if counts == [2, 2, 1] else f"no: {counts}"

    def delete_many(self) -> str:
        self.put("gone")
        names = {"Objects": [{"Key": f"{self.prefix}/gone"}, {"Key": f"{self.prefix}/never"}]}
        answer = self.client.delete_objects(Bucket=BUCKET, Delete=names)
        return "yes" if not answer.get("Errors") else f"no: {answer['Errors']}"

    def unsigned(self) -> str:
        return self.sent("UNSIGNED-PAYLOAD", DATA, {})

    def unsigned_trailer(self) -> str:
        trailer = f"x-amz-checksum-crc64nvme:{CHECKSUMS['CRC64NVME'](DATA)}"
        body = f"{len(DATA):x}\r\n".encode() + DATA + f"\r\n0\r\n{trailer}\r\n\r\n".encode()
        headers = {
            "Content-Encoding": "aws-chunked",
            "x-amz-decoded-content-length": str(len(DATA)),
            "x-amz-trailer": "x-amz-checksum-crc64nvme",
        }
        return self.sent("STREAMING-UNSIGNED-PAYLOAD-TRAILER", body, headers)

    def sent(self, payload: str, body: bytes, headers: dict[str, str]) -> str:
        """Puts an object whose body the signature does not cover, and reads it back."""
        auth = importlib.import_module("botocore.auth")
        awsrequest = importlib.import_module("botocore.awsrequest")
        keys = importlib.import_module("botocore.credentials").Credentials(ACCESS_KEY, SECRET_KEY)
        url = f"{self.server.url}/{BUCKET}/{self.prefix}/unsigned"
        # Without a type of its own, urllib names one that makes moto take the body for a form.
        typed = {"Content-Type": "application/octet-stream", **headers}
        request = awsrequest.AWSRequest("PUT", url, typed, body)
        signer = auth.S3SigV4Auth(keys, "s3", REGION)
        signer.payload = lambda _: payload
        signer.add_auth(request)
        prepared = urllib.request.Request(url, body, dict(request.headers.items()), method="PUT")
        try:
            urllib.request.urlopen(prepared, timeout=20).close()
        except urllib.error.HTTPError as error:
            return f"no: {error.code}"
        return same(self.client.get_object(**self.key("unsigned"))["Body"].read(), DATA)


def refused(status: int, call: Callable[[], Any]) -> str:
    """`yes` if a call is refused with that status."""
    try:
        call()
    except Exception as error:
        found = code_of(error)
        return "yes" if found == status else f"no: {found}"
    return "no: accepted"


def code_of(error: Exception) -> Any:
    """The status of an error of boto3, or its kind."""
    response = getattr(error, "response", None)
    return response["ResponseMetadata"]["HTTPStatusCode"] if response else type(error).__name__


def both(kept: bool, verified: bool) -> str:
    """What became of a checksum that was sent."""
    return {(True, True): "yes", (True, False): "kept, not verified", (False, True): "verified, not kept"}.get(
        (kept, verified), "no: ignored"
    )


def same(found: bytes, expected: bytes) -> str:
    """Whether the right bytes came."""
    return "yes" if found == expected else f"no: {found[:40]!r}"


PROBES: dict[str, Callable[[Probe], str]] = {
    "PUT If-None-Match: *": Probe.put_if_none_match,
    "PUT If-Match: etag": Probe.put_if_match,
    "CompleteMultipartUpload If-None-Match: *": Probe.complete_if_none_match,
    "PUT CRC64NVME": lambda probe: probe.checksum("CRC64NVME"),
    "PUT CRC32C": lambda probe: probe.checksum("CRC32C"),
    "PUT SHA256": lambda probe: probe.checksum("SHA256"),
    "multipart CRC64NVME FULL_OBJECT": lambda probe: probe.multipart_checksum("CRC64NVME", "FULL_OBJECT"),
    "multipart CRC32C FULL_OBJECT": lambda probe: probe.multipart_checksum("CRC32C", "FULL_OBJECT"),
    "multipart CRC32C COMPOSITE": lambda probe: probe.multipart_checksum("CRC32C", "COMPOSITE"),
    "multipart SHA256 COMPOSITE": lambda probe: probe.multipart_checksum("SHA256", "COMPOSITE"),
    "UploadPart verifies CRC64NVME": Probe.part_is_verified,
    "ListParts": Probe.list_parts,
    "ListMultipartUploads with prefix": Probe.list_uploads,
    "AbortMultipartUpload": Probe.abort_upload,
    "parts below 5 MiB are refused": Probe.small_parts,
    "UploadPartCopy with range": Probe.part_copy,
    "CopyObject, x-amz-copy-source-if-match": Probe.copy,
    "GET partNumber": Probe.get_part,
    "GET If-Match with Range": Probe.get_if_match,
    "GetObjectAttributes with parts": Probe.attributes,
    "user metadata": Probe.metadata,
    "UNSIGNED-PAYLOAD": Probe.unsigned,
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": Probe.unsigned_trailer,
    "ListObjectsV2 in pages": Probe.pages,
    "DeleteObjects": Probe.delete_many,
    "`a` beside `a/b`": Probe.file_and_folder,
    "object `folder/`": Probe.folder_object,
}


def tried(server: S3Server) -> dict[str, str]:
    """What each probe says."""
    found = {}
    for name, probe in PROBES.items():
        try:
            found[name] = probe(Probe(server))
        except Exception as error:
            found[name] = f"no: {code_of(error)}"
    return found


def main() -> None:
    columns = {}
    for kind in (VersityGw, SeaweedFs, Moto, RcloneS3):
        server = kind()
        with server:
            columns[server.name] = tried(server)
    print(f"| | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
    for name in PROBES:
        print(f"| {name} | {' | '.join(column[name] for column in columns.values())} |")


if __name__ == "__main__":
    main()

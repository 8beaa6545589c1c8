"""Each server works, as independent clients see it: boto3, s5cmd, Microsoft's library, curl, and OpenSSH's sftp."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path

import pytest

from endpoints.conftest import absent
from endpoints.programs import located, missing
from endpoints.servers import (
    Azurite,
    FakeGcs,
    GcpStorageEmulator,
    Nginx,
    OpenSsh,
    RcloneFtp,
    RcloneS3,
    RcloneWebdav,
    VersityGw,
    VersityGwTls,
    WsgiDavTls,
)
from endpoints.servers.azurite import CONTAINER
from endpoints.servers.ftp import FtpServer
from endpoints.servers.gcs import BUCKET as GCS_BUCKET
from endpoints.servers.gcs import GcsServer
from endpoints.servers.http import HttpServer
from endpoints.servers.nginx import BEARER
from endpoints.servers.s3 import S3Server
from endpoints.servers.server import PASSWORD, USER, Place, speaks
from endpoints.servers.ssh import ALIAS, SftpServer
from endpoints.support import tried
from harness import MIB, fill, wait_until

SIZE = 3 * MIB + 17


@pytest.fixture
def file(scratch: Path) -> Path:
    """A file of random bytes."""
    fill(scratch / "file.bin", SIZE, "endpoints")
    return scratch / "file.bin"


def call(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """Runs a client, and returns what it printed."""
    if command[0] in ("curl", "s5cmd") and (reason := missing(str(command[0]))):
        absent(str(command[0]), reason)
    result = subprocess.run(
        [located(str(command[0])), *command[1:]],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def curl(*words: str | Path) -> str:
    """Runs curl, which fails on a status that says so."""
    return call("curl", "-q", "--silent", "--show-error", "--fail", *words)


def send(method: str, url: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Makes one request; `_` in the name of a header stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, {"Content-Type": "application/octet-stream", **named}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


def split(place: Place) -> tuple[str, str]:
    """Bucket and prefix of a place in an object store."""
    bucket, _, prefix = place.url.split("://")[1].partition("/")
    return bucket, prefix


def test_s5cmd_puts_lists_and_gets_objects(s3: S3Server, s3_place: Place, file: Path, scratch: Path) -> None:
    environment = dict(s3_place.environment)
    options = ("--endpoint-url", s3.url)
    call("s5cmd", *options, "cp", file, f"{s3_place.url}a/b.bin", environment=environment)
    assert str(SIZE) in call("s5cmd", *options, "ls", f"{s3_place.url}*", environment=environment)
    call("s5cmd", *options, "cp", f"{s3_place.url}a/b.bin", scratch / "back.bin", environment=environment)
    assert (scratch / "back.bin").read_bytes() == file.read_bytes()


def test_s3_takes_parts_in_any_order_and_lists_them(s3: S3Server, s3_place: Place) -> None:
    client = s3.client()
    bucket, prefix = split(s3_place)
    words = {"Bucket": bucket, "Key": f"{prefix}parts"}
    upload = client.create_multipart_upload(**words)["UploadId"]
    bodies = {2: b"end", 1: os.urandom(5 * MIB)}
    etags = {
        number: client.upload_part(**words, UploadId=upload, PartNumber=number, Body=body)["ETag"]
        for number, body in bodies.items()
    }
    listed = client.list_parts(**words, UploadId=upload)["Parts"]
    assert [(part["PartNumber"], part["Size"]) for part in listed] == [(1, 5 * MIB), (2, 3)]
    parts = [{"PartNumber": number, "ETag": etags[number]} for number in (1, 2)]
    client.complete_multipart_upload(**words, UploadId=upload, MultipartUpload={"Parts": parts})
    assert client.get_object(**words, Range=f"bytes={5 * MIB - 1}-")["Body"].read() == bodies[1][-1:] + b"end"


def test_the_table_of_the_readme_is_what_the_s3_servers_do(s3: S3Server) -> None:
    lines = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in (Path(__file__).parent / "README.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    begin = next(number for number, line in enumerate(lines) if s3.name in line)
    column = lines[begin].index(s3.name)
    table = {line[0]: line[column] for line in lines[begin + 1 :] if len(line) == len(lines[begin])}
    assert tried(s3) == {name: table.get(name) for name in tried(s3)}


def test_objects_of_versitygw_are_files(versitygw: VersityGw) -> None:
    place = versitygw.place()
    bucket, prefix = split(place)
    versitygw.client().put_object(Bucket=bucket, Key=f"{prefix}a/b", Body=b"content")
    assert place.root and (place.root / "a" / "b").read_bytes() == b"content"


def test_a_server_that_was_killed_goes_on_with_its_files(versitygw: VersityGw) -> None:
    bucket, prefix = split(versitygw.place())
    words = {"Bucket": bucket, "Key": f"{prefix}parts"}
    upload = versitygw.client().create_multipart_upload(**words)["UploadId"]
    versitygw.client().upload_part(**words, UploadId=upload, PartNumber=1, Body=b"part")
    versitygw.kill()
    versitygw.start()
    assert len(versitygw.client().list_parts(**words, UploadId=upload)["Parts"]) == 1


def test_s3_over_tls_is_trusted_by_its_authority(versitygw_tls: VersityGwTls) -> None:
    place = versitygw_tls.place()
    options = ("--endpoint-url", versitygw_tls.url)
    assert "edt-test" in call("s5cmd", *options, "ls", environment=dict(place.environment))


def test_rclone_serves_s3(rclone_s3: RcloneS3) -> None:
    bucket, prefix = split(rclone_s3.place())
    rclone_s3.client().put_object(Bucket=bucket, Key=f"{prefix}a", Body=b"content")
    assert rclone_s3.client().get_object(Bucket=bucket, Key=f"{prefix}a")["Body"].read() == b"content"


def test_gcs_keeps_what_is_uploaded_and_composes_it(gcs: GcsServer, gcs_place: Place) -> None:
    _, prefix = split(gcs_place)
    objects = f"{gcs.url}/storage/v1/b/{GCS_BUCKET}/o"
    for name in ("a", "b"):
        query = f"?uploadType=media&name={prefix}{name}"
        assert send("POST", f"{gcs.url}/upload/storage/v1/b/{GCS_BUCKET}/o{query}", b"123456789")[0] == 200
    place = f"{objects}/{prefix.replace('/', '%2F')}"
    assert send("GET", f"{place}a?alt=media", Range="bytes=2-4")[::2] == (206, b"345")
    sources = {"sourceObjects": [{"name": f"{prefix}a"}, {"name": f"{prefix}b"}], "destination": {}}
    assert send("POST", f"{place}c/compose", json.dumps(sources).encode(), Content_Type="application/json")[0] == 200
    assert json.loads(send("GET", f"{place}c")[2])["crc32c"] == "qGxT9A=="
    # One of them describes it as no service does, in every listing of the bucket.
    assert send("DELETE", f"{place}c")[0] in (200, 204)


def test_fake_gcs_holds_uploads_to_a_generation(fake_gcs: FakeGcs) -> None:
    _, prefix = split(fake_gcs.place())
    url = f"{fake_gcs.url}/upload/storage/v1/b/{GCS_BUCKET}/o?uploadType=media&name={prefix}a"
    generation = json.loads(send("POST", f"{url}&ifGenerationMatch=0", b"1")[2])["generation"]
    assert send("POST", f"{url}&ifGenerationMatch=0", b"2")[0] == 412
    assert send("POST", f"{url}&ifGenerationMatch={generation}", b"3")[0] == 200


def test_gcp_storage_emulator_tells_how_far_an_upload_has_come(gcp_storage_emulator: GcpStorageEmulator) -> None:
    _, prefix = split(gcp_storage_emulator.place())
    url = f"{gcp_storage_emulator.url}/upload/storage/v1/b/{GCS_BUCKET}/o?uploadType=resumable&name={prefix}a"
    session = send("POST", url, b"{}", Content_Type="application/json")[1]["location"]
    begin = b"a" * 256 * 1024
    assert send("PUT", session, begin, Content_Range=f"bytes 0-{len(begin) - 1}/*")[0] == 308
    status, headers, _ = send("PUT", session, b"", Content_Range="bytes */*")
    assert (status, headers["range"]) == (308, f"bytes=0-{len(begin) - 1}")
    size = len(begin) + 3
    assert send("PUT", session, b"end", Content_Range=f"bytes {len(begin)}-{size - 1}/{size}")[0] == 200


def test_azurite_keeps_blocks_and_copies_between_blobs(azurite: Azurite, azure_place: Place) -> None:
    storage = pytest.importorskip("azure.storage.blob")
    errors = pytest.importorskip("azure.core.exceptions")
    _, prefix = split(azure_place)
    container = azurite.client().get_container_client(CONTAINER)
    blob = container.get_blob_client(f"{prefix}a")
    for name in ("0001", "0002"):
        blob.stage_block(name, name.encode())
    assert [block.id for block in blob.get_block_list("uncommitted")[1]] == ["0001", "0002"]
    blob.commit_block_list([storage.BlobBlock("0002"), storage.BlobBlock("0001")])
    assert blob.download_blob(offset=2, length=4).readall() == b"0200"
    with pytest.raises(errors.ResourceExistsError):
        blob.upload_blob(b"other", overwrite=False)
    container.get_blob_client(f"{prefix}b").start_copy_from_url(blob.url)
    assert container.get_blob_client(f"{prefix}b").download_blob().readall() == b"00020001"


@pytest.mark.parametrize("folder", ["", "password/", "bearer/"])
def test_nginx_serves_ranges_to_whom_it_lets_in(nginx: Nginx, http_place: Place, folder: str, file: Path) -> None:
    assert http_place.root
    (http_place.root / "file.bin").write_bytes(file.read_bytes())
    login: dict[str, tuple[str, ...]] = {
        "password/": ("--netrc-file", str(nginx.home / ".netrc")),
        "bearer/": ("--oauth2-bearer", BEARER),
    }
    url = http_place.url.replace(nginx.url, f"{nginx.url}/{folder}".rstrip("/")) + "file.bin"
    curl("--range", "10-19", *login.get(folder, ()), url, "--output", file.with_name("range"))
    assert file.with_name("range").read_bytes() == file.read_bytes()[10:20]
    if folder:
        assert send("GET", url)[0] == 401


def test_nginx_serves_over_tls_takes_files_and_can_do_without_ranges(
    nginx: Nginx, http_place: Place, file: Path
) -> None:
    assert http_place.root
    url = http_place.url.replace(nginx.url, nginx.tls_url)
    curl("--cacert", nginx.certificate.authority, "--upload-file", file, f"{url}new/file.bin")
    assert (http_place.root / "new" / "file.bin").read_bytes() == file.read_bytes()
    plain = http_place.url.replace(nginx.url, f"{nginx.url}/plain") + "new/file.bin"
    status, headers, body = send("GET", plain, Range="bytes=1-2")
    assert (status, len(body)) == (200, SIZE) and "etag" not in headers


def test_webdav_makes_folders_lists_copies_and_moves(webdav: HttpServer, webdav_place: Place, file: Path) -> None:
    assert webdav_place.root
    url = webdav_place.url.replace("webdav://", "http://")
    login = ("--netrc-file", webdav.home / ".netrc")
    curl(*login, "--request", "MKCOL", f"{url}folder")
    curl(*login, "--upload-file", file, f"{url}folder/a.bin")
    for method, name in (("COPY", "b.bin"), ("MOVE", "c.bin")):
        curl(*login, "--request", method, "--header", f"Destination: {url}folder/{name}", f"{url}folder/a.bin")
    listing = curl(*login, "--request", "PROPFIND", "--header", "Depth: 1", f"{url}folder/")
    assert "b.bin" in listing and "c.bin" in listing and "a.bin" not in listing
    assert (webdav_place.root / "folder" / "c.bin").read_bytes() == file.read_bytes()
    assert send("GET", f"{url}folder/b.bin")[0] == 401


def test_webdav_over_tls_is_trusted_by_its_authority(wsgidav_tls: WsgiDavTls, file: Path) -> None:
    place = wsgidav_tls.place()
    words = ("--cacert", wsgidav_tls.certificate.authority, "--user", f"{USER}:{PASSWORD}", "--upload-file", file)
    curl(*words, place.url.replace("webdavs://", "https://") + "a.bin")
    assert place.root and (place.root / "a.bin").read_bytes() == file.read_bytes()


def test_sftp_of_openssh_puts_and_gets_files(sftp: SftpServer, sftp_place: Place, file: Path, scratch: Path) -> None:
    assert sftp_place.root
    folder = "/" + sftp_place.url.split("/", 3)[3]
    batch = scratch / "batch"
    batch.write_text(
        f"put {file} {folder}a.bin\nrename {folder}a.bin {folder}b.bin\nget {folder}b.bin {scratch}/back\n"
    )
    call("sftp", "-q", "-F", sftp.configuration, "-b", batch, ALIAS)
    assert (sftp_place.root / "b.bin").read_bytes() == (scratch / "back").read_bytes() == file.read_bytes()


def test_sshd_runs_commands(openssh: OpenSsh, file: Path) -> None:
    digest = call("ssh", "-F", openssh.configuration, ALIAS, "sha256sum", file).split()[0]
    assert digest == sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("security", ["clear", "on request", "from the start"])
def test_ftp_takes_files_and_goes_on_where_they_end(ftp: FtpServer, security: str, file: Path, scratch: Path) -> None:
    place = ftp.place()
    assert place.root
    options: dict[str, tuple[str | Path, ...]] = {
        "clear": (),
        "on request": ("--ssl-reqd", "--cacert", ftp.certificate.authority),
        "from the start": ("--cacert", ftp.certificate.authority),
    }
    url = place.url.replace(ftp.url, ftp.implicit_url) if security == "from the start" else place.url
    (place.root / "a.bin").write_bytes(file.read_bytes()[:1000])
    curl(*options[security], "--continue-at", "1000", "--upload-file", file, f"{url}a.bin")
    assert (place.root / "a.bin").read_bytes() == file.read_bytes()
    curl(*options[security], "--range", "10-19", f"{url}a.bin", "--output", scratch / "range")
    assert (scratch / "range").read_bytes() == file.read_bytes()[10:20]
    assert "a.bin" in curl(*options[security], url)


def test_rclone_serves_ftp(rclone_ftp: RcloneFtp, file: Path) -> None:
    place = rclone_ftp.place()
    curl("--upload-file", file, f"{place.url}a.bin")
    assert place.root
    root = place.root
    wait_until(lambda: (root / "a.bin").exists() and (root / "a.bin").stat().st_size == SIZE, "the upload")


START_AND_WAIT = """
import sys, time
sys.path[:0] = sys.argv[1:3]
from endpoints.servers import RcloneWebdav
server = RcloneWebdav()
server.start()
print(server.port, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process that its parent died")
def test_a_server_ends_with_tests_that_are_killed(scratch: Path) -> None:
    if reason := RcloneWebdav.missing():
        absent(RcloneWebdav.name, reason)
    tests = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", START_AND_WAIT, str(tests), str(tests.parent / "benchmarks")]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as killed:
        assert killed.stdout
        port = int(killed.stdout.readline())
        assert speaks(port, RcloneWebdav.greeting)
        killed.kill()
    wait_until(lambda: not speaks(port, RcloneWebdav.greeting), "the end of the server")

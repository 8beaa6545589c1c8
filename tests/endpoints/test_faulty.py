"""The faulty proxies and the odd server do what they say."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from endpoints import faults
from endpoints.faults import Request, SlowDown
from endpoints.faulty import FaultyProxy
from endpoints.origin import Oddity, Origin
from endpoints.servers import Nginx, VersityGw
from endpoints.servers.s3 import S3Server
from endpoints.test_servers import curl, send, split
from harness import MIB

CONTENT = bytes(range(256)) * 8192
Front = Callable[..., FaultyProxy]


def fetch(url: str, **headers: str) -> bytes:
    """The body of a GET."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        body: bytes = answer.read()
        return body


@pytest.mark.parametrize("fault", [faults.truncated, faults.reset])
def test_every_third_body_ends_early(faulty: Front, fault: Callable[..., faults.Fault]) -> None:
    with Origin(CONTENT) as origin:
        proxy = faulty(origin.url, chosen := fault(every=3, share=0.25))
        url = f"{proxy.url}/file.bin"
        outcomes = []
        for _ in range(6):
            try:
                outcomes.append(len(fetch(url)))
            except http.client.IncompleteRead as error:
                outcomes.append(len(error.partial))
            except ConnectionResetError:
                outcomes.append(-1)
        assert outcomes[2] == outcomes[5] == (-1 if fault is faults.reset else len(CONTENT) // 4)
        assert outcomes.count(len(CONTENT)) == 4
        assert (chosen.picked, chosen.done) == (6, 2)


def test_one_bit_of_a_download_and_of_an_upload_is_another(faulty: Front, nginx: Nginx) -> None:
    place = nginx.place()
    proxy = faulty(nginx.url, faults.flipped(times=1), faults.flipped_upload(times=1))
    url = place.url.replace(nginx.url, proxy.url) + "a.bin"
    send("PUT", url, CONTENT)
    assert place.root
    stored = (place.root / "a.bin").read_bytes()
    assert len(stored) == len(CONTENT) and differing(stored, CONTENT) == 1
    assert differing(fetch(url), stored) == 1
    assert fetch(url) == stored


def differing(left: bytes, right: bytes) -> int:
    """How many bytes differ."""
    return sum(a != b for a, b in zip(left, right, strict=True))


def test_an_upload_is_reset_within_its_body(faulty: Front, nginx: Nginx) -> None:
    place = nginx.place()
    proxy = faulty(nginx.url, faults.reset_upload(times=1))
    url = place.url.replace(nginx.url, proxy.url) + "a.bin"
    with pytest.raises((OSError, urllib.error.URLError)):
        send("PUT", url, b"x" * 8 * MIB)
    assert place.root and not (place.root / "a.bin").exists()
    assert send("PUT", url, CONTENT)[0] == 201
    assert (place.root / "a.bin").read_bytes() == CONTENT


def test_a_bucket_of_tokens_lets_its_rate_through() -> None:
    now = 0.0
    slow = SlowDown(20, burst=5, clock=lambda: now)
    request = Request("PUT", "/", {})
    for step in range(1000):
        now = step / 100
        slow.meets(request)
    assert slow.passed == pytest.approx(20 * now + 5, abs=1.01)
    assert slow.passed + slow.refused == 1000


def test_s3_says_slow_down_beyond_a_rate(faulty: Front, s3: S3Server) -> None:
    slow = SlowDown(20)
    proxy = faulty(s3.url, slow)
    client = s3.client(proxy.url)
    bucket, prefix = split(s3.place())
    errors = pytest.importorskip("botocore.exceptions")

    def put(number: int) -> str:
        try:
            client.put_object(Bucket=bucket, Key=f"{prefix}{number}", Body=b"x" * 1000)
        except errors.ClientError as error:
            return str(error.response["Error"]["Code"])
        return "put"

    begin = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(put, range(100)))
    longest = 20 * (time.monotonic() - begin) + 2
    assert outcomes.count("put") == slow.passed <= longest
    assert outcomes.count("SlowDown") == slow.refused == 100 - slow.passed > 0
    assert proxy.requests["PUT"] == 100


def test_too_many_requests_are_told_when_to_come_again(faulty: Front, nginx: Nginx) -> None:
    place = nginx.place()
    proxy = faulty(nginx.url, faults.too_many(2, every=2))
    url = place.url.replace(nginx.url, proxy.url) + "a.bin"
    assert send("PUT", url, CONTENT)[0] == 201
    status, headers, _ = send("PUT", url, CONTENT)
    assert (status, headers["retry-after"]) == (429, "2")


def test_requests_are_delayed(faulty: Front) -> None:
    with Origin(CONTENT) as origin:
        proxy = faulty(origin.url, faults.delayed(0.3, times=1))
        begin = time.monotonic()
        assert fetch(f"{proxy.url}/file.bin") == CONTENT
        assert time.monotonic() - begin > 0.29


def test_a_proxy_without_faults_changes_nothing(faulty: Front, versitygw: VersityGw) -> None:
    client = versitygw.client(faulty(versitygw.url).url)
    bucket, prefix = split(versitygw.place())
    words = {"Bucket": bucket, "Key": f"{prefix}a"}
    for body in (b"", b"x", CONTENT):
        client.put_object(**words, Body=body)
        assert client.get_object(**words)["Body"].read() == body
        assert client.head_object(**words)["ContentLength"] == len(body)
    assert len(client.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]) == 1


def test_a_chunked_body_passes_and_can_be_cut(faulty: Front) -> None:
    with Origin(CONTENT, Oddity.CHUNKED) as origin:
        proxy = faulty(origin.url, faults.truncated(every=2))
        assert fetch(f"{proxy.url}/file.bin") == CONTENT
        with pytest.raises(http.client.IncompleteRead):
            fetch(f"{proxy.url}/file.bin")


@pytest.mark.slow
def test_a_proxy_passes_200_mb_a_second(faulty: Front, nginx: Nginx, scratch: Path) -> None:
    place = nginx.place()
    assert place.root
    size = 512 * MIB
    with (place.root / "large").open("wb") as file:
        file.truncate(size)
    curl(f"{place.url}large", "--output", "/dev/null")
    proxy = faulty(nginx.url)
    url = place.url.replace(nginx.url, proxy.url) + "large"
    begin = time.monotonic()
    curl(url, "--output", "/dev/null")
    assert size / (time.monotonic() - begin) > 200e6


def test_an_odd_server_ignores_ranges() -> None:
    with Origin(CONTENT, Oddity.IGNORES_RANGE) as origin:
        status, headers, body = send("GET", origin.url, Range="bytes=1-2")
        assert (status, body) == (200, CONTENT) and "accept-ranges" not in headers


def test_an_odd_server_names_no_length_has_no_head_or_no_strong_etag() -> None:
    with Origin(CONTENT, Oddity.CHUNKED) as origin:
        assert "content-length" not in send("GET", origin.url)[1]
        assert send("GET", origin.url, Range="bytes=1-2")[::2] == (206, CONTENT[1:3])
    with Origin(CONTENT, Oddity.NO_HEAD | Oddity.WEAK_ETAG) as origin:
        assert send("HEAD", origin.url)[0] == 405
        etag = send("GET", origin.url)[1]["etag"]
        assert etag.startswith("W/")
        assert send("GET", origin.url, Range="bytes=1-2", If_Range=etag)[0] == 200


def test_a_file_that_changes_is_noticed_by_its_etag() -> None:
    changed = CONTENT[::-1]
    with Origin(CONTENT, changed=changed, change_after=2) as origin:
        first = send("GET", origin.url, Range="bytes=0-9")
        etag = first[1]["etag"]
        assert send("GET", origin.url, Range="bytes=0-9", If_Match=etag)[::2] == (206, CONTENT[:10])
        assert send("GET", origin.url, Range="bytes=0-9", If_Match=etag)[0] == 412
        assert send("GET", origin.url, Range="bytes=0-9", If_Range=etag)[::2] == (200, changed)
        origin.change(CONTENT)
        assert send("HEAD", origin.url)[1]["etag"] == etag
        assert origin.ranges == 2

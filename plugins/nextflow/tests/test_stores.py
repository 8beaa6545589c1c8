"""Object stores: what is deleted there is what was named, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from endpoints.servers import Moto
from endpoints.servers.server import Server
from pipeline import Pipeline

GONE = (
    *("tree/a", "tree/b/c", "deep/er/1", "deep/er/2/3", "both", "alone", "marker/"),
    *("a+b/x", "50%/x", "[ab]/x", "*/x"),
)
KEPT = (
    *("tree1/x", "tree-old", "treex", "deep/error", "deep/er1", "both/below", "full/a", "full/b", "prefix/y"),
    *("alone1", "marker1", "a b/x", "50%25/x", "a/x", "b/x", "nothing-else"),
)
SCRIPT = """
def attempt = { Closure work -> try { work() } catch (Exception error) { error.class.simpleName } }
['tree', 'deep/er', 'a+b', '50%', '[ab]', '*'].each { name ->
    println "tree ${attempt { nextflow.file.FileHelper.asPath("URL/$name".toString()).deleteDir() }}"
}
['both', 'alone', 'marker'].each { name -> println "one ${attempt { file("URL/$name").delete() }}" }
['full', 'nothing', 'pre'].each { name -> println "none ${attempt { file("URL/$name").delete() }}" }
println "root ${attempt { file('BUCKET/').delete() }}"
attempt { file('URL/pre').deleteDir() }
attempt { file('URL/nothing').deleteDir() }
"""


@pytest.fixture
def moto(serving: Callable[[type[Server]], Server]) -> Moto:
    """S3, with nothing in it."""
    server = serving(Moto)
    assert isinstance(server, Moto)
    return server


def test_what_is_deleted_in_a_bucket_is_what_was_named(moto: Moto, pipeline: Pipeline) -> None:
    bucket, client = moto.bucket(), moto.client()
    for name in (*GONE, *KEPT):
        client.put_object(Bucket=bucket, Key=f"here/{name}", Body=b"" if name.endswith("/") else b"x")
    client.put_object(Bucket=bucket, Key="here-too", Body=b"x")
    pipeline.environment |= moto.environment
    url = f"edt+s3://{bucket}"
    run = pipeline.run(SCRIPT.replace("URL", f"{url}/here").replace("BUCKET", url))
    left = {found["Key"] for found in client.list_objects_v2(Bucket=bucket).get("Contents", [])}
    assert left == {"here-too", *(f"here/{name}" for name in KEPT)}
    assert run.lines("tree ") == 6 * ["true"]
    assert run.lines("one ") == 3 * ["true"]
    assert "true" not in [*run.lines("none "), *run.lines("root ")]

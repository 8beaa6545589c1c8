"""Credentials and configuration are found where each ecosystem keeps them, and go nowhere else."""

from __future__ import annotations

import base64
import datetime
import importlib
import json
import os
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints import faults
from endpoints.endpoint import Client, Endpoint, netrc
from endpoints.faulty import FaultyProxy
from endpoints.servers import Azurite, Nginx, OpenSsh
from endpoints.servers.azurite import ACCOUNT, KEY
from endpoints.servers.nginx import BEARER
from endpoints.servers.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server
from endpoints.servers.seaweedfs import BLIND_KEY
from endpoints.servers.server import HOST, PASSWORD, USER
from endpoints.servers.ssh import ALIAS
from endpoints.test_between_services import Seen
from harness import Outcome, contents, fill

On = Callable[[str], Endpoint]
Front = Callable[..., FaultyProxy]


def without(edt: Client, *beginnings: str) -> Client:
    """Takes variables out of a client's environment."""
    kept = {name: value for name, value in edt.environment.items() if not name.startswith(beginnings)}
    edt.environment = kept
    return edt


def test_keys_region_and_endpoint_come_from_an_aws_profile(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("versitygw")
    fill(source / "a.bin", 1000, "a")
    edt = without(Client(scratch, endpoint), "AWS_")
    folder = edt.home / ".aws"
    folder.mkdir()
    (folder / "config").write_text(
        f"[profile lab]\nregion = {REGION}\nendpoint_url = {endpoint.server.url}\n[default]\nregion = eu-north-1\n"
    )
    (folder / "credentials").write_text(
        f"[lab]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n"
    )
    edt.environment |= {"AWS_PROFILE": "lab", "AWS_EC2_METADATA_DISABLED": "true"}
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)


def test_keys_come_from_a_program_that_a_profile_names(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("versitygw")
    fill(source / "a.bin", 1000, "a")
    edt = without(Client(scratch, endpoint), "AWS_ACCESS", "AWS_SECRET")
    program = scratch / "program"
    answer = {"Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY}
    program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    program.chmod(0o700)
    config = scratch / "aws-config"
    config.write_text(f"[default]\ncredential_process = {program}\n")
    edt.environment["AWS_CONFIG_FILE"] = str(config)
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)


def test_public_objects_are_read_without_keys_and_not_written(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("versitygw")
    assert isinstance(endpoint.server, S3Server)
    fill(source / "a.bin", 1000, "a")
    bucket = permissive(endpoint.server, "s3:GetObject", "s3:ListBucket")
    client = endpoint.server.client()
    client.put_object(Bucket=bucket, Key="public/a.bin", Body=(source / "a.bin").read_bytes())
    for variables in ({"AWS_NO_SIGN_REQUEST": "true"}, {}):
        edt = without(Client(scratch, endpoint), "AWS_ACCESS", "AWS_SECRET")
        edt.environment |= variables
        edt.copy(f"s3://{bucket}/public/", scratch / "back" / str(len(variables)))
        assert contents(scratch / "back" / str(len(variables))) == contents(source)
        refused = edt.run("cp", source, f"s3://{bucket}/public/new/")
        assert refused.code in (1, 3) and "hint" in refused.err, refused.err
    assert "credentials" in refused.err


@pytest.mark.parametrize(
    "answer",
    [
        faults.Answer("403 Forbidden"),
        faults.Answer("200 OK", b"<html>log in</html>", (("x-aws-ec2-metadata-token-ttl-seconds", "21600"),)),
    ],
    ids=lambda answer: answer.status,
)
def test_a_metadata_service_that_has_no_credentials_is_as_good_as_none(
    on: On, faulty: Front, source: Path, scratch: Path, answer: faults.Answer
) -> None:
    endpoint = on("versitygw")
    assert isinstance(endpoint.server, S3Server)
    fill(source / "a.bin", 1000, "a")
    bucket = permissive(endpoint.server, "s3:GetObject", "s3:ListBucket")
    endpoint.server.client().put_object(Bucket=bucket, Key="public/a.bin", Body=(source / "a.bin").read_bytes())
    asked = faults.Fault(answer, faults.ALL_METHODS)
    edt = without(Client(scratch, endpoint), "AWS_ACCESS", "AWS_SECRET", "AWS_EC2_METADATA_DISABLED")
    edt.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = faulty(endpoint.server.url, asked).url
    edt.copy(f"s3://{bucket}/public/", scratch / "back")
    assert contents(scratch / "back") == contents(source)
    assert asked.done > 0, "the metadata service was not asked"
    # What is configured and cannot be had is an error all the same.
    (scratch / "config").write_text("[default]\ncredential_process = /bin/false\n")
    edt.environment["AWS_CONFIG_FILE"] = str(scratch / "config")
    assert edt.run("ls", f"s3://{bucket}/public/").code == 3


def test_who_may_only_put_and_get_can_write(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("seaweedfs")
    fill(source / "large.bin", 20_000_000, "large")
    fill(source / "small.bin", 1000, "small")
    edt = Client(scratch, endpoint)
    edt.environment["AWS_ACCESS_KEY_ID"] = BLIND_KEY
    edt.copy(source, endpoint.at("run/"))
    edt.copy(source / "small.bin", endpoint.at("single"))
    edt.copy("--no-overwrite", source / "small.bin", endpoint.at("new"))
    assert set(endpoint.stored()) == {"run/large.bin", "run/small.bin", "single", "new"}
    assert edt.run("cp", "--no-overwrite", source / "small.bin", endpoint.at("single")).code == 1
    listed = edt.run("ls", endpoint.at("run/"))
    assert listed.code == 3 and "could not list" in listed.err and "hint" in listed.err, listed.err


def test_who_may_only_put_need_not_look_first(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("versitygw")
    assert isinstance(endpoint.server, S3Server)
    fill(source / "small.bin", 1000, "small")
    bucket = permissive(endpoint.server, "s3:PutObject")
    edt = without(Client(scratch, endpoint), "AWS_ACCESS", "AWS_SECRET")
    edt.environment["AWS_NO_SIGN_REQUEST"] = "true"
    edt.copy(source, f"s3://{bucket}/run/")
    edt.copy("--no-overwrite", source / "small.bin", f"s3://{bucket}/single")
    found = endpoint.server.client().list_objects_v2(Bucket=bucket)["Contents"]
    assert [item["Key"] for item in found] == ["run/small.bin", "single"]


def permissive(server: S3Server, *actions: str) -> str:
    """A fresh bucket on which everybody may do these things."""
    bucket = server.bucket()
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    statement = {"Effect": "Allow", "Principal": "*", "Action": list(actions), "Resource": resources}
    server.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [statement]}))
    return bucket


def test_a_presigned_url_is_read_as_it_is(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("versitygw")
    assert isinstance(endpoint.server, S3Server)
    fill(source / "a.bin", 3_000_000, "a")
    Client(scratch, endpoint).copy(source, endpoint.url)
    words = {"Bucket": BUCKET, "Key": f"{endpoint.prefix}a.bin"}
    session = importlib.import_module("boto3").Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
    config = importlib.import_module("botocore.config").Config(signature_version="s3v4")
    signer = session.client("s3", endpoint_url=endpoint.server.url, config=config)
    url = signer.generate_presigned_url("get_object", Params=words)
    edt = without(Client(scratch, endpoint), "AWS_")
    edt.environment |= {"EDT_LOG": "trace", "BEARER_TOKEN": "a-token-of-another-place"}
    outcome = edt.copy(url, scratch / "back.bin")
    assert (scratch / "back.bin").read_bytes() == (source / "a.bin").read_bytes()
    signature = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    secret = next(value[0] for name, value in signature.items() if name.lower().endswith("signature"))
    assert secret not in outcome.out + outcome.err


@pytest.mark.parametrize("name", ["wsgidav", "proftpd"])
def test_a_password_is_found_in_the_netrc_of_the_home_directory(on: On, source: Path, scratch: Path, name: str) -> None:
    endpoint = on(name)
    fill(source / "a.bin", 1000, "a")
    edt = without(Client(scratch, endpoint), "NETRC")
    refused = edt.run("cp", source, endpoint.url)
    assert refused.code == 3 and "hint" in refused.err, refused.err
    netrc(edt.home / ".netrc")
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)


def test_a_password_in_a_url_is_refused_and_not_repeated(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("proftpd")
    url = endpoint.url.replace("@", f":{PASSWORD}@")
    outcome = Client(scratch, endpoint).run("cp", "--json", source, url)
    assert outcome.code == 2 and "netrc" in outcome.err
    assert PASSWORD not in outcome.out + outcome.err


@pytest.mark.parametrize("variable", ["BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR", "EDT_HTTP_TOKEN"])
def test_a_bearer_token_is_found_as_the_wlcg_has_it(on: On, scratch: Path, variable: str) -> None:
    endpoint = on("nginx")
    assert endpoint.root and isinstance(endpoint.server, Nginx)
    fill(endpoint.root / "a.bin", 1000, "a")
    url = endpoint.url.replace(endpoint.server.url, f"{endpoint.server.tls_url}/bearer")
    edt = without(Client(scratch, endpoint), "NETRC")
    assert edt.run("cp", url, scratch / "refused").code == 3
    (scratch / f"bt_u{os.geteuid()}").write_text(f"{BEARER}\n")
    values = {
        "BEARER_TOKEN_FILE": str(scratch / f"bt_u{os.geteuid()}"),
        "XDG_RUNTIME_DIR": str(scratch),
    }
    edt.environment[variable] = values.get(variable, BEARER)
    edt.copy(url, scratch / "back")
    assert contents(scratch / "back") == contents(endpoint.root)


def test_a_bearer_token_goes_to_webdav_servers_but_not_in_the_clear_to_another_host(
    on: On, faulty: Front, scratch: Path
) -> None:
    endpoint = on("wsgidav")
    seen = Seen()
    proxy = faulty(endpoint.server.url, seen)
    proxied = endpoint.through(proxy)
    edt = without(Client(scratch, proxied), "NETRC")
    edt.environment["BEARER_TOKEN"] = BEARER
    edt.run("ls", proxied.url)
    assert {request.headers.get("authorization") for request in seen.requests} == {f"Bearer {BEARER}"}
    # The proxy answers for every host.
    edt.environment |= {"http_proxy": proxy.url, "EDT_HTTP_TOKEN": BEARER}
    for scheme in ("webdav", "http"):
        seen.requests.clear()
        edt.run("ls", f"{scheme}://data.example.org/folder/")
        assert seen.requests, "the proxy was not asked"
        assert not any("authorization" in request.headers for request in seen.requests)


def test_an_alias_of_the_ssh_configuration_is_a_host(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("openssh")
    assert endpoint.root
    fill(source / "a.bin", 1000, "a")
    edt = Client(scratch, endpoint)
    edt.copy(source, f"sftp://{ALIAS}/{endpoint.root}/")
    assert endpoint.stored() == contents(source)


def test_one_slash_leads_below_the_home_directory(on: On, scratch: Path) -> None:
    endpoint = on("asyncssh")
    assert endpoint.root
    fill(endpoint.root / "a.bin", 1000, "a")
    edt = Client(scratch, endpoint)
    absolute = endpoint.url.replace(f":{endpoint.server.port}/", f":{endpoint.server.port}//")
    assert edt.run("ls", endpoint.url).out == edt.run("ls", absolute).out == "a.bin\n"


def test_an_unknown_host_key_is_refused(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("openssh")
    assert isinstance(endpoint.server, OpenSsh)
    fill(source / "a.bin", 1000, "a")
    edt = Client(scratch, endpoint)
    (scratch / "known").touch()
    program = scratch / "ssh"
    config = endpoint.server.configuration
    program.write_text(f'#!/bin/sh\nexec ssh -F {config} -o UserKnownHostsFile={scratch}/known "$@"\n')
    program.chmod(0o700)
    edt.environment["EDT_SSH"] = str(program)
    outcome = edt.run("cp", source, endpoint.url)
    assert outcome.code == 3 and "ost key" in outcome.err and "hint" in outcome.err, outcome.err
    assert (scratch / "known").read_text() == ""
    assert endpoint.stored() == {}


@pytest.mark.parametrize("way", ["connection string", "account and key", "shared access signature"])
def test_an_azure_account_is_found_in_the_environment(on: On, source: Path, scratch: Path, way: str) -> None:
    endpoint = on("azurite")
    assert isinstance(endpoint.server, Azurite)
    fill(source / "a.bin", 1000, "a")
    edt = without(Client(scratch, endpoint), "AZURE_")
    place = endpoint.server.endpoint
    edt.environment |= {
        "connection string": {
            "AZURE_STORAGE_CONNECTION_STRING": f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={place}"
        },
        "account and key": {
            "AZURE_STORAGE_ACCOUNT": ACCOUNT,
            "AZURE_STORAGE_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": place,
            "AZURE_ALLOW_HTTP": "true",
        },
        "shared access signature": {
            "AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={place};SharedAccessSignature={shared(endpoint.server)};"
            f"AccountName={ACCOUNT}"
        },
    }[way]
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)


def test_the_credentials_of_azure_go_to_no_host_that_only_a_url_names(scratch: Path) -> None:
    edt = Client(scratch)
    edt.environment |= {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY}
    outcome = edt.run("ls", f"az://data@{ACCOUNT}.blob.evil.invalid/")
    assert outcome.code == 2 and "credentials" in outcome.err and "AZURE_STORAGE_ENDPOINT" in outcome.err, outcome.err
    # Named by the user too, it is asked, and not found.
    edt.environment["AZURE_STORAGE_ENDPOINT"] = f"https://{ACCOUNT}.blob.evil.invalid"
    outcome = edt.run("ls", f"az://data@{ACCOUNT}.blob.evil.invalid/")
    assert outcome.code == 4, outcome.err


def shared(azurite: Azurite) -> str:
    """A shared access signature for everything."""
    blob = importlib.import_module("azure.storage.blob")
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    permission = blob.AccountSasPermissions(read=True, write=True, list=True, create=True, delete=True, add=True)
    types = blob.ResourceTypes(service=True, container=True, object=True)
    return str(blob.generate_account_sas(ACCOUNT, KEY, types, permission, expiry))


SECRETS = {
    "versitygw": [SECRET_KEY],
    "azurite": [KEY],
    "wsgidav": [PASSWORD, base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()],
    "proftpd-tls": [PASSWORD],
}


@pytest.mark.parametrize("name", SECRETS)
def test_no_output_holds_a_secret(on: On, source: Path, scratch: Path, name: str) -> None:
    endpoint = on(name)
    fill(source / "a.bin", 9_000_000, "a")
    edt = Client(scratch, endpoint)
    edt.environment["EDT_LOG"] = "trace"
    report = scratch / "report.json"
    outcomes: list[Outcome] = [
        edt.copy("--verbose", "--report", report, source, endpoint.url),
        edt.run("ls", "-r", endpoint.url),
        edt.run("cp", endpoint.at("missing"), scratch / "back"),
        edt.run("clean", endpoint.url),
    ]
    said = "".join(outcome.out + outcome.err for outcome in outcomes) + report.read_text()
    assert [secret for secret in SECRETS[name] if secret in said] == []
    assert HOST in said or BUCKET in said, "nothing was logged"

"""What edt brings to a server and back is what was there, on every kind of server, and so says every command."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints.endpoint import OBJECT_STORES, WRITABLE, Client, Endpoint, described, netrc
from endpoints.servers import Nginx
from harness import MIB, Outcome, contents, fill, snapshot

On = Callable[[str], Endpoint]

ODD = ("a space", "per%41cent", "ä ☃", "hash#tag", "plus+plus", ".hidden", "a&b=c", "it's", "-dash", "(x) @ $1,!~")
TIME_NS = 1_500_000_000_123_456_789

everywhere = pytest.mark.parametrize("endpoint", WRITABLE, indirect=True)
# These two answer slowly, and are of a kind with others.
nearly_everywhere = pytest.mark.parametrize(
    "endpoint", [name for name in WRITABLE if name not in ("gcp-storage-emulator", "proftpd")], indirect=True
)


@pytest.fixture
def edt(scratch: Path, endpoint: Endpoint) -> Client:
    """The command line, led to the endpoint."""
    return Client(scratch, endpoint)


def small_tree(root: Path) -> None:
    """Files with odd names and odd sizes, each with a time of its own."""
    fill(root / "empty", 0, "empty")
    fill(root / "tiny" / "one byte", 1, "one")
    fill(root / "tiny" / "deeper" / "x.bin", 262_144, "slab")
    fill(root / "medium.bin", MIB, "medium")
    for number, name in enumerate(ODD):
        fill(root / "odd" / name, 100 + number, name)
    fill(root / ODD[0] / "inner", 10, "inner")
    for number, path in enumerate(sorted(path for path in root.rglob("*") if path.is_file())):
        os.utime(path, ns=(1, TIME_NS + number * 1_000_000_007))


def listed(outcome: Outcome) -> dict[str, tuple[str, int]]:
    """Kind and size of each entry that `edt ls --json` printed."""
    entries = map(json.loads, outcome.out.splitlines())
    return {entry["path"]: (entry["kind"], entry["size"]) for entry in entries}


def sizes(root: Path) -> dict[str, tuple[str, int]]:
    """The same of a local tree."""
    found = snapshot(root)
    return {
        name: (node.kind, (root / name).stat().st_size if node.kind == "file" else 0) for name, node in found.items()
    }


def seconds(root: Path) -> dict[str, int]:
    """The modification time of each file in whole seconds."""
    return {name: node.modified_ns // 10**9 for name, node in snapshot(root).items() if node.kind == "file"}


def ok(outcome: Outcome) -> Outcome:
    """Holds a command to its exit code."""
    assert outcome.code == 0, f"exit code {outcome.code}\n{outcome.err}\n{outcome.out[-2000:]}"
    return outcome


@everywhere
def test_a_tree_goes_up_and_comes_back_as_it_was(edt: Client, endpoint: Endpoint, source: Path, scratch: Path) -> None:
    small_tree(source)
    fill(source / "large.bin", 20 * MIB + 3, "large")
    if endpoint.keeps_directories:
        (source / "empty directory" / "inner").mkdir(parents=True)
    manifest = scratch / "manifest.jsonl"
    totals = edt.copy("--manifest", manifest, source, endpoint.url).totals()
    assert (totals["files_done"], totals["failed"]) == (len(contents(source)), 0)
    assert endpoint.stored() == contents(source)
    assert endpoint.leftovers() == [] and edt.remembered() == []
    assert listed(ok(edt.run("ls", "-r", "--json", endpoint.url))) == sizes(source)
    assert set(listed(ok(edt.run("ls", "--json", endpoint.url)))) == {path.name for path in source.iterdir()}
    ok(edt.run("verify", manifest, endpoint.url))
    edt.copy(endpoint.url, scratch / "back")
    assert contents(scratch / "back") == contents(source)
    assert sizes(scratch / "back") == sizes(source)
    if endpoint.url.startswith(("sftp", "ftp")):
        assert seconds(scratch / "back") == seconds(source)


@pytest.mark.parametrize("endpoint", OBJECT_STORES, indirect=True)
def test_objects_keep_the_times_of_files_as_rclone_keeps_them(edt: Client, endpoint: Endpoint, source: Path) -> None:
    fill(source / "small.bin", 100, "small")
    fill(source / "parts.bin", 17 * MIB, "parts")
    for path in source.iterdir():
        os.utime(path, ns=(1, TIME_NS))
        path.chmod(0o640)
    edt.copy(source, endpoint.url)
    for name in ("small.bin", "parts.bin"):
        found = {key.lower().replace("_", "-"): value for key, value in described(endpoint, name).items()}
        as_seconds = endpoint.url.startswith("s3://")
        assert found["mtime"] == ("1500000000.123456789" if as_seconds else "2017-07-14T02:40:00.123456789Z")
        assert found["edt-mode"] == "640"


@nearly_everywhere
def test_a_second_sync_sends_nothing_a_third_what_changed_and_a_mirror_removes_the_rest(
    edt: Client, endpoint: Endpoint, source: Path, scratch: Path
) -> None:
    small_tree(source)
    first = edt.copy("--sync", source, endpoint.url).totals()
    files = len(contents(source))
    assert first["files_done"] == files
    second = edt.copy("--sync", source, endpoint.url).totals()
    assert (second["files_done"], second["files_skipped"], second["bytes_sent"]) == (0, files, 0)
    fill(source / "medium.bin", MIB - 1, "changed")
    third = edt.copy("--sync", source, endpoint.url).totals()
    assert (third["files_done"], third["files_skipped"]) == (1, files - 1)
    assert endpoint.stored() == contents(source)

    down = edt.copy("--sync", endpoint.url, scratch / "back").totals()
    again = edt.copy("--sync", endpoint.url, scratch / "back").totals()
    assert (down["files_done"], again["files_done"]) == (files, 0)

    before = endpoint.stored()
    shutil.rmtree(source / "tiny")
    (source / "odd" / ODD[1]).unlink()
    planned = edt.copy("--sync", "--delete", "--dry-run", source, endpoint.url)
    assert planned.events()[-1]["dry_run"] is True and planned.totals()["removed"] > 0
    assert endpoint.stored() == before
    removed = edt.copy("--sync", "--delete", source, endpoint.url).totals()["removed"]
    # Directories are items of their own where they exist.
    assert removed == (5 if endpoint.keeps_directories else 3)
    assert endpoint.stored() == contents(source)


@nearly_everywhere
def test_single_files_and_patterns_are_copied_described_and_removed(
    edt: Client, endpoint: Endpoint, source: Path, scratch: Path
) -> None:
    for name in ("one.bin", "two.bin", "other.txt", ODD[0], ODD[1], ODD[3]):
        fill(source / name, 1000 + len(name), name)
    edt.copy(source / "one.bin", endpoint.at("new.bin"))
    edt.copy(source / "two.bin", endpoint.at("into/"))
    edt.copy(source / ODD[0], source / ODD[1], source / ODD[3], endpoint.at("several/"))
    assert set(endpoint.stored()) == {"new.bin", "into/two.bin", *(f"several/{name}" for name in ODD[:2] + ODD[3:4])}
    for name in (ODD[0], ODD[1], ODD[3]):
        entry = json.loads(ok(edt.run("stat", "--json", endpoint.at(f"several/{name}"))).out)
        assert (entry["kind"], entry["size"]) == ("file", 1000 + len(name))
        edt.copy(endpoint.at(f"several/{name}"), scratch / "down" / name)
        assert (scratch / "down" / name).read_bytes() == (source / name).read_bytes()
    assert json.loads(ok(edt.run("stat", "--json", endpoint.at("into"))).out)["kind"] == "directory"

    edt.copy("--exclude", "several", "--dry-run", source, endpoint.at("all/"))
    assert not any(name.startswith("all/") for name in endpoint.stored())
    edt.copy(source, endpoint.at("all/"))
    edt.copy(endpoint.at("all/") + "*.bin", scratch / "matching/")
    assert set(contents(scratch / "matching")) == {"one.bin", "two.bin"}

    ok(edt.run("rm", endpoint.at("new.bin"), endpoint.at(f"several/{ODD[1]}")))
    assert not {"new.bin", f"several/{ODD[1]}"} & set(endpoint.stored())
    refused = edt.run("rm", endpoint.at("all"))
    assert refused.code != 0 and "rm -r" in refused.err
    ok(edt.run("rm", "-r", endpoint.at("all")))
    assert set(endpoint.stored()) == {"into/two.bin", f"several/{ODD[0]}", f"several/{ODD[3]}"}
    if endpoint.server.name != "seaweedfs":
        # It keeps folders that became empty.
        assert edt.run("ls", endpoint.at("all/")).code == 4
        assert edt.run("stat", endpoint.at("all")).code == 4


@nearly_everywhere
def test_what_stands_there_is_kept_or_replaced_as_asked(edt: Client, endpoint: Endpoint, source: Path) -> None:
    fill(source / "a.bin", 300_000, "old")
    edt.copy(source, endpoint.url)
    old = contents(source)
    fill(source / "a.bin", 200_000, "new")
    outcome = edt.copy("--no-overwrite", source, endpoint.url, expected=1)
    failures = outcome.events()[-1]["failures"]
    assert [(failure["path"], failure["kind"]) for failure in failures] == [("a.bin", "already-exists")]
    assert endpoint.stored() == old
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)
    assert endpoint.leftovers() == []


def missing_place(endpoint: Endpoint) -> str:
    """A URL of a bucket, or of a folder, that does not exist."""
    if endpoint.keeps_directories:
        return endpoint.at("no-such-folder/")
    return endpoint.url.replace(endpoint.bucket, "no-such-bucket")


@nearly_everywhere
def test_what_is_missing_is_named_with_4(edt: Client, endpoint: Endpoint, source: Path, scratch: Path) -> None:
    fill(source / "a.bin", 10, "a")
    for words in (
        ("cp", endpoint.at("no-such-file"), scratch / "down"),
        ("cp", missing_place(endpoint), scratch / "down"),
        ("ls", missing_place(endpoint)),
        ("ls", endpoint.at("no-such-folder/")),
        ("stat", endpoint.at("no-such-file")),
        ("rm", endpoint.at("no-such-file")),
    ):
        outcome = edt.run(*words)
        assert outcome.code == 4, f"{words}: {outcome.code} {outcome.err}"
        assert "no-such-" in outcome.err and "Traceback" not in outcome.err
    if not endpoint.keeps_directories:
        for command in ("ls", "stat"):
            outcome = edt.run(command, endpoint.at("no-such-folder/"))
            assert "there is nothing under that name" in outcome.err and "hint" in outcome.err, outcome.err
        outcome = edt.run("cp", source, missing_place(endpoint))
        assert outcome.code == 4 and "hint" in outcome.err, outcome.err


@pytest.mark.parametrize("endpoint", ["versitygw", "azurite", "wsgidav", "openssh", "proftpd"], indirect=True)
def test_a_host_where_nobody_listens_is_unreachable_with_4(edt: Client, endpoint: Endpoint, source: Path) -> None:
    fill(source / "a.bin", 10, "a")
    nobody = re.compile(rf"(127\.0\.0\.1):{endpoint.server.port}\b")
    edt.environment = {name: nobody.sub(r"\1:9", value) for name, value in edt.environment.items()}
    outcome = edt.run("cp", source, nobody.sub(r"\1:9", endpoint.url), timeout=60)
    assert outcome.code == 4, outcome.err
    assert "hint" in outcome.err


@pytest.mark.parametrize(
    "endpoint",
    ["versitygw", "seaweedfs", "azurite", "wsgidav", "rclone-webdav", "openssh", "asyncssh", "proftpd"],
    indirect=True,
)
def test_wrong_credentials_are_refused_with_3(edt: Client, endpoint: Endpoint, source: Path, scratch: Path) -> None:
    fill(source / "a.bin", 10, "a")
    spoil_credentials(edt, endpoint, scratch)
    for words in (("cp", source, endpoint.url), ("ls", endpoint.url)):
        outcome = edt.run(*words)
        assert outcome.code == 3, f"{words}: {outcome.code} {outcome.err}"
        assert "hint" in outcome.err
    assert endpoint.stored() == {}


def spoil_credentials(edt: Client, endpoint: Endpoint, scratch: Path) -> None:
    """Leads edt to keys, passwords and accounts that the server does not know."""
    if "NETRC" in edt.environment:
        edt.environment["NETRC"] = str(netrc(scratch / "netrc", password="wrong-password"))
    if endpoint.url.startswith("s3://"):
        edt.environment["AWS_SECRET_ACCESS_KEY"] = "a-wrong-secret"
    if endpoint.url.startswith("az://"):
        wrong = "d3JvbmcgYWNjb3VudCBrZXkgb2YgdGhlIHRlc3RzLCBsb25nIGVub3VnaA=="
        text = edt.environment["AZURE_STORAGE_CONNECTION_STRING"]
        edt.environment["AZURE_STORAGE_CONNECTION_STRING"] = re.sub("AccountKey=[^;]*", f"AccountKey={wrong}", text)
        edt.environment["AZURE_STORAGE_KEY"] = wrong
    if endpoint.url.startswith("sftp://"):
        keys = scratch / "ssh-config"
        known = endpoint.server.home / ".ssh" / "known_hosts"
        keys.write_text(f"Host *\n  IdentityFile /nonexistent\n  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n")
        program = scratch / "ssh"
        program.write_text(f'#!/bin/sh\nexec ssh -F {keys} "$@"\n')
        program.chmod(0o700)
        edt.environment["EDT_SSH"] = str(program)


@pytest.mark.parametrize("endpoint", ["wsgidav", "openssh", "asyncssh", "pyftpdlib", "proftpd"], indirect=True)
def test_a_file_in_the_way_of_a_directory_fails_what_is_below_it(edt: Client, endpoint: Endpoint, source: Path) -> None:
    assert endpoint.root
    fill(source / "taken" / "a.bin", 10, "a")
    fill(source / "fine.bin", 10, "fine")
    fill(endpoint.root / "taken", 5, "in the way")
    outcome = edt.copy(source, endpoint.url, expected=1)
    assert {failure["path"] for failure in outcome.events()[-1]["failures"]} <= {"taken", "taken/a.bin"}
    assert (endpoint.root / "fine.bin").read_bytes() == (source / "fine.bin").read_bytes()
    assert (endpoint.root / "taken").stat().st_size == 5
    assert endpoint.leftovers() == []


@pytest.mark.parametrize("endpoint", ["nginx"], indirect=True)
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_tree_is_fetched_from_a_web_server_by_its_pages(
    edt: Client, endpoint: Endpoint, scratch: Path, encrypted: bool
) -> None:
    assert endpoint.root and isinstance(endpoint.server, Nginx)
    small_tree(endpoint.root)
    fill(endpoint.root / "large.bin", 20 * MIB + 3, "large")
    # The pages of nginx name nothing that begins with a dot.
    (endpoint.root / "odd" / ".hidden").unlink()
    url = endpoint.url.replace(endpoint.server.url, endpoint.server.tls_url) if encrypted else endpoint.url
    manifest = scratch / "manifest.jsonl"
    edt.copy("--manifest", manifest, url, scratch / "back")
    assert contents(scratch / "back") == contents(endpoint.root)
    assert seconds(scratch / "back") == seconds(endpoint.root)
    assert listed(ok(edt.run("ls", "-r", "--json", url))) == sizes(endpoint.root)
    ok(edt.run("verify", manifest, url))
    assert edt.copy("--sync", url, scratch / "back").totals()["files_done"] == 0
    edt.copy(f"{url}odd/hash%23tag", scratch / "one")
    assert (scratch / "one").read_bytes() == (endpoint.root / "odd" / "hash#tag").read_bytes()
    refused = edt.run("cp", scratch / "one", url)
    assert refused.code == 2 and "webdavs://" in refused.err


def test_s3_over_tls_is_used_and_trusted_only_by_its_authority(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("versitygw-tls")
    small_tree(source)
    edt = Client(scratch, endpoint)
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)
    for name in [name for name, value in edt.environment.items() if value.endswith("authority.pem")]:
        del edt.environment[name]
    refused = edt.run("cp", source, endpoint.url)
    assert refused.code == 3 and "SSL_CERT_FILE" in refused.err, refused.err


def test_webdav_over_tls_is_used(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("wsgidav-tls")
    small_tree(source)
    edt = Client(scratch, endpoint)
    edt.copy(source, endpoint.url)
    assert endpoint.stored() == contents(source)


def test_more_objects_than_fit_on_a_page_are_all_copied_listed_and_removed(on: On, source: Path, scratch: Path) -> None:
    endpoint = on("seaweedfs")
    edt = Client(scratch, endpoint)
    for number in range(1100):
        fill(source / f"{number % 3}" / f"{number:05}", 1, number)
    edt.copy(source, endpoint.url)
    assert len(listed(ok(edt.run("ls", "-r", "--json", endpoint.url)))) == 1100 + 3
    edt.copy(endpoint.url, scratch / "back")
    assert contents(scratch / "back") == contents(source)
    ok(edt.run("rm", "-r", endpoint.url))
    assert endpoint.stored() == {}


@pytest.mark.parametrize("endpoint", ["wsgidav", "openssh", "asyncssh", "pyftpdlib", "proftpd"], indirect=True)
def test_an_unwritable_folder_is_named_with_cause_and_hint(
    edt: Client, endpoint: Endpoint, source: Path, mount: Callable[[Path, str], None]
) -> None:
    assert endpoint.root
    fill(source / "a.bin", 10, "a")
    mount(endpoint.root / "disk", "size=1m,ro")
    outcome = edt.run("cp", source, endpoint.at("disk/"))
    assert outcome.code in (1, 3), outcome.err
    assert "disk" in outcome.err and "hint" in outcome.err
    assert endpoint.stored() == {}


def test_links_of_a_server_are_kept_or_left_out_as_asked(on: Callable[[str], Endpoint], scratch: Path) -> None:
    endpoint = on("openssh")
    assert endpoint.root
    fill(endpoint.root / "file", 5, "file")
    (endpoint.root / "link").symlink_to("file")
    edt = Client(scratch, endpoint)
    edt.copy(endpoint.url, scratch / "kept")
    assert (scratch / "kept" / "link").is_symlink()
    edt.copy("--symlinks", "skip", endpoint.url, scratch / "skipped")
    assert sorted(path.name for path in (scratch / "skipped").iterdir()) == ["file"]
    followed = edt.run("cp", "--symlinks", "follow", endpoint.url, scratch / "followed")
    assert followed.code == 2 and "--symlinks skip" in followed.err

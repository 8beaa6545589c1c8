"""Copying, what the report says, and how progress is shown."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import pytest

import edt

FILES, BYTES = 4, 3_070_005


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_directory_goes_into_a_directory(tree: Path, target: Path) -> None:
    report = edt.copy(tree, target)
    assert content(target) == content(tree)
    assert report.is_complete
    assert (report.totals.files_done, report.totals.bytes_done) == (FILES, BYTES)


def test_a_file_goes_to_a_file_and_paths_may_be_text(tree: Path, target: Path) -> None:
    edt.copy(str(tree / "a.txt"), str(target))
    assert target.read_bytes() == b"alpha"


def test_several_sources_go_under_their_own_names(tree: Path, target: Path) -> None:
    target.mkdir()
    edt.copy([tree / "a.txt", str(tree / "sub")], target)
    assert set(content(target)) == {"a.txt", "sub/b.bin", "sub/deep/c"}


def test_only_chosen_files_are_copied(tree: Path, target: Path) -> None:
    edt.copy(tree, target, files=["a.txt", Path("sub/deep")])
    assert set(content(target)) == {"a.txt", "sub/deep/c"}
    assert edt.copy(tree, target.with_name("nothing"), files=[]).totals.files_done == 0


def test_a_chosen_file_that_is_missing_fails_alone(tree: Path, target: Path) -> None:
    with pytest.raises(edt.TransferFailed) as caught:
        edt.copy(tree, target, files=["a.txt", "nothing"])
    assert [(failure.path, failure.kind) for failure in caught.value.report.failures] == [("nothing", "not-found")]
    assert set(content(target)) == {"a.txt"}


def test_one_text_is_no_list_of_files(tree: Path, target: Path) -> None:
    with pytest.raises(TypeError, match="files"):
        edt.copy(tree, target, files="a.txt")


def test_a_path_object_is_no_url(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zero:7").write_bytes(b"a file of this name")
    edt.copy(Path("zero:7"), target)
    assert target.read_bytes() == b"a file of this name"


def test_a_tree_survives_the_way_to_a_server_and_back(
    tree: Path, target: Path, served: tuple[edt.Server, Path]
) -> None:
    server, root = served
    edt.copy(tree, server.url + "deep/er")
    assert content(root / "deep" / "er") == content(tree)
    edt.copy(server.url + "deep/er", target)
    assert content(target) == content(tree)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf_8_are_taken(tree: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 100%")
    tree.rename(tmp_path / name)
    edt.copy(f"{tmp_path}/{name}", tmp_path / os.fsdecode(b"to\xff"))
    assert content(tmp_path / os.fsdecode(b"to\xff")) == content(tmp_path / name)
    with pytest.raises(edt.InvalidInputError, match="a URL holds nothing but UTF-8"):
        edt.copy(tmp_path / name, "s3://bucket/" + name)


def test_what_a_pattern_matches_is_not_mirrored(served: tuple[edt.Server, Path], tree: Path, target: Path) -> None:
    server, _ = served
    edt.copy(tree, server.url)
    target.mkdir()
    (target / "kept").touch()
    for source in (f"{tree}/su*", f"{server.url}su*"):
        with pytest.raises(edt.InvalidInputError, match="what a pattern matches cannot be mirrored"):
            edt.copy(source, target, selection="mirror")
    for source in (f"{tree}/no*", f"{server.url}no*"):
        with pytest.raises(edt.NotFoundError):
            edt.copy(source, target, selection="mirror")
    assert os.listdir(target) == ["kept"]


def test_filters_and_dry_run_reach_the_core(tree: Path, target: Path) -> None:
    report = edt.copy(tree, target, include=["*.txt", "*.bin"], exclude=["sub/"], dry_run=True)
    assert report.dry_run
    assert report.totals.files_done == 1
    assert not target.exists()


def test_unchanged_files_are_not_sent_again(tree: Path, target: Path) -> None:
    edt.copy(tree, target)
    (tree / "a.txt").write_bytes(b"longer than before")
    totals = edt.copy(tree, target, selection="changed").totals
    assert (totals.files_done, totals.files_skipped) == (1, FILES - 1)


def test_every_option_is_taken(tree: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("another secret for tests only")
    report = edt.copy(
        tree,
        target,
        optimizer="fixed",
        concurrency=2,
        policy="low",
        limit_rate="1GB",
        max_streams=8,
        chunk_size="1MiB",
        interval=0.5,
        include=["*"],
        exclude=[],
        selection="mirror",
        overwrite="replace",
        symlinks="skip",
        fsync="none",
        digest="none",
        dry_run=False,
        retries=1,
        buffer=8 << 20,
        token_file=tmp_path / "token",
        plain=False,
        known_hosts=tmp_path / "known_hosts",
        manifest=tmp_path / "manifest",
        history=False,
    )
    assert content(target) == content(tree)
    assert report.optimizer == "fixed"
    assert {entry.path for entry in report.manifest()} == set(content(tree))
    assert all(entry.blake3 is None for entry in report.manifest())


def test_the_report_is_plain_data(tree: Path, target: Path) -> None:
    report = edt.copy(tree, target)
    data = report.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["totals"]["files_done"] == FILES
    data["totals"]["files_done"] = 0
    assert report.to_dict()["totals"]["files_done"] == FILES
    assert str(FILES) in str(report)
    assert str(FILES) in repr(report)


def test_a_pickled_report_is_the_same_without_its_manifest(tree: Path, target: Path) -> None:
    report = edt.copy(tree, target)
    again = pickle.loads(pickle.dumps(report))
    assert again.to_dict() == report.to_dict()
    assert (again.totals, again.summary) == (report.totals, report.summary)
    with pytest.raises(ValueError, match="pickled"):
        again.manifest()


def test_the_manifest_names_every_file(tree: Path, target: Path, tmp_path: Path) -> None:
    report = edt.copy(tree, target)
    manifest = {entry.path: entry for entry in report.manifest()}
    assert {path: entry.size for path, entry in manifest.items()} == {k: len(v) for k, v in content(tree).items()}
    assert len(manifest["a.txt"].blake3 or "") == 64
    report.save_manifest(tmp_path / "manifest")
    lines = [json.loads(line) for line in (tmp_path / "manifest").read_text().splitlines()]
    assert {line["path"] for line in lines} == set(manifest)


def test_a_notebook_shows_names_as_text(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "<script>"
    page = edt.copy(tree, target)._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_a_plot_shows_every_stage(tree: Path, target: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    numpy = pytest.importorskip("numpy")
    matplotlib.use("Agg")
    report = edt.copy(tree, target, limit_rate="8MB", interval=0.05)
    throughput, concurrency = report.plot().axes
    assert [line.get_label() for line in throughput.lines] == ["read", "network", "write"]
    points = [numpy.size(line.get_xdata()) for line in (*throughput.lines, *concurrency.lines)]
    assert points == [len(report.timeline)] * 6
    assert points[0] > 1


def test_a_plot_without_matplotlib_says_what_to_install(
    tree: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = edt.copy(tree, target)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'edt\[plot\]'"):
        report.plot()


def test_a_progress_function_takes_every_event(tree: Path, target: Path) -> None:
    events: list[edt.Event] = []
    report = edt.copy(tree, target, progress=events.append)
    assert isinstance(events[-1], edt.Finished)
    assert events[-1].totals == report.totals
    assert {event.path for event in events if isinstance(event, edt.FileDone)} == set(content(tree))
    assert any(isinstance(event, edt.Planned) and event.complete and event.bytes == BYTES for event in events)


def test_what_a_progress_function_raises_ends_the_transfer(target: Path) -> None:
    def progress(_event: edt.Event) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        edt.copy("zero:1GiB", target, limit_rate="1MB", progress=progress)
    assert list(target.glob("[!.]*")) == []


def test_a_bar_is_shown_and_ends_full(tree: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edt.copy(tree, target, progress=True)
    shown = capsys.readouterr().err
    assert "3.07M/3.07M" in shown
    assert "100%" in shown

"""moec split --update: a new split that links the files of an earlier one."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import find_binary
from goldens import REPO
from servers import make_two_splits, write_groups

TINYMOE = REPO / "models/tinymoe"


@pytest.fixture(scope="module")
def folder(moec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("update")
    make_two_splits(moec, folder)
    return folder


def split(folder, *flags):
    """Returns the exit code and the report of a split by new.json, unless the flags name other groups."""
    groups = () if "--place" in flags else ("--place", folder / "new.json")
    done = subprocess.run(list(map(str, [find_binary(), "split", folder / "whole", *groups, *flags, "--json"])),
                          capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def updated(folder, *flags):
    code, report = split(folder, *flags)
    assert code == 0, report
    return report


def files_of(folder):
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def contents(folder):
    return {name: path.read_bytes() for name, path in files_of(folder).items() if name != "export.lock"}


def copied_nodes(folder, path, *names):
    """Copies of nodes, as on another machine: without the index."""
    for name in names:
        shutil.copytree(folder / "nodes" / name, path / name)
    return path


def test_update_links_what_is_equal(folder, tmp_path):
    old = copied_nodes(folder, tmp_path / "old", "node0", "node1")
    before = contents(old)
    report = updated(folder, "--update", old, "--out", tmp_path / "new")
    update = report["update"]
    assert contents(old) == before
    new = contents(tmp_path / "new")
    assert new == contents(folder / "fresh")
    assert (update["linked"], update["copied"], update["removed"]) == (0, 0, [])
    shards = [name for name in new if "/" in name and "manifest." not in name]
    assert update["kept"] == len(shards)
    assert update["bytes_written"] == sum(len(text) for name, text in new.items() if "/manifest." in name)
    inodes = {path.stat().st_ino for path in files_of(old).values()}
    assert all((tmp_path / "new" / name).stat().st_ino in inodes for name in shards)
    assert update["nodes"] == [
        {"name": "node0", "new": False, "changed": True, "gained": "L0-3:8-9", "lost": "L0-3:6-7"},
        {"name": "node1", "new": False, "changed": True, "gained": "L0-3:6-7", "lost": "L0-3:8-9"}]


def test_update_adds_what_the_earlier_split_lacks(folder, tmp_path):
    old = copied_nodes(folder, tmp_path / "old", "node0")
    dry = updated(folder, "--update", old, "--dry-run")["update"]
    update = updated(folder, "--update", old, "--out", tmp_path / "new")["update"]
    assert contents(tmp_path / "new") == contents(folder / "fresh")
    assert update == dry and update["linked"] > 0 and update["copied"] == 0
    assert update["nodes"][1] == {"name": "node1", "new": True, "changed": True, "gained": "L0-3:6-7,10-15", "lost": ""}
    done = subprocess.run([find_binary(), "split", folder / "whole", "--place", folder / "new.json", "--update", old,
                           "--dry-run"], capture_output=True, text=True, check=True)
    assert "node0: changed; gains L0-3:8-9; loses L0-3:6-7" in done.stdout and "node1: new" in done.stdout


def test_update_copies_across_file_systems(folder, tmp_path):
    other = "/dev/shm"
    if not os.path.isdir(other) or os.stat(other).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("needs a second file system")
    place = tmp_path.parent.name + tmp_path.name
    root = type(tmp_path)(other) / place
    try:
        old = copied_nodes(folder, root / "old", "node0")
        report = updated(folder, "--update", old, "--out", root / "new")
        update = report["update"]
        assert update["kept"] > 0 and update["copied"] > 0 and update["linked"] == 0 and not report["linked"]
        new = contents(root / "new")
        assert new == contents(folder / "fresh")
        inodes = {path.stat().st_ino for path in files_of(old).values()}
        written = [name for name in new if (root / "new" / name).stat().st_ino not in inodes and name != "split.json"]
        assert update["bytes_written"] == sum(len(new[name]) for name in written)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_update_reports_equal_and_removed_nodes(folder, tmp_path):
    same = updated(folder, "--place", folder / "old.json", "--update", folder / "nodes", "--out", tmp_path / "same")
    assert [(node["changed"], node["gained"], node["lost"]) for node in same["update"]["nodes"]] == [(False, "", "")] * 2
    other = write_groups(tmp_path / "one.json", {"single": "*:0-15"})
    update = updated(folder, "--place", other, "--update", folder / "nodes", "--out", tmp_path / "one")["update"]
    assert update["removed"] == ["node0", "node1"]
    assert [(node["new"], node["gained"], node["lost"]) for node in update["nodes"]] == [(True, "L0-3:0-15", "")]


def test_update_ignores_changed_files(folder, tmp_path):
    """A changed file of the earlier split is not used, and the export's file takes its place."""
    old = copied_nodes(folder, tmp_path / "old", "node0", "node1")
    name = max((path for path in files_of(old).values() if "manifest." not in path.name), key=lambda path: path.stat().st_size)
    data = bytearray(name.read_bytes())
    data[len(data) // 2] ^= 1
    name.write_bytes(data)
    report = updated(folder, "--update", old, "--out", tmp_path / "new")
    assert contents(tmp_path / "new") == contents(folder / "fresh")
    notes = [note for note in report["diagnostics"] if note["code"] == "split.update_changed"]
    assert [note["place"]["file"] for note in notes] == [str(name)]


def test_update_refuses_other_folders(moec, export, folder, tmp_path):
    def code(*flags, source=folder / "whole"):
        done = subprocess.run(list(map(str, [find_binary(), "split", source, "--place", folder / "new.json", *flags, "--json"])),
                              capture_output=True, text=True)
        assert done.returncode != 0, done.stdout
        return json.loads(done.stdout)["diagnostics"][0]["code"]

    old = copied_nodes(folder, tmp_path / "old", "node0")
    before = contents(old)
    (tmp_path / "empty").mkdir()
    assert code("--update", tmp_path / "empty", "--out", tmp_path / "a") == "split.update"
    assert code("--update", folder, "--out", tmp_path / "a") == "split.update", "an export is not a node"
    assert code("--update", old, "--out", old, "--force") == "split.out_has_source"
    assert code("--update", old, "--out", old / "inner") == "split.out_has_source"
    assert code("--update", old, "--out", tmp_path, "--force") == "split.out_has_source"
    assert code("--update", "/nowhere", "--out", tmp_path / "a").startswith("emit.")
    gguf = next(export(TINYMOE, "--target", "gguf").glob("*.gguf"))
    assert code("--update", old, "--out", tmp_path / "a", source=gguf) == "split.update"
    other = export(REPO / "tests/golden/mixtral_a", "--tokens", "1", "--routing", "host", "--experts-per-shard", 1)
    moec("split", other, "--groups", 1, "--out", tmp_path / "other")
    assert code("--update", tmp_path / "other", "--out", tmp_path / "a") == "split.update"
    (old / "node0/manifest.bin").write_bytes(b"damaged")
    assert code("--update", old, "--out", tmp_path / "a").startswith("manifest.")
    assert not (tmp_path / "a").exists() and set(contents(old)) == set(before)

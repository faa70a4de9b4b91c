"""Staged models and goldens replace the files of a folder atomically."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from golden.publish import staged  # noqa: E402


def fill(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_replaces_written_files_and_keeps_others(tmp_path):
    fill(tmp_path / "case", kept="old", replaced="old")
    with staged(tmp_path / "case") as folder:
        fill(folder, replaced="new", added="new")
        assert contents(tmp_path / "case") == {"kept.json": "old", "replaced.json": "old"}
    assert contents(tmp_path / "case") == {"kept.json": "old", "replaced.json": "new", "added.json": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["case"]


def test_removes_unwritten_files_of_cleared_suffixes(tmp_path):
    fill(tmp_path / "case", stale="old", replaced="old")
    (tmp_path / "case/notes.md").write_text("mine")
    with staged(tmp_path / "case", (".json",)) as folder:
        fill(folder, replaced="new")
    assert contents(tmp_path / "case") == {"replaced.json": "new", "notes.md": "mine"}


def test_creates_a_folder_of_readable_files(tmp_path):
    with staged(tmp_path / "new/case") as folder:
        fill(folder, one="new")
        (folder / "one.json").chmod(0o600)
    assert (tmp_path / "new/case/one.json").stat().st_mode & 0o777 == 0o644


def test_failure_restores_the_folder(tmp_path):
    fill(tmp_path / "case", replaced="old")
    with pytest.raises(ZeroDivisionError), staged(tmp_path / "case", (".json",)) as folder:
        fill(folder, replaced="new")
        raise ZeroDivisionError
    assert contents(tmp_path / "case") == {"replaced.json": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["case"]

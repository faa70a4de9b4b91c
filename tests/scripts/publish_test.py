"""Models and goldens replace the files of a folder all at once, or not at all."""

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


def test_written_files_replace_those_of_the_folder_and_others_stay(tmp_path):
    fill(tmp_path / "case", kept="old", replaced="old")
    with staged(tmp_path / "case") as folder:
        fill(folder, replaced="new", added="new")
        assert contents(tmp_path / "case") == {"kept.json": "old", "replaced.json": "old"}
    assert contents(tmp_path / "case") == {"kept.json": "old", "replaced.json": "new", "added.json": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["case"]


def test_files_of_a_cleared_suffix_that_were_not_written_are_removed(tmp_path):
    fill(tmp_path / "case", stale="old", replaced="old")
    (tmp_path / "case/notes.md").write_text("mine")
    with staged(tmp_path / "case", (".json",)) as folder:
        fill(folder, replaced="new")
    assert contents(tmp_path / "case") == {"replaced.json": "new", "notes.md": "mine"}


def test_a_folder_is_made_with_files_that_all_may_read(tmp_path):
    with staged(tmp_path / "new/case") as folder:
        fill(folder, one="new")
        (folder / "one.json").chmod(0o600)
    assert (tmp_path / "new/case/one.json").stat().st_mode & 0o777 == 0o644


def test_after_a_failure_the_folder_is_as_before(tmp_path):
    fill(tmp_path / "case", replaced="old")
    with pytest.raises(ZeroDivisionError), staged(tmp_path / "case", (".json",)) as folder:
        fill(folder, replaced="new")
        raise ZeroDivisionError
    assert contents(tmp_path / "case") == {"replaced.json": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["case"]

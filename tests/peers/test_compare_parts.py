"""moec compare --part and --join: the documents of one comparison, divided among processes."""

import json
import shutil
import subprocess

import pytest

from conftest import find_binary
from goldens import REPO


@pytest.fixture(scope="module")
def folders(export, tmp_path_factory):
    """Two exports and a suite of prompts of two categories."""
    path = tmp_path_factory.mktemp("suite") / "suite.jsonl"
    path.write_text("".join(json.dumps({"category": f"c{i % 2}", "text": f"text {i} " * (i + 1)}) + "\n" for i in range(7)))
    whole = export(REPO / "models/tinymoe", "--target", "onnx", "--tokens", "1,16", "--routing", "host")
    codes = export(REPO / "models/tinymoe", "--target", "onnx", "--tokens", "1,16", "--routing", "host", "--weights", "int4")
    return whole, codes, path


def compare(folders, *flags, window=32):
    whole, codes, suite = folders
    done = subprocess.run([find_binary(), "compare", whole, "--against", codes, "--prompts", suite, "--window", str(window),
                           "--json", *flags], capture_output=True, text=True)
    return done.stdout


@pytest.mark.parametrize("count", [1, 3, 20])
def test_parts_add_up_exactly(folders, tmp_path, count):
    files = [tmp_path / f"{i}.json" for i in range(count)]
    for i, file in enumerate(files):
        file.write_text(compare(folders, "--part", f"{i}/{count}"))
    assert compare(folders, "--join", ",".join(map(str, reversed(files)))) == compare(folders)


def test_missing_documents_are_run(folders, tmp_path):
    """Also if parts overlap, because their number has changed."""
    for part in ("1/3", "0/2"):
        (tmp_path / part.replace("/", "of")).write_text(compare(folders, "--part", part))
    assert compare(folders, "--join", ",".join(map(str, tmp_path.iterdir()))) == compare(folders)


def test_rejects_other_comparisons(folders, tmp_path):
    part = tmp_path / "part.json"
    part.write_text(compare(folders, "--part", "0/2", window=16))
    codes = [found["code"] for found in json.loads(compare(folders, "--join", part))["diagnostics"]]
    assert codes == ["compare.part_differs"]


def test_rejects_parts_of_other_exports(folders, export, tmp_path):
    """Also if they are in the same folder, and if only the arithmetic differs."""
    whole, codes, suite = folders
    copy = tmp_path / "codes"
    shutil.copytree(codes, copy)
    part = tmp_path / "part.json"
    part.write_text(compare((whole, copy, suite), "--part", "0/2"))
    other = export(REPO / "models/tinymoe", "--target", "onnx", "--tokens", "1,16", "--routing", "host", "--weights", "int8")
    shutil.rmtree(copy)
    shutil.copytree(other, copy)
    found = json.loads(compare((whole, copy, suite), "--join", part))["diagnostics"][0]
    assert found["code"] == "compare.part_differs"
    part.write_text(compare(folders, "--part", "0/2", "--precision", "f16"))
    assert json.loads(compare(folders, "--join", part))["diagnostics"][0]["code"] == "compare.part_differs"


@pytest.mark.parametrize("change", [
    lambda report: report["part"]["documents"][0][0].update(document=7),
    lambda report: report["part"]["documents"][0].reverse(),
    lambda report: report["part"]["documents"][0].append(report["part"]["documents"][0][-1]),
    lambda report: report.pop("part"), lambda report: report["part"].update(documents=3),
    lambda report: report["part"]["documents"].pop(), lambda report: report["part"]["documents"][0][0].pop("kl"),
    lambda report: report["part"]["documents"][0][0].update(tokens=-1)])
def test_rejects_malformed_parts(folders, tmp_path, change):
    report = json.loads(compare(folders, "--part", "0/2"))
    change(report)
    part = tmp_path / "part.json"
    part.write_text(json.dumps(report))
    found = json.loads(compare(folders, "--join", part))["diagnostics"][0]
    assert found["code"] == "compare.part" and str(part) in json.dumps(found)

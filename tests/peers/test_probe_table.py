"""The example of backends/manifest/README.md selects the same groups as `moec probe`."""

import json
import re

import pytest

from goldens import REPO

PROMPTS = [("code", "def first(items):\n    return items[0]\n\n\nclass Node:\n    pass\n"),
           ("code", "for index, name in enumerate(names):\n    print(index, name)\n"),
           ("sums", "12 + 30 = 42\n18 + 21 = 39\n40 + 11 = 51\n7 + 8 = 15\n3 + 4 = 7\n"),
           ("sums", "91 - 30 = 61\n72 - 51 = 21\n66 - 60 = 6\n5 - 1 = 4\n9 - 2 = 7\n")]


@pytest.fixture(scope="module")
def probed(moec, tmp_path_factory):
    """An export of tinymoe with a table of two halves of its experts, and the suite that the table was measured on."""
    folder = tmp_path_factory.mktemp("probed")
    out, suite, groups = folder / "out", folder / "suite.jsonl", folder / "groups.json"
    suite.write_text("".join(json.dumps({"category": name, "text": text}) + "\n" for name, text in PROMPTS))
    groups.write_text(json.dumps({"groups": [{"name": "low", "experts": "*:0-7"}, {"name": "high", "experts": "*:8-15"}]}))
    moec("export", REPO / "models/tinymoe", "--out", out, "--tokens", 64, "--context", 64, "-q")
    moec("probe", out, "--groups", groups, "--prompts", suite, "--write", "-q")
    return out, suite


@pytest.fixture(scope="module")
def example(probed):
    """The definitions of the example for this export."""
    text = (REPO / "backends/manifest/README.md").read_text()
    section = text[text.index("## Choosing a group of experts"):]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    assert '"out/tinymoe/probe.json"' in code
    names = {}
    exec(code.replace("out/tinymoe/probe.json", str(probed[0] / "probe.json")), names)
    return names


def test_manifest_lists_the_table(probed):
    out, _ = probed
    files = json.loads((out / "manifest.json").read_text())["side_files"]
    [listed] = [file for file in files if file["path"] == "probe.json"]
    assert listed["bytes"] == (out / "probe.json").stat().st_size


def test_example_selects_like_moec_probe(moec, probed, example):
    out, suite = probed
    documents = json.loads(moec("probe", out, "--prompts", suite, "--json"))["documents"]
    assert len(documents) == len(PROMPTS)
    for document in documents:
        assert example["category_of"](document["routing"]) == document["nearest"]
        assert example["group_for"](document["nearest"]) == document["chosen"]


def test_replacing_the_export_drops_the_table(moec, probed):
    """The numbers of the table belong to the replaced files."""
    out, _ = probed
    moec("export", REPO / "models/tinymoe", "--out", out, "--tokens", 32, "--context", 64, "-q", "--force")
    assert not (out / "probe.json").exists()
    moec("check", out)

"""The committed pictures equal the output of scripts/draw_pictures.py and stay small."""

import json
import pathlib
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import draw_pictures  # noqa: E402
from pictures import folders, layers, pipeline  # noqa: E402


def test_pictures_match_their_sources():
    assert list(draw_pictures.check()) == []


def test_finds_a_changed_folder_table(monkeypatch, tmp_path):
    table = json.loads((ROOT / "scripts/arrows.json").read_text(encoding="utf-8"))
    table["folders"]["ir/extra"] = ["ir/base"]
    changed = tmp_path / "arrows.json"
    changed.write_text(json.dumps(table))
    monkeypatch.setattr(draw_pictures.check_includes, "TABLE", changed)
    assert [error.split(":")[0] for error in draw_pictures.check()] == ["scripts/pictures/folders.svg"]


@pytest.mark.parametrize("file", [file for file, _, _ in draw_pictures.PICTURES.values()])
def test_pictures_are_small_with_a_background(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    picture = xml.etree.ElementTree.fromstring(text)
    background = picture.find("{http://www.w3.org/2000/svg}rect")
    assert len(text.encode()) <= draw_pictures.LARGEST
    assert (background.get("width"), background.get("fill")) == ("100%", "#fbfcfd")


def test_pipeline_shows_every_op_and_pass():
    ops = pipeline.ops_by_form(draw_pictures.text_of("ir/graph/ops.def"))
    passes = pipeline.passes_by_form(draw_pictures.text_of("passes/pipeline.cc"))
    assert sum(map(len, ops.values())) == draw_pictures.text_of("ir/graph/ops.def").count("\nMOEC_OP(")
    assert sum(map(len, passes.values())) == len(list((ROOT / "tests/passes").glob("*.ir")))
    assert passes["model"][0] == "limit_capacity" and passes["static"][-1] == "place"
    assert passes["static"].index("limit_fan_in") < passes["static"].index("fold_constants")
    assert ops["lowered"] == ["linear"]


def test_omits_implied_arrows():
    arrows = {"a": [], "b": ["a"], "c": ["a", "b"]}
    assert folders.shortest(arrows) == {"a": [], "b": ["a"], "c": ["b"]}


def test_boxes_are_disjoint_and_edges_descend():
    edges = [("a", name) for name in "bcdef"] + [("b", "g"), ("f", "g"), ("a", "g")]
    layout = layers.Layout(list("abcdefg"), edges, lambda node: 40, gap=10)
    for row in layout.rows:
        places = sorted((layout.x[node], layout.width[node]) for node in row)
        for (left, wide), (right, width) in zip(places, places[1:]):
            assert right - left >= (wide + width) / 2 + 10 - 1e-6
    assert all(layout.row[source] < layout.row[target] for source, target in edges)

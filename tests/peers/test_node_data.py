"""The node data that check, validate and compare write for Model Explorer: its keys are names of nodes in the files."""

import json
import subprocess

import onnx
import pytest
from conftest import find_binary
from goldens import REPO


def moec(*words, code=0):
    done = subprocess.run([find_binary(), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Three exports of tinymoe by name, and a text of 16 tokens and more."""
    folder = tmp_path_factory.mktemp("node_data")
    for name, words in {"float": ["onnx"], "codes": ["onnx", "--weights", "int4:32"], "package": ["ane"]}.items():
        moec("export", REPO / "models/tinymoe", "--out", folder / name, "--tokens", "1,16", "-q", "--target", *words)
    (folder / "text").write_text("def add(a, b):\n    return a + b\n\nprint(add(1, 2))\n")
    return folder


def graphs(folder, kind):
    """The node data of each graph, by the path of its file without the ending."""
    found = {}
    for path in sorted(folder.rglob(f"*.{kind}.json")):
        of_file = json.loads(path.read_text())
        assert len(of_file) == 1  # an ONNX file has one graph
        found[str(path.relative_to(folder)).removesuffix(f".{kind}.json")] = of_file
    assert found
    return found


def values_of(export, found):
    """All values, after comparing the names of graphs and nodes with those in the files."""
    values = []
    for stem, of_file in found.items():
        graph = onnx.load(export / f"{stem}.onnx", load_external_data=False).graph
        [(name, data)] = of_file.items()
        assert name == graph.name
        assert data["results"].keys() <= {node.name for node in graph.node}
        values += [value["value"] for value in data["results"].values()]
    return values


def manifest_of(export):
    return json.loads((export / "manifest.json").read_text())


def test_checks_place_and_weigh_nodes(exports, tmp_path):
    export = exports / "codes"
    moec("check", export, "--target", "qnn", "--node-data", tmp_path)
    units = values_of(export, graphs(tmp_path, "placement"))
    report = json.loads(moec("check", export, "--target", "qnn", "--json", "--ops").stdout)
    predicted = {op["unit"] if "rule" not in op else f"{op['unit']}: {op['rule']}"
                 for shard in report["shards"] for width in shard["widths"] for op in width["predicted_units"]}
    assert set(units) <= predicted | {"undecided"} and len(units) > 1000
    # Each of both widths reads all weights.
    weighed = sum(values_of(export, graphs(tmp_path, "weights")))
    assert weighed == 2 * sum(shard["weight_bytes"] for shard in manifest_of(export)["shards"])


def test_validates_golden_values_per_node(exports, tmp_path):
    export = exports / "float"
    moec("validate", export, "--golden", REPO / "tests/golden/tinymoe", "--node-data", tmp_path)
    found = graphs(tmp_path, "error")
    errors = values_of(export, found)
    assert 0 < max(errors) < 1e-5
    nodes = found["moe/L00.t16"]["L00.moe"]["results"]
    assert nodes.keys() == {"L00/moe/routing_weights", "L00/moe/moe_out"}
    assert found["attn/L01.t1"]["L01.attn"]["results"].keys() == {f"L01/attn/{name}"
                                                               for name in ("hidden", "k_new", "v_new")}


def test_compares_nodes_of_two_exports(exports, tmp_path):
    moec("compare", exports / "float", exports / "codes", "--text", exports / "text", "--node-data", tmp_path)
    found = graphs(tmp_path, "error")
    values_of(exports / "codes", found)
    nodes = {name: value["value"] for name, value in found["moe/L02.t16"]["L02.moe"]["results"].items()}
    # The norm and the router have the same weights in both exports, and each shard has the same inputs.
    assert nodes["L02/moe/ffn_norm"] == 0 and nodes["L02/moe/router/scores"] < 1e-6
    # The layouts of tokens differ, which must not count as an error.
    assert 0.01 < nodes["L02/moe/experts.3/gate"] < 0.2 and 0.01 < nodes["L02/moe/moe_out"] < 0.2
    # Numbered values of two graphs are not the same values.
    assert not [name for name in nodes if name.startswith("L02/moe/add_")]


def test_equal_exports_have_no_errors(exports, tmp_path):
    moec("compare", exports / "float", exports / "float", "--text", exports / "text", "--node-data", tmp_path)
    assert set(values_of(exports / "float", graphs(tmp_path, "error"))) == {0}


def test_refuses_other_formats_and_existing_files(exports, tmp_path):
    assert "node_data.format" in moec("check", exports / "package", "--node-data", tmp_path, code=2).stderr
    moec("check", exports / "float", "--node-data", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert "output.exists" in moec("check", exports / "float", "--target", "qnn", "--node-data", tmp_path,
                                   code=2).stderr
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    moec("check", exports / "float", "--target", "qnn", "--node-data", tmp_path, "--force", code=1)
    assert before != {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert "output.in_source" in moec("check", exports / "float", "--node-data", exports / "float/overlays",
                                      code=2).stderr


def test_refuses_texts_shorter_than_widths(exports, tmp_path):
    wide = tmp_path / "wide"
    moec("export", REPO / "models/tinymoe", "--out", wide, "--tokens", "16", "-q", "--target", "onnx")
    (tmp_path / "short").write_text("def")
    refused = moec("compare", wide, wide, "--text", tmp_path / "short", "--node-data", tmp_path / "data", code=2)
    assert "node_data.empty" in refused.stderr
    assert not (tmp_path / "data").exists()

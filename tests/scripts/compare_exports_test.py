"""scripts/compare_exports.py finds every difference between two exports, except in named metadata.

Run it on the exports of all golden cases, made before and after a change, when the change alters metadata:

    for each case and target:  moec export tests/golden/CASE --target TARGET --tokens 1,4 --out A/CASE-TARGET
    scripts/compare_exports.py A B
"""

import json
import pathlib
import subprocess
import sys

import onnx
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "compare_exports.py"
sys.path.insert(0, str(SCRIPT.parent))

import compare_exports  # noqa: E402


def onnx_bytes(owners="plain w\n", name="L00", producer="moec"):
    graph = onnx.helper.make_graph([], name, [], [])
    model = onnx.helper.make_model(graph, producer_name=producer)
    onnx.helper.set_model_props(model, {"moec.shard": name, "moec.weights": owners})
    return model.SerializeToString()


def field(number, content):
    return compare_exports.write_varint(number << 3 | 2) + compare_exports.write_varint(len(content)) + content


def mlmodel_bytes(entries, author="moec"):
    """Returns a Model with the fields that lead to its userDefined metadata."""
    pairs = b"".join(field(100, field(1, k.encode()) + field(2, v.encode())) for k, v in entries.items())
    metadata = field(3, author.encode()) + pairs
    return b"\x08\x09" + field(2, field(1, b"ports") + field(100, metadata)) + field(502, b"program" * 30)


def manifest_bytes(digest, version=1, layers=2, data_digest="d"):
    shard = {"widths": [{"file": {"path": "moe/L00.onnx", "bytes": len(digest), "digest": digest}}],
             "data": [{"path": "moe/L00.data", "bytes": 4, "digest": data_digest}]}  # fmt: skip
    return json.dumps({"schema_version": version, "layers": layers, "shards": [shard]}).encode()


FILES = {
    "moe/L00.onnx": onnx_bytes(),
    "moe/L00.data": b"1234",
    "moe/L01.mlpackage/Data/com.apple.CoreML/model.mlmodel": mlmodel_bytes({"moec.shard": "L01", "moec.weights": "a"}),
    "report.json": b"{}",
    "manifest.json": manifest_bytes("11"),
    "manifest.bin": b"one",
}
MLMODEL = "moe/L01.mlpackage/Data/com.apple.CoreML/model.mlmodel"


def run(tmp_path, changes):
    for tree, files in {"a": FILES, "b": {**FILES, **changes}}.items():
        for name, content in files.items():
            if content is not None:
                path = tmp_path / tree / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "a", tmp_path / "b"], capture_output=True, text=True)
    return done.returncode, done.stdout.replace(f"{tmp_path}/", "") + done.stderr


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"moe/L00.onnx": onnx_bytes(owners="expert 0 0 1 0 w\n")},
        {MLMODEL: mlmodel_bytes({"moec.shard": "L01"})},
        {MLMODEL: mlmodel_bytes({"moec.shard": "L01", "moec.weights": "a", "moec.t16.weights": "b" * 300})},
        {"manifest.json": manifest_bytes("2222", version=2), "manifest.bin": b"two"},
    ],
)
def test_ignores_named_metadata(tmp_path, changes):
    code, out = run(tmp_path, changes)
    assert (code, out.splitlines()[0].split(",")[0]) == (0, "6 files are equal")
    assert "skipped 1 files manifest.bin" in out


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"moe/L00.onnx": onnx_bytes(name="L01")}, "moe/L00.onnx: differs"),
        ({"moe/L00.onnx": onnx_bytes(producer="x")}, "moe/L00.onnx: differs"),
        ({MLMODEL: mlmodel_bytes({"moec.shard": "L02", "moec.weights": "a"})}, f"{MLMODEL}: differs"),
        ({MLMODEL: mlmodel_bytes({"moec.shard": "L01", "moec.weights": "a"}, "x")}, f"{MLMODEL}: differs"),
        ({"moe/L00.data": b"1235"}, "moe/L00.data: differs (4 and 4 bytes compared)"),
        ({"report.json": b"[]"}, "report.json: differs"),
        ({"manifest.json": manifest_bytes("11", layers=3)}, "manifest.json: differs at layers"),
        ({"manifest.json": manifest_bytes("11", data_digest="e")},
         "manifest.json: differs at shards.0.data.0.digest"),
        ({"moe/L00.data": None}, "moe/L00.data: only in a"),
        ({"rope.bin": b""}, "rope.bin: only in b"),
    ],
)  # fmt: skip
def test_finds_other_differences(tmp_path, changes, line):
    code, out = run(tmp_path, changes)
    assert code == 1
    assert out.splitlines()[0].startswith(line)


def test_rejects_empty_folders(tmp_path):
    assert compare_exports.compare(tmp_path, tmp_path) == (set(), [])
    done = subprocess.run([sys.executable, SCRIPT, tmp_path, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1

"""LiteRT runs the graphs of every golden case and matches PyTorch's results; moec's tables of its schema are right.

    scripts/install_vendors.sh litert
    build/vendors/litert/bin/pytest tests/peers/test_litert.py

Skipped if the package ai-edge-litert is missing.
"""

import inspect
import json
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import confirm_with_litert as litert  # noqa: E402
import flatbuffers  # noqa: E402
import measure_partitions  # noqa: E402
from ai_edge_litert import schema_py_generated as schema  # noqa: E402
from comparison import Comparison  # noqa: E402
from conftest import find_binary  # noqa: E402
from goldens import CASES, REPO, WRITERS  # noqa: E402
from run_with_litert import LitertRunner  # noqa: E402

FBS = (REPO / "backends/formats/tflite/tflite.fbs").read_text()
RELATIVE, HALF_COSINE, CODED_COSINE = 1e-5, 0.9999, 0.9


def widths(case):
    if case.startswith("openai_privacy_filter"):
        return ("--tokens", "24")
    return ("--tokens", "1,16" if case.startswith("tiny") else "1,8")


def logits_of(folder, want):
    """(logits of all steps in LiteRT, those of the golden)."""
    runner = LitertRunner(folder, threads=1)
    got = [runner.feed(tokens) for _, _, tokens in want.steps]
    return np.concatenate(got).astype(np.float64), np.concatenate([want.rows(name, "logits") for name, _, _ in want.steps])


@pytest.mark.parametrize("case", WRITERS)
def test_logits_match_goldens(case, export, golden, worst):
    want = golden(case)
    got, reference = logits_of(export(want.checkpoint, "--target", "litert", *widths(case)), want)
    relative = np.linalg.norm(got - reference) / np.linalg.norm(reference)
    worst["litert f32"].add(Comparison(relative_l2=float(relative), comparisons=1))
    assert relative <= RELATIVE
    assert (got.argmax(1) == reference.argmax(1)).all()


@pytest.mark.parametrize("case", [case for case in WRITERS if not case.startswith("zaya")])  # rule L6
def test_half_precision_matches_goldens(case, export, golden):
    want = golden(case)
    folder = export(want.checkpoint, "--target", "litert", "--dtype", "f16", *widths(case))
    assert litert.confirmation.cosine(*logits_of(folder, want)) >= HALF_COSINE


@pytest.mark.parametrize(("weights", "least"), (("int8", 0.999), ("int4:row", CODED_COSINE),
                                               ("attn=int4:32,head=int4:64", CODED_COSINE)))
def test_quantized_weights_run(weights, least, export, golden):
    """LiteRT quantizes activations, so its results differ from those of the decoded weights."""
    want = golden("tinymoe")
    folder = export(want.checkpoint, "--target", "litert", "--weights", weights, *widths("tinymoe"))
    assert litert.confirmation.cosine(*logits_of(folder, want)) >= least


def test_script_writes_texts_of_moec(export, golden, moec, tmp_path):
    """The second run maps the packed weights of the first."""
    folder = export(golden("tinymoe").checkpoint, "--target", "litert", *widths("tinymoe"))
    script = [sys.executable, REPO / "scripts/run_with_litert.py", folder, "--max-tokens", "60", "--prompt-tokens", "100,101"]
    expected = moec("run", folder, "--prompt-tokens", "100,101", "--max-tokens", "60", "--json")
    for cached in ((), ("--weight-cache", tmp_path / "cache"), ("--weight-cache", tmp_path / "cache")):
        done = subprocess.run([*script, *cached], capture_output=True, check=True, text=True)
        assert [int(token) for token in done.stdout.split()] == json.loads(expected)["tokens"]
    assert len(list((tmp_path / "cache").iterdir())) == 9


@pytest.mark.parametrize("case", ("tinymoe", "zaya_b"))
def test_command_confirms_predictions(case, export, golden, moec):
    want = golden(case)
    folder = export(want.checkpoint, "--target", "litert", *widths(case))
    said = moec("confirm", folder, "--engine", "litert", "--golden", want.folder, "--python", sys.executable, "--script",
                litert.__file__)
    assert "PASSED" in said
    measured = json.loads((folder / "measured.json").read_text())
    assert min(graph["cosine"] for graph in measured["graphs"]) >= 0.999999
    assert all(graph["partitions"] >= 1 for graph in measured["graphs"])
    moec("check", folder, "--measured", folder / "measured.json")


def test_document_shows_measured_partitions():
    shown = measure_partitions.README.read_text().split(measure_partitions.BEGIN)[1]
    files = [json.loads(path.read_text()) for path in (REPO / "models/families").glob("*.json")]
    families = [each["model_type"] for each in files if "axes" in each and "plan_only" not in each]
    assert len(families) > 40 and all(f"| `{family}` |" in shown for family in families)
    measured = measure_partitions.measure(find_binary(), litert.Loader(), "zaya_*")
    assert measure_partitions.table(measured).splitlines()[2] in shown


# ---- The schema --------------------------------------------------------------------------------


def entries(kind, name):
    """Entries "NAME = number" of an enum or union of tflite.fbs."""
    body = re.search(rf"{kind} {name}[^{{]*{{(.*?)}}", FBS, re.DOTALL)[1]
    return {key: int(value) for key, value in re.findall(r"(\w+) = (\d+)", body)}


@pytest.mark.parametrize("kind, ours, theirs", [("enum", "TensorType", "TensorType"), ("enum", "Builtin", "BuiltinOperator"),
                                                ("enum", "Padding", "Padding"),
                                                ("union", "BuiltinOptions", "BuiltinOptions")])
def test_numbers_equal_the_schema(kind, ours, theirs):
    found = entries(kind, ours)
    assert found
    assert {name: getattr(getattr(schema, theirs), name) for name in found} == found


def test_fields_equal_the_schema():
    source = inspect.getsource(schema)
    renamed = {"FusedActivation": "FusedActivationFunction", "StrideWFactor": "StrideW", "DilationW": "DilationWFactor",
               "DilationH": "DilationHFactor", "InType": "InDataType", "OutType": "OutDataType"}
    for table, body in re.findall(r"^table (\w+) {(.*?)}", FBS, re.DOTALL | re.MULTILINE):
        slot = 0
        for field, kind, note in re.findall(r"(\w+): ([\w\[\]]+)[^;]*?(\(deprecated\))?;", re.sub(r"//.*", "", body)):
            slot += kind in ("QuantizationDetails", "BuiltinOptions")  # a union's type precedes its value
            name = "".join(word.capitalize() for word in field.split("_"))
            add = re.search(rf"def {table}Add{renamed.get(name, name)}\(builder.*?Slot\((\d+)", source, re.DOTALL)
            assert note or int(add[1]) == slot, f"{table}.{field}"
            slot += 1


def test_reads_a_file_of_another_writer(moec, tmp_path):
    """A file of LiteRT's own object API: y = x + 1, without signature and metadata."""
    def tensor(name, buffer, shape):
        made = schema.TensorT()
        made.name, made.buffer, made.shape, made.hasRank = name, buffer, shape, True
        return made

    model, graph, node, code = schema.ModelT(), schema.SubGraphT(), schema.OperatorT(), schema.OperatorCodeT()
    one = schema.BufferT()
    one.data = np.frombuffer(np.float32([1]).tobytes(), np.uint8)
    graph.tensors = [tensor("x", 0, [2, 3]), tensor("one", 1, []), tensor("y", 0, [2, 3])]
    node.inputs, node.outputs = [0, 1], [2]
    node.builtinOptionsType, node.builtinOptions = schema.BuiltinOptions.AddOptions, schema.AddOptionsT()
    graph.inputs, graph.outputs, graph.operators = [0], [2], [node]
    code.builtinCode = schema.BuiltinOperator.ADD
    model.version, model.buffers, model.subgraphs, model.operatorCodes = 3, [schema.BufferT(), one], [graph], [code]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path = tmp_path / "other.tflite"
    path.write_bytes(builder.Output())
    assert "%y = add %x, %one : f32[2,3]" in moec("inspect", path)

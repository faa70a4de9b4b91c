"""Runs the Core AI assets that scripts/export_coreai.py writes in Apple's Linux runtime and compares them with goldens.

    scripts/install_vendors.sh coreai
    build/vendors/coreai/bin/pytest tests/peers/test_coreai.py

The runtime is an interpreter on the CPU, so these tests do not show that an asset loads or runs on a device. Skipped if
the package coreai-core is missing.
"""

import functools
import hashlib
import json

import numpy as np
import pytest

pytest.importorskip("coreai")

import export_coreai  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from aimodel.lowering import OPS  # noqa: E402
from aimodel.refusal import Refused  # noqa: E402
from aimodel.runtime import AssetRunner, Runtime  # noqa: E402
from comparison import compare  # noqa: E402
from exports import files_of  # noqa: E402
from made_export import EDGES, SHAPE, every_op, integers  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from run_with_onnxruntime import Runner  # noqa: E402

# Softmax and biased projections (mixtral_a); a latent cache and products with the weights of each head (deepseek_v3_b);
# sinks, windows and clamps (gpt_oss_a); a recurrent state (qwen3_next_a).
FAMILIES = ("mixtral_a", "deepseek_v3_b", "gpt_oss_a", "qwen3_next_a")
CASES = [("tinymoe", "f32"), ("tinymoe", "f16"), *((case, "f16") for case in FAMILIES)]
# Largest relative L2 error of the logits of a step, compared with the golden and with onnxruntime on the same files. In
# an f16 matmul (in attention), Apple's interpreter accumulates in f16.
FARTHEST = {"f32": 1e-5, "f16": 2e-2}
NEAR = 0.05  # tokens may differ if the golden's logit margin is smaller


def widths(case):
    return "1,16" if case.startswith("tiny") else "1,24"


@pytest.fixture(scope="module")
def exported(export, golden):
    def run(case, dtype, *options):
        return export(golden(case).checkpoint, "--layout", "bc1s", "--dtype", dtype, "--tokens", widths(case), *options)

    return run


@pytest.fixture(scope="module")
def assets(exported, tmp_path_factory):
    """assets(case, dtype) → (export, its assets). Writes each combination once."""

    @functools.cache
    def run(case, dtype, *options):
        folder = exported(case, dtype, *options)
        made = tmp_path_factory.mktemp("coreai") / "assets"
        export_coreai.convert(folder, made, force=False)
        return folder, made

    return run


@pytest.fixture(scope="module")
def runtime():
    with Runtime() as opened:
        yield opened


def leads_of_other_tokens(got, wanted):
    """The logit margin of the golden's token, for each row whose token differs."""
    rows = np.arange(len(wanted))
    leads = wanted.max(axis=1) - wanted[rows, got.argmax(axis=1)]
    return leads[leads > 0]


@pytest.mark.parametrize(("case", "dtype"), CASES)
def test_chain_matches_the_golden_logits(case, dtype, assets, runtime, golden, worst):
    folder, made = assets(case, dtype)
    apple, reference, want = AssetRunner(folder, made, runtime), Runner(folder, threads=1), golden(case)
    for step, _, tokens in want.steps:
        got, logits = apple.feed(tokens), want.rows(step, "logits")
        for what, other in (("golden", logits), ("onnxruntime", reference.feed(tokens))):
            compared = compare(got, other)
            worst[f"Core AI {dtype} against {what}"].add(compared)
            assert compared.relative_l2 <= FARTHEST[dtype], (step, what)
        leads = leads_of_other_tokens(got, logits)
        assert len(leads) <= 1 and (leads <= NEAR).all()


def test_greedy_tokens_match_the_golden(assets, runtime, golden):
    want = golden("tinymoe")
    apple = AssetRunner(*assets("tinymoe", "f32"), runtime)
    assert list(apple.generate(want.prompt, len(want.greedy))) == want.greedy


def test_bytes_are_reproducible_and_self_describing(assets, tmp_path):
    folder, made = assets("mixtral_a", "f16")
    export_coreai.convert(folder, tmp_path / "again", force=False)
    assert files_of(tmp_path / "again") == files_of(made)
    listed = json.loads((made / "coreai.json").read_text())
    assert "none has run on a device" in listed["status"]
    for asset in listed["assets"]:
        stored = {file["path"]: file["sha256"] for file in asset["files"]}
        for path, digest in stored.items():
            assert hashlib.sha256((made / path).read_bytes()).hexdigest() == digest
        program = f"{asset['path']}/main.mlirb"
        assert (made / asset["path"] / "main.hash").read_bytes().hex() == stored[program]
        assert "none has run on a device" in (made / asset["path"] / "metadata.json").read_text()


def test_widths_of_a_shard_share_weights(assets):
    folder, made = assets("tinymoe", "f32")
    for shard in json.loads((folder / "manifest.json").read_text())["shards"]:
        size = (made / f"{shard['name']}.aimodel" / "main.mlirb").stat().st_size
        assert size < 1.5 * shard["weight_bytes"]


def test_keeps_existing_files_without_force(assets, exported, tmp_path):
    folder = exported("mixtral_a", "f16")
    made = tmp_path / "made"
    made.mkdir()
    (made / "own.txt").write_text("mine")
    for force, words in ((False, "exists"), (True, "is not a folder of assets")):
        with pytest.raises(Refused, match=words):
            export_coreai.convert(folder, made, force)
    assert (made / "own.txt").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "coreai.json").write_text("{}")
    export_coreai.convert(folder, other, force=True)
    assert files_of(other) == files_of(assets("mixtral_a", "f16")[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "other"]


@pytest.mark.parametrize(("body", "words"), [
    ("import os; os.abort()", "SIGABRT"),
    ("import sys; sys.exit('no such op')", "no such op"),
    ("print('{}')", "the runtime reads {}"),
])
def test_failing_library_leaves_nothing(body, words, exported, tmp_path, monkeypatch):
    script = tmp_path / "author.py"
    script.write_text(body)
    monkeypatch.setattr(export_coreai, "AUTHOR", script)
    with pytest.raises(Refused, match=words):
        export_coreai.convert(exported("mixtral_a", "f16"), tmp_path / "made", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["author.py"]


# ---- One graph made by hand ----------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_op_matches_onnxruntime(dtype, runtime, tmp_path):
    made = every_op(dtype)
    assert {node.op_type for node in made.nodes} == set(OPS)
    folder = made.write(tmp_path / "export")
    export_coreai.convert(folder, tmp_path / "made", force=False)
    feeds = {"x": np.array(EDGES * 2, dtype).reshape(SHAPE), "y": np.linspace(-3, 4, 24, dtype=dtype).reshape(SHAPE)}
    session = onnxruntime.InferenceSession(folder / "made.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    got = runtime.function(tmp_path / "made/made.aimodel", "t1").run(names, feeds)
    ops = {node.output[0]: node.op_type for node in made.nodes}
    tolerance = 1e-6 if dtype == np.float32 else 2e-3
    for name, ours, wanted in zip(names, got, session.run(names, feeds), strict=True):
        np.testing.assert_allclose(ours, wanted, tolerance, tolerance, err_msg=f"{ops[name]} {name}")


def of_node(model, op):
    return next(node for node in model.graph.node if node.op_type == op)


def set_constant(model, name, values):
    next(one for one in model.graph.initializer if one.name == name).CopyFrom(integers(name, values))


def slice_beyond(model, _):
    set_constant(model, of_node(model, "Slice").input[2], [7])


def slice_backwards(model, _):
    set_constant(model, of_node(model, "Slice").input[1], [-1])


def unknown_op(model, _):
    of_node(model, "Tanh").op_type = "Softsign"


def foreign_op(model, _):
    of_node(model, "Tanh").domain = "com.microsoft"


def two_outputs(model, _):
    of_node(model, "Tanh").output.append("second")


def unknown_attribute(model, _):
    of_node(model, "Conv").attribute.append(helper.make_attribute("strides", [2, 2]))


def unknown_type(model, _):
    one = next(one for one in model.graph.initializer if one.name == "bias")
    one.CopyFrom(numpy_helper.from_array(np.arange(8, dtype=np.int8), "bias"))


def integers_computed(model, _):
    of_node(model, "Cast").attribute[0].i = TensorProto.INT64


def other_opset(model, _):
    model.opset_import[0].version = 18


def outer(model, location):
    one = next(one for one in model.graph.initializer if one.name == "weight")
    one.ClearField("raw_data")
    one.data_location = TensorProto.EXTERNAL
    for key, value in location.items():
        one.external_data.append(onnx.StringStringEntryProto(key=key, value=value))


def outside(model, _):
    outer(model, {"location": "../manifest.json", "offset": "0", "length": "96"})


def beyond_the_file(model, _):
    outer(model, {"location": "made.onnx", "offset": "0", "length": "99999999"})


def short_data(model, _):
    outer(model, {"location": "made.onnx", "offset": "0", "length": "95"})


def flat_weight(model, _):
    weight = numpy_helper.from_array(np.zeros((4, 2), np.float32), "heads")
    next(one for one in model.graph.initializer if one.name == "heads").CopyFrom(weight)


def used_before(model, _):
    of_node(model, "Tanh").input[0] = "v99999"


def made_twice(model, _):
    of_node(model, "Tanh").output[0] = "x"


def empty_tensor(model, _):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0


def other_port(_, manifest):
    manifest["shards"][0]["widths"][0]["inputs"][0]["name"] = "z"


def port_of_two_words(model, manifest):
    manifest["shards"][0]["widths"][0]["inputs"][0]["name"] = "two words"


def shard_elsewhere(_, manifest):
    manifest["shards"][0]["name"] = "../made"


def other_layout(_, manifest):
    manifest["build"]["layout"] = "channels"


def coded(_, manifest):
    manifest["build"]["weights"] = "int4:32"


def no_shards(_, manifest):
    del manifest["shards"]


@pytest.mark.parametrize(("spoil", "code", "words"), [
    (slice_beyond, "bounds", "slices 2 to 7 of 6"), (slice_backwards, "bounds", "slices -1 to 5 of 6"),
    (unknown_op, "op", "Softsign"), (foreign_op, "op", "com.microsoft"), (two_outputs, "op", "2 outputs"),
    (unknown_attribute, "attribute", "'strides'"), (unknown_type, "dtype", "INT8"),
    (integers_computed, "dtype", "INT64"), (other_opset, "opset", "18"), (outside, "data", r"\.\./manifest\.json"),
    (beyond_the_file, "data", "bytes 0 to 99999999"), (short_data, "data", "has 95 bytes instead of 96"),
    (flat_weight, "form", "'heads' is a matmul"), (used_before, "names", "v99999"), (made_twice, "names", "'x'"),
    (empty_tensor, "shape", r"\[0, 6, 1, 4\]"), (other_port, "ports", "'z'"),
    (port_of_two_words, "names", "two words"), (shard_elsewhere, "names", r"\.\./made"),
    (other_layout, "form", "layout channels"), (coded, "form", "int4:32"), (no_shards, "manifest", "shards"),
])
def test_rejects_untranslated_ops_before_writing(spoil, code, words, tmp_path):
    folder = every_op(np.float32).write(tmp_path / "export", spoil)
    with pytest.raises(Refused, match=words) as refused:
        export_coreai.convert(folder, tmp_path / "made", force=False)
    assert str(refused.value).startswith(f"error[coreai.{code}]: ")
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_library_errors_leave_nothing(tmp_path):
    def wrong_type(model, _):
        concat = of_node(model, "Concat")
        concat.input.append("y")

    folder = every_op(np.float32).write(tmp_path / "export", wrong_type)
    with pytest.raises(Refused, match="would have the type") as refused:
        export_coreai.convert(folder, tmp_path / "made", force=False)
    assert str(refused.value).startswith("error[coreai.library]: ")
    assert [path.name for path in tmp_path.iterdir()] == ["export"]

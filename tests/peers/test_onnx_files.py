"""Checks with ONNX's own tools and numpy that the emitted files are valid and static and contain the checkpoint's
weights."""

import collections
import functools
import hashlib
import json
import re

import numpy as np
import onnx
import pytest
import xxhash
from onnx import TensorProto, numpy_helper, shape_inference

from goldens import CASES, in_forms
from safetensors_files import read_checkpoint, write_tensors

WIDTHS = ("--tokens", "1,16")
EXPORTS = {
    "conv": (*WIDTHS, "--onnx-checksum"),
    "matmul": (*WIDTHS, "--form", "matmul", "--routing", "iterate", "--attention", "per_head"),
    "bank": (*WIDTHS, "--experts", "bank", "--head-slices", "3"),
    "host": (*WIDTHS, "--routing", "host", "--experts-per-shard", "2"),
    "topk": (*WIDTHS, "--routing", "topk"),
    "f16": (*WIDTHS, "--dtype", "f16"),
}
# Except for TopK, all of these are elementwise, sums or products, or move values by fixed positions.
STATIC_OPS = {
    "Abs", "Add", "Cast", "Concat", "Conv", "Div", "Equal", "Erf", "Exp", "Expand", "Greater",
    "Identity", "Less", "Log", "MatMul", "Max", "Min", "Mul", "Neg", "Reciprocal", "ReduceMax",
    "ReduceMean", "ReduceSum", "Reshape", "Sigmoid", "Slice", "Softmax", "Sqrt", "Sub", "Tanh",
    "Transpose", "Where",
}
ALIGNMENT = 65536
DTYPES = {"f32": np.float32, "f16": np.float16}


class Folder:
    """An exported folder and its graphs, without their weights."""

    def __init__(self, path, checkpoint):
        self.path, self.checkpoint = path, checkpoint
        self.manifest = json.loads((path / "manifest.json").read_text())
        # Tuples (shard, path of the graph, its model).
        self.graphs = [
            (shard, path / width["file"]["path"],
             onnx.load(path / width["file"]["path"], load_external_data=False))
            for shard in self.manifest["shards"] for width in shard["widths"]]

    def weights(self):
        """Yields (shard, name, array) for every external initializer of every graph."""
        for shard, path, model in self.graphs:
            loaded = onnx.load(path)
            for tensor, loaded_tensor in zip(model.graph.initializer, loaded.graph.initializer):
                if tensor.data_location == TensorProto.EXTERNAL:
                    yield shard, tensor.name, numpy_helper.to_array(loaded_tensor)


@pytest.fixture(scope="module")
def folder(export, golden):
    @functools.cache
    def load(case, name):
        checkpoint = golden(case).checkpoint
        return Folder(export(checkpoint, *EXPORTS[name]), checkpoint)

    return load


every_case = pytest.mark.parametrize("case", CASES)
in_all_forms = pytest.mark.parametrize("case,name", in_forms(EXPORTS))


@in_all_forms
def test_passes_checker_and_strict_shape_inference(case, name, folder):
    for _, path, model in folder(case, name).graphs:
        onnx.checker.check_model(str(path), full_check=True)
        assert model.ir_version == 8
        assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
        inferred = shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True, data_prop=True)
        stated = {value.name: value for value in model.graph.value_info}
        for value in inferred.graph.value_info:
            assert value.type == stated[value.name].type, value.name


@in_all_forms
def test_every_shape_is_static(case, name, folder):
    for _, path, model in folder(case, name).graphs:
        graph = model.graph
        stated = [*graph.input, *graph.output, *graph.value_info]
        for value in stated:
            dims = value.type.tensor_type.shape.dim
            assert all(dim.dim_value > 0 for dim in dims), (path, value.name)  # 0 if the dimension is not a number
        results = {result for node in graph.node for result in node.output}
        assert results <= {value.name for value in stated}, path


@in_all_forms
def test_shapes_do_not_depend_on_data(case, name, folder):
    for shard, path, model in folder(case, name).graphs:
        ops = {node.op_type for node in model.graph.node}
        routes = shard["kind"] in ("moe", "router")
        allowed = STATIC_OPS | ({"TopK"} if name == "topk" and routes else set())
        assert ops <= allowed, (path, ops - allowed)
        assert ("TopK" in ops) == (name == "topk" and routes), path
        assert not any(attribute.HasField("g") for node in model.graph.node
                       for attribute in node.attribute)
        constant = {tensor.name for tensor in model.graph.initializer}
        for node in model.graph.node:  # inputs that determine shapes and positions must be constants
            if node.op_type in ("Slice", "Reshape", "Expand", "TopK", "ReduceSum"):
                assert set(node.input[1:]) <= constant, (path, node.name)


@every_case
def test_one_token_needs_no_other_ops(case, export, golden):
    """For some chips, test_qnn.py compiles only the graphs for several tokens."""
    checkpoint = golden(case).checkpoint
    ops = collections.defaultdict(dict)
    for shard, path, model in Folder(export(checkpoint, "--target", "qnn", "--tokens", "1,16"), checkpoint).graphs:
        tokens = next(width["tokens"] for width in shard["widths"] if path.match(width["file"]["path"]))
        ops[shard["name"]][tokens] = {node.op_type for node in model.graph.node}
    assert ops and all(set(of_shard) == {1, 16} for of_shard in ops.values())
    assert {name: of_shard[1] - of_shard[16] for name, of_shard in ops.items() if of_shard[1] - of_shard[16]} == {}


@pytest.mark.parametrize("name", EXPORTS)
def test_names_are_paths_and_unique(name, folder):
    for shard, path, model in folder("tinymoe", name).graphs:
        names = [node.name for node in model.graph.node]
        assert len(set(names)) == len(names), path
        layer = "lm_head" if shard["kind"] == "lm_head" else f"L{shard['layer']:02}"
        assert all(node.split("/")[0].split(".")[0] == layer for node in names), path
        assert all(part for node in names for part in node.split("/")), path
        values = [value.name for value in [*model.graph.input, *model.graph.initializer]]
        values += [result for node in model.graph.node for result in node.output]
        assert len(set(values)) == len(values), path


@in_all_forms
def test_external_data_is_valid(case, name, folder):
    """Checks offsets, lengths and checksums. The token widths of a shard share one data file."""
    exported = folder(case, name)
    for shard, path, model in exported.graphs:
        external = [tensor for tensor in model.graph.initializer
                    if tensor.data_location == TensorProto.EXTERNAL]
        assert external and len(shard["data"]) == 1
        data = (exported.path / shard["data"][0]["path"]).read_bytes()
        assert len(data) == shard["data"][0]["bytes"]
        checksum, ranges = hashlib.sha1(data).hexdigest(), set()
        for tensor in external:
            entry = {item.key: item.value for item in tensor.external_data}
            assert path.parent / entry["location"] == exported.path / shard["data"][0]["path"]
            assert entry.get("checksum") == (checksum if name == "conv" else None)
            offset, length = int(entry["offset"]), int(entry["length"])
            assert offset % ALIGNMENT == 0
            size = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            assert length == size * int(np.prod(tensor.dims))
            ranges.add((offset, offset + length))
        ranges = sorted(ranges)
        assert all(end <= begin for (_, end), (begin, _) in zip(ranges, ranges[1:]))
        assert ranges[-1][1] == len(data)
        assert shard["weight_bytes"] == sum(end - begin for begin, end in ranges)


@pytest.mark.parametrize("name", EXPORTS)
def test_manifest_lists_files_and_digests(name, folder):
    exported = folder("qwen2_moe_b", name)
    manifest = exported.manifest
    named = [manifest["embedding"]["file"], manifest["rope"]["table"]["file"], manifest["binary"],
             *manifest["carried"], *manifest["side_files"]]
    for shard in manifest["shards"]:
        named += shard["data"] + [width["file"] for width in shard["widths"]]
    for file in named:
        data = (exported.path / file["path"]).read_bytes()
        assert len(data) == file["bytes"]
        assert xxhash.xxh3_128_hexdigest(data) == file["digest"], file["path"]
    there = {str(path.relative_to(exported.path)) for path in exported.path.rglob("*")
             if path.is_file()}
    described = {file["path"] for file in named}
    assert there - described == {"manifest.json"}
    config = (exported.checkpoint / "config.json").read_bytes()
    assert xxhash.xxh3_128_hexdigest(config) == manifest["model"]["config_digest"]


def same_values(array, tensor):
    """Returns whether a weight has its tensor's values: a matmul weight is transposed, a conv weight is [N, C, 1,
    1], and a vector may have any axes."""
    tensor = tensor.astype(array.dtype)
    if tensor.ndim < 2:
        return np.array_equal(array.reshape(-1), tensor.reshape(-1))
    squeezed = array.reshape([size for size in array.shape if size != 1])
    tensor = tensor.reshape([size for size in tensor.shape if size != 1])
    return any(squeezed.shape == form.shape and np.array_equal(squeezed, form)
               for form in (tensor, tensor.T))


def fused_tensors(tensors):
    """Tensors whose parts are separate weights. All experts of a layer: [E, 2f, d] with the gates first and [E, d,
    f], or transposed, with their biases. A shared expert: [2f, d]. Latent attention: queries, keys and values with
    two kinds of rows. DeltaNets: maps stored head by head. Sinks: one per head."""
    parts = ("gate_up_proj", "experts.down_proj", "input_linear.weight", "moe.output_linear.weight", "_proj_bias",
             "q_b_proj.weight", "kv_a_proj_with_mqa.weight", "kv_a_proj_with_mqa.bias", "kv_b_proj.weight",
             "self_attn.sinks", "attention_sink_bias", "softmax_offset", "query_key_value.weight", "query_key_value.bias",
             "linear_attn.in_proj.weight", "in_proj_qkvz.weight", "in_proj_ba.weight", "mamba.in_proj.weight",
             "mixer.in_proj.weight", "mamba.norm.weight", "mixer.norm.weight", "in_proj.bias", "gate_up_proj.weight",
             "experts.up_proj")
    fused = {name for name in tensors if name.endswith(parts)} | joined_tensors(tensors)
    return fused | {name.replace("kv_b_proj", "q_proj") for name in fused if name.endswith("kv_b_proj.weight")}


def joined_tensors(tensors):
    """Tensors that are parts of one weight: the projections before the convolution of Kimi delta attention, and its
    taps."""
    layers = {name.removesuffix("b_proj.weight") for name in tensors if name.endswith((
        "self_attn.b_proj.weight", "attention.b_proj.weight"))}
    return {name for name in tensors for layer in layers
            if name in [f"{layer}{part}_{kind}.weight" for part in "qkv" for kind in ("proj", "conv1d")]}


# f32 in exports in f16: routers and the norms before them.
ROUTED_KINDS = ("moe", "router", "experts", "shared")
ROUTER_TENSORS = re.compile(r"(mlp|feed_forward|block_sparse_moe|moe)\.(gate|router)\b|moe_statics|correction_bias"
                            r"|layers\.\d+\.router\.|mixer\.gate\b|backbone\.layers\.\d+\.norm\.|expert_bias|(post_attention|pre_feedforward)_layernorm|ffn_norm")
RECURRENCE = re.compile(r"(linear_attn|mamba|mixer|self_attn|attention|forget_gate)\.(A_log|dt_bias|D$|norm\.weight|o_norm\.weight|out_norm\.weight)"
                        r"|^mixer_norm\.weight")  # for a group of heads
# Families whose norms, except those of DeltaNets, multiply by 1 + w.
PLUS_ONE = ("qwen3_next", "qwen3_5_moe_text", "minimax_m3_vl_text")
GATED_FAMILIES = ("qwen3_next", "qwen3_5_moe_text")
# ERNIE-4.5-VL tensors that are stored transposed, or that have rows for images.
OTHER_WAY = re.compile(r"mlp\.(gate\.weight|moe_statics)")
# Multiplied by the root of the width's reciprocal, which is then omitted from the norm.
SCALED = re.compile(r"router\.proj\.weight")
GATED = re.compile(r"self_attn\.q_proj\.(weight|bias)")  # in these families, queries and gates alternate by head


def as_computed(name, tensor, family):
    return tensor.astype(np.float32) + 1 if family in PLUS_ONE and "norm" in name and "linear_attn" not in name else tensor


def regrouped_tensors(tensors, family):
    """Tensors whose values no single weight contains in order: fused tensors, and queries with their gates."""
    gated = {name for name in tensors if family in GATED_FAMILIES and GATED.search(name)}
    other_way = {name for name in tensors if family == "ernie4_5_vl_moe_text" and OTHER_WAY.search(name)}
    return fused_tensors(tensors) | gated | other_way | {name for name in tensors if SCALED.search(name)}


def embedding_of(tensors):
    return next(name for name in tensors if name.endswith(("embed_tokens.weight", "embeddings.weight")))


def tensor_of(shard, weight):
    """Returns the name of a weight's tensor or, for a 4-bit tensor, a name with the expert's number and role."""
    found = re.fullmatch(r"experts\.(\d+)\.(gate|up|down)\.weight", weight)
    return f"model.layers.{shard['layer']}.mlp.experts.{found[1]}.{found[2]}_proj.weight" if found else weight


@pytest.mark.parametrize("case,name", in_forms(["conv", "matmul", "host", "f16"]))
def test_weights_equal_the_checkpoint_tensors(case, name, folder):
    exported = folder(case, name)
    tensors = read_checkpoint(exported.checkpoint)
    family = exported.manifest["model"]["family"]
    seen = {entry["tensor"] for entry in exported.manifest["ignored"]}
    for shard, weight, array in exported.weights():
        tensor = tensor_of(shard, weight)
        wide = (name != "f16" or RECURRENCE.search(tensor)
                or shard["kind"] in ROUTED_KINDS and ROUTER_TENSORS.search(tensor)
                and not (family == "gemma4_text" and "feedforward_layernorm" in tensor))  # its router has its own norm
        assert array.dtype == (np.float32 if wide else np.float16), (shard["name"], weight)
        if tensor in tensors and not SCALED.search(tensor):
            assert same_values(array, as_computed(tensor, tensors[tensor], family)), (shard["name"], weight)
            seen.add(tensor)
    # Slices of a fused tensor have separate names (see below); the embedding is a table.
    assert set(tensors) - regrouped_tensors(tensors, family) - seen <= {embedding_of(tensors)}


@pytest.mark.parametrize("name", ["conv", "matmul", "host"])
@pytest.mark.parametrize("case", ["mixtral_b", "qwen3_moe_b"])
def test_slices_fused_experts(case, name, folder):
    exported = folder(case, name)
    tensors = read_checkpoint(exported.checkpoint)
    by_layer = {(int(tensor.split(".")[2]), tensor.split(".")[-1]): tensors[tensor]
                for tensor in fused_tensors(tensors)}
    seen = collections.Counter()
    for shard, weight, array in exported.weights():
        if shard["kind"] not in ("moe", "experts") or not weight.startswith("experts."):
            continue
        _, expert, role = weight.split(".")[:3]
        gate, up = np.split(by_layer[shard["layer"], "gate_up_proj"][int(expert)], 2)
        down = by_layer[shard["layer"], "down_proj"][int(expert)]
        assert same_values(array, {"gate": gate, "up": up, "down": down}[role]), weight
        seen[shard["layer"], int(expert), role] += 1
    wanted = {(layer, expert, role): 2 for (layer, kind), tensor in by_layer.items()
              for expert in range(len(tensor))
              for role in (("down",) if kind == "down_proj" else ("gate", "up"))}
    assert seen == wanted  # once per token width


def test_bank_weights_contain_experts_in_order(folder):
    exported = folder("tinymoe", "bank")
    tensors = read_checkpoint(exported.checkpoint)
    checked = 0
    for shard, weight, array in exported.weights():
        role = weight.split(".")[-2]
        if shard["kind"] != "moe" or role not in ("gates", "ups", "downs"):
            continue
        experts = [tensors[f"model.layers.{shard['layer']}.mlp.experts.{e}.{role[:-1]}_proj.weight"]
                   for e in range(16)]
        np.testing.assert_array_equal(
            array[:, :, 0, 0], np.concatenate(experts, axis=1 if role == "downs" else 0))
        checked += 1
    assert checked == 2 * 4 * 3  # widths, layers, roles


def test_head_slices_equal_rows_of_the_head(folder):
    exported = folder("tinymoe", "bank")
    head = read_checkpoint(exported.checkpoint)["lm_head.weight"]
    slices = {}
    for shard, _, array in exported.weights():
        if shard["kind"] == "lm_head" and array.ndim > 1 and array.shape[0] == shard["vocab_size"]:
            slices[shard["vocab_begin"]] = array[:, :, 0, 0]
    assert len(slices) == 3
    np.testing.assert_array_equal(np.concatenate([slices[begin] for begin in sorted(slices)]), head)


@pytest.mark.parametrize("name", ["conv", "f16"])
@every_case
def test_embedding_table_equals_the_checkpoint_tensor(case, name, folder):
    exported = folder(case, name)
    table = exported.manifest["embedding"]
    dtype = DTYPES[table["dtype"]]
    rows = np.fromfile(exported.path / table["file"]["path"], dtype)
    tensors = read_checkpoint(exported.checkpoint)
    tensor = tensors[embedding_of(tensors)].astype(np.float32)
    config = json.loads((exported.checkpoint / "config.json").read_text())
    scale = np.float32(config.get("embedding_multiplier", 1))
    if exported.manifest["model"]["family"] == "gemma4_text" or config.get("mup_enabled"):
        scale = np.float32(np.sqrt(tensor.shape[1]))
    rows = rows.reshape(table["rows"], table["columns"])
    np.testing.assert_array_equal(rows, (tensor * scale).astype(dtype))


# ---- Eight experts -------------------------------------------------------------------------------

EIGHT = dict(hidden=32, inner=24, experts=8, heads=4, kv_heads=2, head_dim=8, vocab=64)


def eight_expert_tensors():
    rng = np.random.default_rng(8)
    d, f, h = EIGHT["hidden"], EIGHT["inner"], EIGHT["head_dim"]

    def linear(rows, columns):
        return (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def norm(size):
        return (1 + 0.2 * rng.standard_normal(size)).astype(np.float32)

    layer = "model.layers.0."
    tensors = {
        "model.embed_tokens.weight": linear(EIGHT["vocab"], d),
        layer + "input_layernorm.weight": norm(d),
        layer + "self_attn.q_proj.weight": linear(EIGHT["heads"] * h, d),
        layer + "self_attn.k_proj.weight": linear(EIGHT["kv_heads"] * h, d),
        layer + "self_attn.v_proj.weight": linear(EIGHT["kv_heads"] * h, d),
        layer + "self_attn.o_proj.weight": linear(d, EIGHT["heads"] * h),
        layer + "self_attn.q_norm.weight": norm(h),
        layer + "self_attn.k_norm.weight": norm(h),
        layer + "post_attention_layernorm.weight": norm(d),
        layer + "mlp.gate.weight": linear(EIGHT["experts"], d),
    }
    for e in range(EIGHT["experts"]):
        tensors[f"{layer}mlp.experts.{e}.gate_proj.weight"] = linear(f, d)
        tensors[f"{layer}mlp.experts.{e}.up_proj.weight"] = linear(f, d)
        tensors[f"{layer}mlp.experts.{e}.down_proj.weight"] = linear(d, f)
    return {**tensors, "model.norm.weight": norm(d), "lm_head.weight": linear(EIGHT["vocab"], d)}


def eight_expert_config():
    return {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_act": "silu",
        "hidden_size": EIGHT["hidden"], "intermediate_size": EIGHT["inner"],
        "moe_intermediate_size": EIGHT["inner"], "num_experts": EIGHT["experts"],
        "num_experts_per_tok": 2, "norm_topk_prob": True, "num_hidden_layers": 1,
        "num_attention_heads": EIGHT["heads"], "num_key_value_heads": EIGHT["kv_heads"],
        "head_dim": EIGHT["head_dim"], "vocab_size": EIGHT["vocab"], "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "max_position_embeddings": 64, "tie_word_embeddings": False,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "attention_bias": False,
    }


def test_eight_experts_emit_24_convs_plus_router(export, tmp_path_factory):
    checkpoint = tmp_path_factory.mktemp("eight")
    write_tensors(checkpoint / "model.safetensors", eight_expert_tensors())
    (checkpoint / "config.json").write_text(json.dumps(eight_expert_config()))
    exported = Folder(export(checkpoint, *WIDTHS), checkpoint)
    moe = [(path, model) for shard, path, model in exported.graphs if shard["kind"] == "moe"]
    assert len(moe) == 2
    for path, model in moe:
        onnx.checker.check_model(str(path), full_check=True)
        convs = [node for node in model.graph.node if node.op_type == "Conv"]
        by_place = collections.Counter(node.name.split("/")[2] for node in convs)
        experts = {f"experts.{e}": 3 for e in range(EIGHT["experts"])}
        assert len(convs) == 25
        assert {place: count for place, count in by_place.items() if place != "router"} == experts
        assert by_place["router"] == 1
        assert {node.op_type for node in model.graph.node} <= STATIC_OPS
        weights = {name for node in convs for name in node.input[1:]}
        wanted = {f"model.layers.0.mlp.experts.{e}.{role}_proj.weight"
                  for e in range(EIGHT["experts"]) for role in ("gate", "up", "down")}
        assert weights == wanted | {"model.layers.0.mlp.gate.weight"}

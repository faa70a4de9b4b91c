"""Unmodified llama.cpp loads the nodes that `moec split` writes and computes the expected results with them.

gguf_models.py writes the source files. For comparison, a bias of -1e9 excludes in the whole model the experts that a
node lacks, if the architecture has such a bias. The experts that a text selects are determined by leaving experts out.
"""

import collections
import hashlib
import json

import gguf
import gguf.quants
import numpy as np
import pytest

import llama_cpp
from gguf_blocks import HALVES, random_blocks
from gguf_models import read_model, write_model
from run_with_onnxruntime import Runner

TOKENS = [3, 17, 4, 9, 41, 5, 63, 8, 29, 12, 33, 7, 50, 2, 11, 24]
# One case per kind of router: softmax over selected experts, sigmoids with a bias, groups, biases of experts, and
# routers without normalization.
CASES = ["tinymoe", "mixtral_b", "glm4_moe_a", "deepseek_v3_a", "gpt_oss_a", "granitemoeshared_a", "minimax_m2_a",
         "olmoe_b", "qwen2_moe_a"]
BARRED = -1e9


@pytest.fixture
def whole(gguf_checkpoint, tmp_path):
    """whole(case, type) → (Model, its file)."""

    def write(case, tensor_type="F32"):
        model = read_model(gguf_checkpoint(case))
        [file] = write_model(model, tmp_path / f"{case}.gguf", tensor_type)
        return model, file

    return write


@pytest.fixture
def split(moec, tmp_path):
    """split(file, *options) → (the report, the first file of each node)."""

    def run(file, *options):
        out = tmp_path / f"split{len(list(tmp_path.iterdir()))}"
        report = json.loads(moec("split", file, "--out", out, "--json", *options))
        return report, [out / node["files"][0]["path"] for node in report["nodes"]]

    return run


def experts_of(model):
    """Returns (experts per layer, experts per token, MoE layers)."""
    layers = [int(name.split(".")[1]) for name in model.tensors if name.endswith("ffn_down_exps.weight")]
    return model.keys[f"{model.arch}.expert_count"], model.keys[f"{model.arch}.expert_used_count"], sorted(layers)


def sets_text(sets):
    return ";".join(f"L{layer}:{','.join(map(str, experts))}" for layer, experts in sets.items())


@pytest.mark.parametrize("case", CASES)
def test_node_with_all_experts_equals_the_model(case, whole, split):
    _, file = whole(case)
    report, [node] = split(file, "--groups", 1)
    assert [node["routing"] for node in report["nodes"]] == ["whole"]
    tokens = [token % 64 for token in TOKENS]
    assert np.array_equal(llama_cpp.logits(node, tokens), llama_cpp.logits(file, tokens))


@pytest.mark.parametrize("case", CASES)
def test_nodes_share_the_trunk(case, whole, split):
    """The trunk is one file, and the written bytes match the dry run."""
    model, file = whole(case)
    experts, used, _ = experts_of(model)
    groups = model.keys.get(f"{model.arch}.expert_group_count", 1)
    nodes = 1 if groups > 1 else min(2, experts // used)
    planned, _ = split(file, "--groups", nodes, "--dry-run")
    report, firsts = split(file, "--groups", nodes)
    for field in ("unique_bytes", "trunk_bytes"):
        assert planned[field] == report[field]
    on_disk = {}
    for node, first in zip(report["nodes"], firsts):
        files = list(first.parent.iterdir())
        assert sum(path.stat().st_size for path in files) == node["bytes"]
        on_disk |= {path.stat().st_ino: path.stat().st_size for path in files}
    assert sum(on_disk.values()) == report["unique_bytes"] and len(on_disk) == 2 * nodes + 1
    trunks = {hashlib.sha256(first.with_name(first.name.replace("-00001-", "-00002-")).read_bytes()).hexdigest()
              for first in firsts}
    assert len(trunks) == 1


def used_experts(model, tmp_path, tokens):
    """Returns which experts a text selects in each layer, determined with llama.cpp: zeroing an expert's down
    matrix changes the logits if and only if a token selects the expert."""
    count, _, layers = experts_of(model)
    [file] = write_model(model, tmp_path / "used.gguf")
    wanted = llama_cpp.logits(file, tokens)
    used = collections.defaultdict(list)
    for layer in layers:
        name = f"blk.{layer}.ffn_down_exps.weight"
        kept = model.tensors[name]
        for expert in range(count):
            model.tensors[name] = kept.copy()
            model.tensors[name][expert] = 0
            [file] = write_model(model, tmp_path / "used.gguf")
            if not np.array_equal(llama_cpp.logits(file, tokens), wanted):
                used[layer].append(expert)
        model.tensors[name] = kept
    return dict(used)


def filled(used, count):
    """Adds experts so that all sets have the size of the largest set."""
    most = max(map(len, used.values()))
    return {layer: sorted([*experts, *[e for e in range(count) if e not in experts][: most - len(experts)]])
            for layer, experts in used.items()}


@pytest.mark.parametrize("case", ["tinymoe", "mixtral_b", "qwen3_moe_a"])
def test_node_with_all_selected_experts_equals_the_model(case, whole, split, tmp_path):
    """This holds for the text whose experts were selected. Each layer has its own set."""
    model, file = whole(case)
    count, _, _ = experts_of(model)
    tokens = TOKENS[:2]
    sets = filled(used_experts(model, tmp_path, tokens), count)
    assert len(set(map(tuple, sets.values()))) > 1 and len(next(iter(sets.values()))) < count
    report, [node] = split(file, "--expert-list", sets_text(sets))
    assert report["nodes"][0]["routing"] == "masked"
    wanted = llama_cpp.logits(file, tokens)
    assert np.abs(llama_cpp.logits(node, tokens) - wanted).max() <= 1e-5 * np.abs(wanted).max()


# Sets of nine experts in three groups, of which two are kept: whole, halved and omitted groups.
GROUPED = ["*:0-1,3-4,6-7", "*:0-5", "L1:0-1,3-4,6-7;*:1,2,4,5,7,8", "*:0-4", "*:3-8"]


@pytest.mark.parametrize("sets", GROUPED)
@pytest.mark.parametrize("case", ["glm4_moe_a", "deepseek_v3_a"])
def test_node_equals_the_model_with_barred_experts(case, sets, whole, split, tmp_path):
    model, file = whole(case)
    count, _, layers = experts_of(model)
    sets = sets.replace("L1:", f"L{layers[0]}:")
    _, [node] = split(file, "--expert-list", sets)
    kept = parse_sets(sets, layers)
    for layer in layers:
        barred = [BARRED * (expert not in kept[layer]) for expert in range(count)]
        name = f"blk.{layer}.exp_probs_b.bias"
        model.tensors[name] = model.tensors[name] + np.array(barred, np.float32)
    [masked] = write_model(model, tmp_path / "masked.gguf")
    assert np.array_equal(llama_cpp.logits(node, TOKENS), llama_cpp.logits(masked, TOKENS))


def parse_sets(text, layers):
    """Maps layers to experts, for items such as L1:0-2,6."""
    found = dict(item.split(":") for item in text.split(";"))
    numbers = {where: [e for part in experts.split(",")
                       for e in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)]
               for where, experts in found.items()}
    return {layer: numbers.get(f"L{layer}", numbers.get("*")) for layer in layers}


@pytest.mark.parametrize("stored", ["Q8_0", "Q4_0", "BF16"])
def test_splits_blocks_between_experts(stored, whole, split):
    model, file = whole("tinymoe", stored)
    _, _, layers = experts_of(model)
    sets = {layer: [(layer + 3 * e) % 16 for e in range(5)] for layer in layers}
    _, [node] = split(file, "--expert-list", sets_text(sets))
    source = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    cut = gguf.GGUFReader(node.with_name(node.name.replace("-00001-", "-00003-"))).tensors
    assert len(cut) == 4 * len(layers)
    for tensor in cut:
        wanted = source[tensor.name]
        values = gguf.quants.dequantize(wanted.data, wanted.tensor_type)
        kept = sorted(sets[int(tensor.name.split(".")[1])])
        assert tensor.tensor_type == wanted.tensor_type
        assert np.array_equal(gguf.quants.dequantize(tensor.data, tensor.tensor_type), values[kept])
    assert np.isfinite(llama_cpp.logits(node, TOKENS)).all()


def test_splits_all_block_types_between_experts(split, tmp_path):
    """Uses one layer per type. The gguf package decodes equal values from the node and the source."""
    chance = np.random.default_rng(3)
    writer = gguf.GGUFWriter(tmp_path / "blocks.gguf", "blocks")
    for name, count in {"block_count": len(HALVES), "expert_count": 6, "expert_used_count": 2}.items():
        writer.add_uint32(f"blocks.{name}", count)
    for layer, name in enumerate(HALVES):
        kind = gguf.GGMLQuantizationType[name]
        elements, _ = gguf.GGML_QUANT_SIZES[kind]
        blocks = random_blocks(name, 6 * 4 * 256 // elements, chance).reshape(6, 4, -1)
        writer.add_tensor(f"blk.{layer}.ffn_down_exps.weight", blocks, raw_dtype=kind)
        writer.add_tensor(f"blk.{layer}.ffn_gate_inp.weight", chance.normal(size=(6, 4)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    sets = {layer: sorted(map(int, chance.choice(6, 3, replace=False))) for layer in range(len(HALVES))}
    _, [node] = split(tmp_path / "blocks.gguf", "--expert-list", sets_text(sets))
    source = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "blocks.gguf").tensors}
    cut = gguf.GGUFReader(node.with_name(node.name.replace("-00001-", "-00003-"))).tensors
    assert len(cut) == len(source) == 2 * len(HALVES)
    for tensor in cut:
        with np.errstate(all="ignore"):
            values, wanted = (gguf.quants.dequantize(of.data, of.tensor_type) for of in (tensor, source[tensor.name]))
        assert np.array_equal(values, wanted[sets[int(tensor.name.split(".")[1])]], equal_nan=True), tensor.name


@pytest.mark.parametrize("case", ["tinymoe", "glm4_moe_a", "gpt_oss_a", "olmoe_b"])
def test_moec_reads_a_node_as_checkpoint(case, whole, split, export):
    """The export of the node matches llama.cpp on the node."""
    model, file = whole(case)
    count, used, layers = experts_of(model)
    kept = max(used, count // 2) if case != "glm4_moe_a" else 6
    _, [node] = split(file, "--expert-list", sets_text({layer: list(range(count - kept, count)) for layer in layers}))
    wanted = llama_cpp.logits(node, TOKENS)
    found = Runner(export(node, "--tokens", len(TOKENS)), threads=1).feed(TOKENS)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def write_profile(path, model, mass):
    count, used, layers = experts_of(model)
    family = {"olmoe": "olmoe", "qwen2moe": "qwen2_moe"}[model.arch]
    rows = [{"layer": layer, "tokens": 100, "selections": [100 * used // count] * count, "mass": mass,
             "categories": []} for layer in layers]
    path.write_text(json.dumps({"format": "moec.expert_profile", "version": 1, "model": family, "checkpoint": "",
                                "source": "checkpoint", "text": "", "experts": count, "top_k": used,
                                "categories": [], "layers": rows}))


@pytest.mark.parametrize("case", ["olmoe_b", "qwen2_moe_a"])
def test_profile_corrects_unnormalized_weights(case, whole, split, tmp_path):
    """The down matrices are scaled by the node's share of the routing weights."""
    model, file = whole(case)
    count, used, layers = experts_of(model)
    kept = list(range(max(used, count // 2)))
    text = "*:" + ",".join(map(str, kept))
    inflated, _ = split(file, "--expert-list", text)
    assert "split.inflated" in {note["code"] for note in inflated["diagnostics"]}
    mass = [float(e + 1) for e in range(count)]
    write_profile(tmp_path / "profile.json", model, mass)
    report, [node] = split(file, "--expert-list", text, "--profile", tmp_path / "profile.json")
    share = sum(mass[: len(kept)]) / sum(mass)
    assert report["nodes"][0]["routing"] == "compensated"
    assert [row["share"] for row in report["nodes"][0]["kept_share"]] == pytest.approx([share] * len(layers))
    for layer in layers:
        for name in ("ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight", "ffn_gate_inp.weight"):
            model.tensors[f"blk.{layer}.{name}"] = model.tensors[f"blk.{layer}.{name}"][kept]
        model.tensors[f"blk.{layer}.ffn_down_exps.weight"] *= np.float32(share)
    model.keys[f"{model.arch}.expert_count"] = len(kept)
    [scaled] = write_model(model, tmp_path / "scaled.gguf")
    wanted = llama_cpp.logits(scaled, TOKENS)
    assert np.abs(llama_cpp.logits(node, TOKENS) - wanted).max() <= 1e-5 * np.abs(wanted).max()

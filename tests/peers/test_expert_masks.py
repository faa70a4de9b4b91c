"""Exports with a mask of experts match unmodified llama.cpp on a model where a bias far below all scores excludes
the masked experts.
"""

import json

import numpy as np
import pytest

import llama_cpp
from comparison import compare
from gguf_cases import all_tokens
from gguf_models import read_model, write_gguf, write_model
from run_with_onnxruntime import Runner

MOST = 1e-5  # difference of logits relative to the largest logit
BIAS = "exp_probs_b.bias"  # suffix of a layer's bias, for example "blk.1.exp_probs_b.bias"
NEVER = -1e9
CASES = ["glm4_moe_a", "glm4_moe_b", "deepseek_v3_a", "minimax_m2_a", "minimax_m2_b", "ernie4_5_moe_a"]


def left_out(layer, experts, groups):
    """Masks one expert per group, a different one in each layer. At least two experts per group remain for the
    group's score."""
    size = experts // groups
    return {group * size + (layer + group) % size for group in range(groups)}


def masked(folder, model):
    """Excludes experts with the model's biases and returns the equivalent mask."""
    config = json.loads((folder / "config.json").read_text())
    groups = config.get("n_group") or 1
    items = []
    for name, bias in model.tensors.items():
        if not name.endswith(BIAS):
            continue
        layer = int(name.split(".")[1])
        out = left_out(layer, bias.size, groups)
        bias = model.tensors[name] = np.array(bias, np.float32)
        bias[sorted(out)] = NEVER
        items.append(f"L{layer}:" + ",".join(str(e) for e in range(bias.size) if e not in out))
    assert len(items) >= 1
    return ";".join(items)


@pytest.mark.parametrize("case", CASES)
def test_mask_equals_a_large_negative_bias(case, golden, gguf_checkpoint, export, tmp_path, worst):
    folder, tokens = gguf_checkpoint(case), all_tokens(golden(case))
    model = read_model(folder)
    mask = masked(folder, model)
    [file] = write_model(model, tmp_path / "masked.gguf")
    wanted = llama_cpp.logits(file, tokens)
    [all_experts] = write_gguf(folder, tmp_path / "all.gguf")
    assert np.abs(llama_cpp.logits(all_experts, tokens) - wanted).max() > 1e-3 * np.abs(wanted).max()
    got = Runner(export(folder, "--tokens", len(tokens), "--expert-mask", mask), threads=1).feed(tokens)
    worst["llama.cpp, masked experts"].add(compare(got, wanted))
    assert np.abs(got - wanted).max() <= MOST * np.abs(wanted).max()
    assert (got.argmax(1) == wanted.argmax(1)).all()


@pytest.mark.parametrize("case", ["glm4_moe_a", "minimax_m2_a"])
def test_session_mask_equals_an_exported_mask(case, golden, gguf_checkpoint, export, moec, tmp_path):
    """Each token that `moec run` generates with a mask is llama.cpp's most likely token."""
    folder, tokens = gguf_checkpoint(case), all_tokens(golden(case))[:4]
    model = read_model(folder)
    mask = masked(folder, model)
    [file] = write_model(model, tmp_path / "masked.gguf")
    out = export(folder, "--tokens", "1,4", "--context", "32")
    run = json.loads(moec("run", out, "--prompt-tokens", ",".join(map(str, tokens)), "-n", 6, "--ignore-eos",
                          "--expert-mask", mask, "--json"))
    for token in run["tokens"]:
        assert llama_cpp.logits(file, tokens)[-1].argmax() == token
        tokens = [*tokens, token]
    assert len(run["tokens"]) == 6


@pytest.mark.parametrize("case", ["glm4_moe_a", "qwen3_moe_a"])
def test_nodes_match_the_masked_export_in_onnxruntime(case, golden, gguf_checkpoint, export, moec, tmp_path):
    """Two nodes of exports with masked graphs: missing shards do not change the results bit for bit."""
    folder, tokens = gguf_checkpoint(case), all_tokens(golden(case))
    config = json.loads((folder / "config.json").read_text())
    counts = ("n_routed_experts", "num_local_experts", "num_experts")
    experts = next(config[name] for name in counts if name in config)
    for node in range(2):
        mask = "*:" + ",".join(str(e) for e in range(experts) if e % 4 != 1 + node)
        groups = tmp_path / f"groups{node}.json"
        groups.write_text(json.dumps({"groups": [{"name": "node", "experts": mask}]}))
        out = export(folder, "--tokens", len(tokens), "--expert-mask", mask, "--expert-groups", groups)
        nodes = tmp_path / f"nodes{node}"
        moec("split", out, "--expert-list", mask, "--out", nodes, "--quiet")
        whole, part = Runner(out, threads=1), Runner(nodes / "node0", threads=1)
        assert len(part.shards) < len(whole.shards)
        np.testing.assert_array_equal(part.feed(tokens), whole.feed(tokens))


def test_rejects_a_node_without_masked_graphs(golden, gguf_checkpoint, export, moec, tmp_path):
    out = export(gguf_checkpoint("qwen3_moe_a"), "--tokens", 4, "--experts-per-shard", 1)
    moec("split", out, "--groups", 2, "--out", tmp_path / "nodes", "--quiet")
    with pytest.raises(ValueError, match="export with --expert-mask 'L0-1:0-2'"):
        Runner(tmp_path / "nodes" / "node0", threads=1)

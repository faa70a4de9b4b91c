"""onnxruntime's own MoE operator matches the static MoE shards.

On the CPU, com.microsoft::MoE reads raw router logits, selects the top k itself, and computes SwiGLU on alternating
gate and up rows (activation_type swiglu, swiglu_fusion 1). It shares no code and no method with moec's routing and
sums.
"""

import functools

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from comparison import compare
from safetensors_files import read_checkpoint

LAYER, TOP_K, EPS = 0, 2, 1e-6
EXPERTS, HIDDEN = 16, 128
PREFIX = f"model.layers.{LAYER}.mlp."
EXPORTS = {
    "rank": ("--tokens", "1,16"),
    "iterate": ("--tokens", "1,16", "--routing", "iterate", "--head-slices", "7"),
    "topk": ("--tokens", "1,16", "--routing", "topk"),
    "bank": ("--tokens", "1,16", "--experts", "bank"),
    "matmul": ("--tokens", "1,16", "--form", "matmul", "--head-slices", "3"),
    "host": ("--tokens", "1,16", "--routing", "host"),
    "host_groups": ("--tokens", "1,16", "--routing", "host", "--experts-per-shard", "3"),
}


@pytest.fixture(scope="module")
def weights(golden):
    return read_checkpoint(golden("tinymoe").checkpoint)


def expert_weights(weights, role):
    """[E, out, in]."""
    return np.stack([weights[f"{PREFIX}experts.{e}.{role}_proj.weight"] for e in range(EXPERTS)])


def moe_op_model(weights):
    gate, up = expert_weights(weights, "gate"), expert_weights(weights, "up")
    inner = gate.shape[1]
    alternating = np.stack([gate, up], axis=2).reshape(EXPERTS, 2 * inner, HIDDEN)
    node = helper.make_node(
        "MoE", ["input", "logits", "fc1", "", "fc2"], ["output"], domain="com.microsoft",
        k=TOP_K, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.0,
        activation_beta=0.0, normalize_routing_weights=1)
    value = functools.partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    graph = helper.make_graph(
        [node], "moe",
        [value("input", shape=["T", HIDDEN]), value("logits", shape=["T", EXPERTS])],
        [value("output", shape=["T", HIDDEN])],
        [numpy_helper.from_array(np.ascontiguousarray(alternating), "fc1"),
         numpy_helper.from_array(expert_weights(weights, "down"), "fc2")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


@pytest.fixture(scope="module")
def oracle(weights):
    """oracle(hidden [T, d]) → the output of the layer's experts, computed by the MoE operator."""
    session = onnxruntime.InferenceSession(
        moe_op_model(weights).SerializeToString(), providers=["CPUExecutionProvider"])
    norm = weights[f"model.layers.{LAYER}.post_attention_layernorm.weight"]
    router = weights[PREFIX + "gate.weight"]

    def run(hidden):
        rms = np.sqrt(np.mean(np.square(hidden), axis=1, keepdims=True) + np.float32(EPS))
        normed = (hidden / rms * norm).astype(np.float32)
        return session.run(None, {"input": normed, "logits": normed @ router.T})[0]

    return run


def moe_steps(runner):
    """The layer's steps after attention, in order."""
    return [entry for entry in runner.manifest["schedule"]
            if runner.shards[entry["shard"]]["layer"] == LAYER
            and runner.shards[entry["shard"]]["kind"] != "attention"]


def run_layer(runner, hidden):
    """Returns the residual stream after the layer's MoE shards."""
    steps = moe_steps(runner)
    edges = {f"L{LAYER:02}.hidden": hidden}
    for entry in steps:
        runner.run_step(entry, edges, len(hidden))
    return edges[steps[-1]["outputs"][0]["edge"]]


def hidden_rows(golden):
    """The layer's golden inputs, and random rows of the same magnitude that reach every expert."""
    real = golden.rows("prefill", "attn_out", LAYER)
    random = np.random.default_rng(7).standard_normal((96, HIDDEN), np.float32) * real.std()
    return np.concatenate([real, random])


@pytest.mark.parametrize("name", EXPORTS)
def test_moe_shard_matches_the_operator(name, runner, golden, oracle, worst):
    running = runner("tinymoe", *EXPORTS[name])
    hidden = hidden_rows(golden("tinymoe"))
    for width in (1, 16):
        got = np.concatenate([run_layer(running, hidden[begin : begin + width])
                              for begin in range(0, len(hidden), width)])
        wanted = oracle(hidden)
        assert np.abs(wanted).max() > 0.1
        figures = compare(got - hidden, wanted)
        worst["MoE operator"].add(figures)
        assert figures.largest_difference <= 1e-5


def test_operator_detects_inexact_routing(runner, golden, oracle):
    running = runner("tinymoe", "--tokens", "1,16", "--routing", "full_softmax")
    hidden = golden("tinymoe").rows("prefill", "attn_out", LAYER)[:16]
    assert compare(run_layer(running, hidden) - hidden, oracle(hidden)).relative_l2 > 0.01


def test_operator_matches_the_golden(golden, oracle):
    want = golden("tinymoe")
    hidden = want.rows("prefill", "attn_out", LAYER)
    added = want.rows("prefill", "ffn_out", LAYER) - hidden
    assert np.abs(oracle(hidden) - added).max() <= 1e-5


def test_rows_reach_every_expert(runner, golden):
    running = runner("tinymoe", *EXPORTS["host"])
    hidden = hidden_rows(golden("tinymoe"))
    router = moe_steps(running)[0]
    chosen = np.zeros(EXPERTS, int)
    for begin in range(0, len(hidden), 16):
        edges = {f"L{LAYER:02}.hidden": hidden[begin : begin + 16]}
        running.run_step(router, edges, len(hidden[begin : begin + 16]))
        weights = edges[router["outputs"][0]["edge"]]
        np.testing.assert_array_equal((weights != 0).sum(axis=1), TOP_K)
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
        chosen += (weights != 0).sum(axis=0)
    assert chosen.min() > 0


@pytest.mark.parametrize("group", range(6))
def test_each_expert_group_adds_only_its_experts(group, runner, golden, weights):
    """Compares a single group with numpy, for random routing weights."""
    running = runner("tinymoe", *EXPORTS["host_groups"])
    entry = moe_steps(running)[1 + group]
    shard = running.shards[entry["shard"]]
    rng = np.random.default_rng(group)
    hidden = golden("tinymoe").rows("prefill", "attn_out", LAYER)[:16]
    acc = rng.standard_normal(hidden.shape, np.float32)
    routing = rng.random((16, EXPERTS), np.float32)
    values = {"hidden": hidden, "acc": acc, "routing_weights": routing}
    edges = {}
    for binding in entry["inputs"]:
        # The first group's acc is the residual itself: one edge that two ports read.
        edges.setdefault(binding["edge"], values[binding["port"]])
    if group == 0:
        edges[f"L{LAYER:02}.hidden"] = acc = hidden
    running.run_step(entry, edges, 16)

    rms = np.sqrt(np.mean(np.square(hidden, dtype=np.float64), axis=1, keepdims=True) + EPS)
    normed = hidden / rms * weights[f"model.layers.{LAYER}.post_attention_layernorm.weight"]
    wanted = acc.astype(np.float64)
    first = shard["first_expert"]
    for e in range(first, first + shard["experts"]):
        gate, up, down = (weights[f"{PREFIX}experts.{e}.{role}_proj.weight"]
                          for role in ("gate", "up", "down"))
        inner = normed @ gate.T
        inner = inner / (1 + np.exp(-inner)) * (normed @ up.T)
        wanted += routing[:, e : e + 1] * (inner @ down.T)
    np.testing.assert_allclose(edges[entry["outputs"][0]["edge"]], wanted, rtol=0, atol=1e-5)

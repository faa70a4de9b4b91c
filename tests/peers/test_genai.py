"""Runs the folders of target ort-genai in unmodified onnxruntime-genai."""

import json
import shutil
import sys

import numpy as np
import onnx
import pytest

from comparison import compare
from gguf_models import write_gguf
from goldens import REPO, WRITERS
from run_with_onnxruntime import Runner

pytest.importorskip("onnxruntime_genai")

from validate_with_genai import Model, validate  # noqa: E402

TARGET = ("--target", "ort-genai")
# Prompts in two appends each.
PARTS = {1: (1,), 12: (5, 7), 90: (50, 40), 100: (60, 40)}
LARGEST_ERROR = 1e-5
# Cases with head sizes of multiples of 8, whose attention is one op. Together they have windows, sinks, chunks, norms of
# heads before and after the rotation, norms of values, both styles of rotation, and histories.
FUSED = ("mixtral_a", "qwen3_b", "gpt_oss_b", "llama4_text_a", "gemma4_a", "glm4_moe_b", "phimoe_b", "zaya_b")


def attention_ops(folder):
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    return [node for node in graph.node if node.op_type == "GroupQueryAttention"]


def attributes(node):
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


@pytest.mark.parametrize("case", WRITERS)
def test_logits_and_text_equal_golden(case, export, golden):
    report = validate(export(golden(case).checkpoint, *TARGET), golden(case).folder)
    assert report["passed"] and report["greedy"]["equal"] == report["greedy"]["tokens"], report


@pytest.mark.parametrize("case", ("tinymoe", "llama_a", "gpt_oss_a", "deepseek_v3_a", "gemma4_a", "llama4_text_a",
                                  "lfm2_moe_a", "qwen3_next_a", "granitemoehybrid_a", "kimi_linear_a", "zaya_a",
                                  *FUSED[:2], *FUSED[4:]))
def test_appends_equal_static_graphs(case, export, golden, worst):
    """The static graphs of the same folder, one token at a time, are the reference."""
    compare_appends(export(golden(case).checkpoint, *TARGET), worst)


def compare_appends(folder, worst):
    model, static = Model(folder), Runner(folder, threads=1)
    context = static.manifest["build"]["context"]
    tokens = np.random.default_rng(7).integers(0, static.manifest["model"]["vocab"], min(100, context)).tolist()
    wanted = [np.ravel(static.feed([token])) for token in tokens]
    for length, sizes in PARTS.items():
        if length > context:
            continue
        ends = np.cumsum(sizes)
        parts = [tokens[end - size : end] for end, size in zip(ends, sizes)]
        for got, end in zip(model.logits_after(parts), ends):
            figures = compare(got, wanted[end - 1])
            assert figures.relative_l2 <= LARGEST_ERROR, f"{length} tokens"
            worst["onnxruntime-genai, logits"].add(figures)


@pytest.mark.parametrize("case", FUSED)
def test_attention_is_one_op(case, export, golden):
    folder = export(golden(case).checkpoint, *TARGET)
    caches = {cache["layer"]: cache for cache in json.loads((folder / "manifest.json").read_text())["caches"]}
    fitting = [layer for layer, cache in caches.items() if cache["head_dim"] % 8 == 0]
    nodes = attention_ops(folder)
    assert len(nodes) == len(fitting) > 0


def test_sinks_with_windows_equal_static_graphs(export, golden, tmp_path, worst):
    """gpt_oss_b with windows that are shorter than its texts."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(golden("gpt_oss_b").checkpoint, checkpoint)
    config = json.loads((checkpoint / "config.json").read_text())
    changed = {"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"]}
    (checkpoint / "config.json").write_text(json.dumps(config | changed))
    folder = export(checkpoint, *TARGET)
    windows = [attributes(node).get("local_window_size") for node in attention_ops(folder)]
    assert 7 in windows and all(node.input[11] for node in attention_ops(folder))
    compare_appends(folder, worst)


@pytest.mark.parametrize("case", ("tinymoe", "mixtral_a"))
def test_append_after_generation_fails(case, export, golden):
    """The engine omits the last sampled token (GENAI.md), so the logits would be wrong."""
    generator = Model(export(golden(case).checkpoint, *TARGET)).start()
    generator.append_tokens(np.array(golden(case).prompt, np.int32))
    generator.generate_next_token()
    with pytest.raises(Exception, match="(?i)broadcast|dimension"):
        generator.append_tokens(np.array([7, 8], np.int32))


@pytest.mark.parametrize("options", (("--weights", "int8"), ("--routing", "op"), ("--routing", "host"),
                                     ("--head-slices", "2"), ("--layers-per-shard", "2")))
@pytest.mark.parametrize("case", ("tinymoe", "mixtral_a"))
def test_forms_equal_static_graphs(case, options, export, golden):
    folder = export(golden(case).checkpoint, *TARGET, *options)
    static = Runner(folder, threads=1)
    prompt = golden(case).prompt
    wanted = [np.ravel(static.feed([token])) for token in prompt][-1]
    (got,) = Model(folder).logits_after([prompt])
    assert compare(got, wanted).relative_l2 <= LARGEST_ERROR


@pytest.mark.parametrize("case", ("tinymoe", "qwen3_moe_a", "deepseek_v3_a"))
def test_long_text_equals_static_graphs(case, export, golden):
    folder = export(golden(case).checkpoint, *TARGET)
    static = Runner(folder, threads=1)
    static.manifest["model"]["eos_tokens"] = []
    prompt = golden(case).prompt
    model = Model(folder)
    assert model.same_text(model.greedy(prompt, 32), list(static.generate(prompt, 32))) == 32


@pytest.mark.parametrize("stored", ["Q4_0", "Q4_1"])
def test_codes_have_no_float_zeros(stored, export, tmp_path):
    """onnxruntime has no kernel for codes with float zeros, so matmuls of their own add them."""
    [file] = write_gguf(REPO / "models/tinymoe", tmp_path / "stored.gguf", stored)
    folder = export(file, *TARGET, "--weights", "copy")
    nodes = onnx.load(folder / "model.onnx", load_external_data=False).graph.node
    coded = [node for node in nodes if node.op_type == "MatMulNBits"]
    assert coded and {len(node.input) for node in coded} == {3}
    prompt = list(b"def tokens")
    (got,) = Model(folder).logits_after([prompt])
    wanted = Runner(export(file), threads=1).feed(prompt)[-1]
    assert compare(got, np.ravel(wanted)).relative_l2 <= LARGEST_ERROR


def test_config_describes_a_growing_cache(export, golden):
    config = json.loads((export(golden("tinymoe").checkpoint, *TARGET) / "genai_config.json").read_text())
    assert config["model"]["type"] == "decoder"
    assert config["search"]["past_present_share_buffer"] is False
    assert isinstance(config["model"].get("eos_token_id", []), list)


def test_validate_runs_the_engine(export, golden, moec):
    folder = export(golden("tinymoe").checkpoint, *TARGET)
    flags = ("--golden", golden("tinymoe").folder, "--engine", "onnxruntime-genai", "--python", sys.executable)
    assert "greedy text: 64 of 64 tokens equal\nPASSED" in moec("validate", folder, *flags)
    assert json.loads(moec("validate", folder, *flags, "--json"))["greedy"] == {"equal": 64, "tokens": 64}


def test_check_passes(export, golden, moec):
    moec("check", export(golden("tinymoe").checkpoint, *TARGET))

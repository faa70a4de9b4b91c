"""Checkpoints in the forms of other programs export to the same files as checkpoints in the usual form."""

import json

import numpy as np
import pytest

from goldens import REPO
from safetensors_files import read_tensors, write_tensors

ORDERS = [("model.language_model.", "lm_head."), ("language_model.model.", "language_model.lm_head."),
          ("language_model.", "lm_head."), ("language_model.model.", "lm_head.")]


def weights_of(folder):
    """Maps paths to the bytes of weights and tables. Graphs are excluded, because they name the checkpoint's
    tensors."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.suffix in (".data", ".bin") and path.name != "manifest.bin"}


def write_checkpoint(folder, config, tensors):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_tensors(folder / "model.safetensors", {name: values.astype(np.float32) for name, values in tensors.items()})
    return folder


@pytest.mark.parametrize("case", ["qwen3_vl_moe_a", "qwen3_5_moe_a", "glm4v_moe_a", "gemma4_a", "ernie4_5_vl_moe_a", "llama4_a",
                                  "minimax_m3_a", "kimi_k25_a"])
def test_accepts_name_prefixes_of_nested_models(export, tmp_path, case):
    source = REPO / "tests/golden" / case
    config, tensors = json.loads((source / "config.json").read_text()), read_tensors(source / "model.safetensors")
    begins = next(order for order in ("model.language_model.", "language_model.model.", "model.")
                  if any(name.startswith(order) for name in tensors))
    flags = ("--target", "onnx", "--dtype", "f32", "--tokens", "1,4", "--context", "32")
    usual = weights_of(export(source, *flags))
    for i, (body, head) in enumerate(ORDERS):
        def renamed(name):
            if "lm_head." in name:
                return head + name.split("lm_head.")[1]
            is_text = name.startswith(begins) and "vision" not in name and "resampler" not in name
            return body + name.removeprefix(begins) if is_text else name

        values = {renamed(name): values for name, values in tensors.items()}
        assert weights_of(export(write_checkpoint(tmp_path / str(i), config, values), *flags)) == usual, body


@pytest.mark.parametrize(("case", "key", "tensor"), [
    ("lfm2_moe_a", "conv_L_cache", ".conv.conv.weight"), ("granitemoehybrid_a", "mamba_d_conv", ".mamba.conv1d.weight"),
    ("qwen3_next_a", "linear_conv_kernel_dim", ".conv1d.weight"), ("nemotron_h_a", "conv_kernel", ".conv1d.weight"),
])
def test_accepts_a_convolution_kernel_of_one(export, tmp_path, case, key, tensor):
    """The export equals that of a kernel of two whose first tap is zero."""
    source = REPO / "tests/golden" / case
    config, tensors = json.loads((source / "config.json").read_text()), read_tensors(source / "model.safetensors")
    assert any(name.endswith(tensor) for name in tensors)
    exports = []
    for taps in (1, 2):
        values = {name: np.ascontiguousarray(values[..., -taps:]) if name.endswith(tensor) else values.copy()
                  for name, values in tensors.items()}
        for name in values:
            if name.endswith(tensor) and taps == 2:
                values[name][..., 0] = 0
        checkpoint = write_checkpoint(tmp_path / str(taps), config | {key: taps}, values)
        exports.append(weights_of(export(checkpoint, "--target", "onnx", "--dtype", "f32", "--tokens", "1,4", "--context", "32")))
    assert exports[0] == exports[1]


@pytest.mark.parametrize(("case", "keys"), [
    ("kimi_linear_a", {"num_key_value_heads": None}), ("deepseek_v3_a", {"num_key_value_heads": None}),
    ("dots1_a", {"num_key_value_heads": None}), ("qwen2_a", {"num_key_value_heads": None}),
    ("glm4_moe_lite_a", {"first_k_dense_replace": 0}),
    ("mistral_b", {"layer_types": ["full_attention"] * 3}), ("mistral_a", {"layer_types": ["sliding_attention"] * 2}),
])
def test_accepts_keys_that_transformers_accepts(export, tmp_path, case, keys):
    """Covers null keys and keys that the class does not read."""
    source = REPO / "tests/golden" / case
    config, tensors = json.loads((source / "config.json").read_text()), read_tensors(source / "model.safetensors")
    if keys == {"num_key_value_heads": None}:
        heads = config["num_attention_heads"] // config.get("num_key_value_heads", 1)
        if heads != 1:
            for name in [name for name in tensors if name.endswith((".k_proj.weight", ".v_proj.weight", ".k_proj.bias", ".v_proj.bias"))]:
                size = config["num_key_value_heads"]
                values = tensors[name].reshape(size, -1, *tensors[name].shape[1:])
                tensors[name] = np.repeat(values, heads, 0).reshape(-1, *tensors[name].shape[1:])
        config["num_key_value_heads"] = config["num_attention_heads"]
    flags = ("--target", "onnx", "--dtype", "f32", "--tokens", "1,4", "--context", "32")
    usual = weights_of(export(write_checkpoint(tmp_path / "usual", config, tensors), *flags))
    assert weights_of(export(write_checkpoint(tmp_path / "odd", config | keys, tensors), *flags)) == usual


def test_accepts_latent_parts_of_two_types(export, moec, tmp_path):
    """The rows of values fill whole blocks, but the rows of keys do not."""
    source, rank = REPO / "tests/golden/deepseek_v3_a", 32
    config, tensors = json.loads((source / "config.json").read_text()), read_tensors(source / "model.safetensors")
    usual, rng = config["kv_lora_rank"], np.random.default_rng(5)
    for name, values in tensors.items():
        shape = list(values.shape)
        if name.endswith(("kv_a_proj_with_mqa.weight", "kv_a_proj_with_mqa.bias", "kv_a_layernorm.weight")):
            shape[0] += rank - usual
        if name.endswith("kv_b_proj.weight"):
            shape[1] = rank
        tensors[name] = rng.normal(0, 0.1, shape).astype(np.float32)
    checkpoint = write_checkpoint(tmp_path / "checkpoint", config | {"kv_lora_rank": rank}, tensors)
    files = export(checkpoint, "--target", "gguf", "--weights", "q8_0")
    types = {tensor["name"]: tensor["type"] for file in json.loads((files / "report.json").read_text())["files"]
             for tensor in file["tensors"]}
    assert (types["blk.0.attn_k_b.weight"], types["blk.0.attn_v_b.weight"]) == ("f16", "q8_0")
    moec("check", files)
    assert weights_of(export(next(files.glob("*.gguf")), "--target", "onnx", "--tokens", "1,4", "--context", "32"))

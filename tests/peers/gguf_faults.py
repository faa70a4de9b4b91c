"""GGUF files with one fault each, which a checker of GGUF files must name.

    fault = FAULTS["no gating function"]
    write_model(broken(fault, read_model(folder)), path)

Each fault changes one key, or one tensor in all layers, of a valid file; "128 experts" changes the number of
experts.
"""

import dataclasses
import fnmatch
from typing import Callable

import gguf
import numpy as np

from gguf_models import Model

KIND = gguf.GGUFValueType
# llama.cpp's reaction to the file: computes other results, rejects it, or aborts.
SILENT, REFUSED, ABORTED = "silent", "refused", "aborted"


@dataclasses.dataclass(frozen=True)
class Fault:
    case: str  # a golden, or a variant of a golden (gguf_cases.py)
    change: Callable  # changes a Model
    outcome: str


def without_key(key):
    def change(model):
        del model.keys[f"{model.arch}.{key}"]
    return change


def with_key(key, value, kind=None):
    """Sets a key to another value and, if `kind` is given, another type."""
    def change(model):
        name = f"{model.arch}.{key}"
        assert name in model.keys
        model.keys[name] = value if kind is None else (kind, value)
    return change


def named(model, pattern):
    names = fnmatch.filter(model.tensors, f"blk.*.{pattern}")
    assert names, pattern
    return names


def without_tensor(pattern):
    def change(model):
        for name in named(model, pattern):
            del model.tensors[name]
    return change


def with_tensor(pattern, make):
    """Replaces the values of the tensors with that name."""
    def change(model):
        for name in named(model, pattern):
            model.tensors[name] = np.ascontiguousarray(make(model.tensors[name]))
    return change


def unpaired(rows):
    """The rows of mixtral_b's queries in the checkpoint's order: six heads whose halves are rotated."""
    return rows.reshape(6, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def with_biases(stem):
    """Adds a bias that the file does not have."""
    def change(model):
        for name in named(model, f"{stem}.weight"):
            rows = len(model.tensors[name])
            model.tensors[name.replace(".weight", ".bias")] = np.linspace(-1, 1, rows, dtype=np.float32)
    return change


def with_copied_experts(count):
    """Duplicates experts up to `count`; the results are unchanged."""
    def change(model):
        model.keys[f"{model.arch}.expert_count"] = count
        for pattern in ("ffn_gate_inp.weight", "ffn_*_exps.weight"):
            for name in named(model, pattern):
                values = model.tensors[name]
                model.tensors[name] = np.resize(values, (count, *values.shape[1:]))
    return change


FAULTS = {
    # Keys whose absence is meaningful.
    "no gating function": Fault("deepseek_v3_a", without_key("expert_gating_func"), SILENT),
    "no gating function, minimax": Fault("minimax_m2_a", without_key("expert_gating_func"), ABORTED),
    "no groups": Fault("glm4_moe_a", without_key("expert_group_count"), SILENT),
    "no scale of weights": Fault("deepseek_v3_a", without_key("expert_weights_scale"), SILENT),
    "no normalised weights": Fault("deepseek_v3_a", without_key("expert_weights_norm"), SILENT),
    "no multiplier of yarn": Fault("deepseek_v3_a", without_key("rope.scaling.yarn_log_multiplier"), SILENT),
    "no scaling of rotations": Fault("qwen3_moe_a", without_key("rope.scaling.type"), SILENT),
    "no base of rotations": Fault("hunyuan_v1_moe_a", without_key("rope.freq_base"), SILENT),
    "no rotated width": Fault("glm4_moe_a", without_key("rope.dimension_count"), SILENT),
    "no embedding scale": Fault("granitemoe_a", without_key("embedding_scale"), SILENT),
    "no residual scale": Fault("granitemoe_a", without_key("residual_scale"), SILENT),
    "no attention scale": Fault("granitemoe_a", without_key("attention.scale"), SILENT),
    # Required keys.
    "no expert count": Fault("qwen3_moe_a", without_key("expert_count"), ABORTED),
    "no used count": Fault("qwen3_moe_a", without_key("expert_used_count"), ABORTED),
    "no logit scale": Fault("granitemoe_a", without_key("logit_scale"), REFUSED),
    "no width of experts": Fault("qwen3_moe_a", without_key("expert_feed_forward_length"), REFUSED),
    "no dense layers": Fault("glm4_moe_a", without_key("leading_dense_block_count"), REFUSED),
    "no window": Fault("gpt_oss_a", without_key("attention.sliding_window"), REFUSED),
    "no key heads": Fault("mixtral_b", without_key("attention.head_count_kv"), REFUSED),
    # Values and types.
    "more used than there are": Fault("qwen3_moe_a", with_key("expert_used_count", 7), ABORTED),
    "used counts of layers": Fault("qwen3_moe_a", with_key("expert_used_count", [2, 1]), SILENT),
    "count as u64": Fault("qwen3_moe_a", with_key("block_count", 2, KIND.UINT64), REFUSED),
    "count as i32": Fault("qwen3_moe_a", with_key("expert_count", 6, KIND.INT32), REFUSED),
    "base as f64": Fault("qwen3_moe_a", with_key("rope.freq_base", 5e5, KIND.FLOAT64), REFUSED),
    "flag as u32": Fault("deepseek_v3_a", with_key("expert_weights_norm", 1, KIND.UINT32), REFUSED),
    # Tensors.
    "no gates, llama": Fault("mixtral_b", without_tensor("ffn_gate_exps.weight"), SILENT),
    "no gates, granite": Fault("granitemoe_a", without_tensor("ffn_gate_exps.weight"), SILENT),
    "no gates, ernie": Fault("ernie4_5_moe_a", without_tensor("ffn_gate_exps.weight"), SILENT),
    "no gates, qwen3": Fault("qwen3_moe_a", without_tensor("ffn_gate_exps.weight"), REFUSED),
    "no correction, deepseek": Fault("deepseek_v3_a", without_tensor("exp_probs_b.bias"), SILENT),
    "no correction, ernie": Fault("ernie4_5_moe_a", without_tensor("exp_probs_b.bias"), SILENT),
    "no correction, glm": Fault("glm4_moe_a", without_tensor("exp_probs_b.bias"), REFUSED),
    "no correction, minimax": Fault("minimax_m2_a", without_tensor("exp_probs_b.bias"), REFUSED),
    "no bias of queries": Fault("qwen2_moe_a", without_tensor("attn_q.bias"), SILENT),
    "no norm of queries": Fault("glm4_moe_a", without_tensor("attn_q_norm.weight"), SILENT),
    "no sinks": Fault("gpt_oss_a", without_tensor("attn_sinks.weight"), REFUSED),
    "fewer routed": Fault("qwen3_moe_a", with_tensor("ffn_gate_inp.weight", lambda rows: rows[:-1]), REFUSED),
    "fewer experts": Fault("qwen3_moe_a", with_tensor("ffn_up_exps.weight", lambda rows: rows[:-1]), REFUSED),
    "norm in f16": Fault("qwen3_moe_a", with_tensor("attn_norm.weight", np.float16), ABORTED),
    "unknown bias": Fault("qwen3_moe_a", with_biases("attn_output"), REFUSED),
    # llama.cpp omits the norm of queries and keys if there are 128 experts.
    "128 experts": Fault("llama4_text_a", with_copied_experts(128), SILENT),
    "halves not paired": Fault("mixtral_b", with_tensor("attn_q.weight", unpaired), SILENT),
}


# The code that moec reports for each fault: an error, or a warning if the file may be intended.
MISSING, TYPE, TENSOR = "gguf.missing_key", "gguf.key_type", "gguf.tensor_missing"
CODES = {
    "no gating function": "gguf.family", "no gating function, minimax": MISSING, "no groups": "model.groups",
    "no scale of weights": "gguf.absent", "no normalised weights": "gguf.absent", "no rotated width": MISSING,
    "no embedding scale": MISSING, "no residual scale": MISSING, "no attention scale": MISSING,
    "no expert count": MISSING, "no used count": MISSING, "no logit scale": MISSING, "no width of experts": MISSING,
    "no dense layers": MISSING, "no window": MISSING, "no key heads": "gguf.tensor_dims",
    "more used than there are": "model.top_k", "used counts of layers": TYPE, "count as u64": TYPE,
    "count as i32": TYPE, "base as f64": TYPE, "flag as u32": TYPE, "no gates, llama": TENSOR, "no gates, granite": TENSOR,
    "no gates, ernie": TENSOR, "no gates, qwen3": TENSOR, "no correction, deepseek": TENSOR,
    "no correction, ernie": "gguf.absent", "no correction, glm": TENSOR, "no correction, minimax": TENSOR,
    "no bias of queries": "gguf.tensor_unused", "no norm of queries": "gguf.tensor_unused", "no sinks": TENSOR,
    "fewer routed": "gguf.tensor_dims",
    "fewer experts": "gguf.tensor_dims", "unknown bias": "gguf.conflict",
}
# Faulty files that no reader can distinguish from an intended model.
MEANT = {"no multiplier of yarn", "no scaling of rotations", "no base of rotations", "norm in f16",
         "128 experts", "halves not paired"}


def broken(fault, model):
    """Returns a copy of the Model with the fault."""
    copy = Model(model.arch, dict(model.keys), dict(model.tensors))
    fault.change(copy)
    return copy

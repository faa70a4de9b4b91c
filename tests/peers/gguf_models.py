"""Writes a checkpoint folder as the GGUF file that llama.cpp runs, with the `gguf` package and without moec.

    write_gguf(REPO / "models/tinymoe", path)
    write_gguf(REPO / "tests/golden/mixtral_b", path, "Q8_0", parts=3)

gguf_families.py defines the keys and the limits of each family; this file defines the tensors.
"""

import dataclasses
import json
import re
from types import SimpleNamespace

import gguf
import gguf.quants
import numpy as np

from gguf_families import FAMILIES, keys_of, llama3_divisors
from gguf_layer_families import gemma4_divisors
from goldens import REPO
from safetensors_files import read_checkpoint

DEFAULTS = json.loads((REPO / "models/families/class_defaults.json").read_text())["families"]
KINDS = {bool: gguf.GGUFValueType.BOOL, int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32,
         str: gguf.GGUFValueType.STRING, list: gguf.GGUFValueType.ARRAY}
NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight", "model.embeddings.weight": "token_embd.weight",
         "model.norm_f.weight": "output_norm.weight", "model.embedding_norm.weight": "token_embd_norm.weight"}
# Prefixes of the language model in larger models, and in Nemotron-H.
PREFIXES = re.compile(r"(model\.language_model|language_model\.model|backbone)\.")
OTHER_PARTS = ("model.visual.", "model.embed_vision.", "model.vision_tower.", "mm_projector.", "vision_tower.",
               "multi_modal_projector.", "model.multi_modal_projector.")  # of larger models
# Stems of the names of a layer's tensors. The block of experts is called "ffn." here, whatever its name in the family.
STEMS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.query_layernorm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.key_layernorm": "attn_k_norm",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "ffn.gate_proj": "ffn_gate", "ffn.up_proj": "ffn_up", "ffn.down_proj": "ffn_down",
    "ffn.gate": "ffn_gate_inp", "ffn.gate.wg": "ffn_gate_inp", "ffn.router": "ffn_gate_inp",
    "ffn.router.layer": "ffn_gate_inp", "ffn.router.gate": "ffn_gate_inp", "ffn.output_linear": "ffn_down_exps",
    "shared.gate_proj": "ffn_gate_shexp", "shared.up_proj": "ffn_up_shexp", "shared.down_proj": "ffn_down_shexp",
    "shared.output_linear": "ffn_down_shexp",
    "pre_mlp_layernorm": "ffn_norm", "post_mlp_layernorm": "post_ffw_norm", "self_attn.gate_proj": "attn_gate",
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
    "ffn.w1": "ffn_gate", "ffn.w3": "ffn_up", "ffn.w2": "ffn_down",
    "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
}
EXPERT = re.compile(r"(.*)\.experts\.(\d+)\.(\w+)\.weight")
EXPERT_PARTS = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


@dataclasses.dataclass
class Model:
    """The content of a GGUF file: keys with their values, and tensors in f32 with the outermost axis first."""

    arch: str
    keys: dict
    tensors: dict


def resolved(config):
    """Returns a config.json with the defaults of its class as a namespace; `rope` contains the rope_parameters."""
    values, table = dict(config), DEFAULTS.get(config["model_type"], {"keys": {}, "rope": None})
    for key, entry in table["keys"].items():
        if "alias_of" in entry and key in values:
            values.setdefault(entry["alias_of"], values.pop(key))
    for key, entry in table["keys"].items():
        if "default" in entry:
            values.setdefault(key, entry["default"])
    if "rope_parameters" not in values:
        older = {"rope_theta", "rope_scaling"} & values.keys()
        rotates = config["model_type"] in FAMILIES and FAMILIES[config["model_type"]].rotates(SimpleNamespace(**values))
        assert not older or not rotates, "older keys of rotations"
        cases = (table["rope"] or {}).get("cases")
        values["rope_parameters"] = cases[0]["rope_parameters"] if cases else None
    return SimpleNamespace(**values, rope=values["rope_parameters"])


def stacked(tensors):
    """Fuses the separate matrices of experts into one tensor per kind, [E, out, in]."""
    out, experts = {}, {}
    for name, values in tensors.items():
        match = EXPERT.fullmatch(name)
        if match:
            experts.setdefault(f"{match[1]}.experts.{EXPERT_PARTS[match[3]]}", {})[int(match[2])] = values
        else:
            out[name] = values
    return out | {name: np.stack([parts[e] for e in range(len(parts))]) for name, parts in experts.items()}


def gate_and_up(values, fused):
    """Splits a fused matrix into two matrices [..., out, in]."""
    if fused == "rows":
        return np.split(values, 2, axis=-2)
    pair = np.split(values, 2, axis=-1) if fused == "columns" else (values[..., ::2], values[..., 1::2])
    return [half.swapaxes(-1, -2) for half in pair]


def expert_tensors(stem, values, fused):
    """Maps a tensor of all experts; returns None for other tensors."""
    if stem in ("ffn.experts.gate", "ffn.experts.up", "ffn.experts.down"):
        return {f"ffn_{stem.split('.')[-1]}_exps.weight": values}
    if stem in ("ffn.experts.gate_up_proj", "ffn.input_linear.weight"):
        gate, up = gate_and_up(values, fused)
        return {"ffn_gate_exps.weight": gate, "ffn_up_exps.weight": up}
    if stem == "ffn.experts.gate_up_proj_bias":
        return {"ffn_gate_exps.bias": values[..., ::2], "ffn_up_exps.bias": values[..., 1::2]}
    if stem == "ffn.experts.down_proj":
        return {"ffn_down_exps.weight": values if fused == "rows" else values.swapaxes(-1, -2)}
    if stem == "ffn.experts.down_proj_bias":
        return {"ffn_down_exps.bias": values}
    return None


def paired_rows(values, heads):
    """Reorders the rows [2, h/2] of each head to [h/2, 2], so that halves that are rotated become consecutive
    pairs."""
    if values.shape[0] % (2 * heads):
        return values  # heads with an odd number of dims do not rotate
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def split_latent(values, c):
    """Splits kv_b of latent attention into the keys' part, transposed to [H, rank, nope], and the values' part [H,
    v, rank]."""
    heads = values.reshape(c.num_attention_heads, -1, c.kv_lora_rank)
    keys, rest = np.split(heads, [c.qk_nope_head_dim], axis=1)
    return {"attn_k_b.weight": keys.swapaxes(1, 2), "attn_v_b.weight": rest}


def special_tensors(name, values, c):
    """Maps tensors whose GGUF name depends on more than their stem; returns None for other tensors."""
    if name.endswith(("e_score_correction_bias", "ffn.expert_bias")):
        return {FAMILIES[c.model_type].choice_bias: values.reshape(-1)}
    if name == "ffn.shared_expert_gate.weight":
        return {"ffn_gate_inp_shexp.weight": values.reshape(-1)}
    if name == "shared.input_linear.weight":
        gate, up = np.split(values, 2)
        return {"ffn_gate_shexp.weight": gate, "ffn_up_shexp.weight": up}
    if name == "self_attn.kv_b_proj.weight":
        return split_latent(values, c)
    if name in ("self_attn.sinks", "self_attn.attention_sink_bias"):
        return {"attn_sinks.weight": values}
    if name == "conv.conv.weight":
        return {"shortconv.conv.weight": values.reshape(values.shape[0], -1)}
    return None


def layer_tensors(name, values, c):
    """The tensors of a GGUF layer, by name without "blk.N.", that correspond to one tensor of a checkpoint's layer."""
    family = FAMILIES[c.model_type]
    name = re.sub(r"^(mlp|block_sparse_moe|feed_forward)\.", "ffn.", name)
    name = re.sub(r"^(ffn\.)?shared_(experts?|mlp)\.", "shared.", name)
    known = (family.form(name, values, c) or expert_tensors(name, values, family.fused)
             or special_tensors(name, values, c))
    if known:
        return known
    stem, kind = name.rsplit(".", 1)
    if family.paired and stem in ("self_attn.q_proj", "self_attn.k_proj"):
        keys = getattr(c, "num_key_value_heads", None) or c.num_attention_heads
        values = paired_rows(values, c.num_attention_heads if stem == "self_attn.q_proj" else keys)
    found = family.post_norm if stem == "post_attention_layernorm" else STEMS[stem]
    return {f"{found}.{kind}": values}


def tensors_of(c, checkpoint):
    """Returns all tensors by GGUF name. An unknown tensor raises KeyError."""
    out, family = {}, FAMILIES[c.model_type]
    for name, values in stacked(checkpoint).items():
        if name.startswith(OTHER_PARTS):
            continue
        name = PREFIXES.sub("model.", name).replace("language_model.lm_head", "lm_head")
        match = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", name)
        if match:
            out |= {f"blk.{match[1]}.{own}": part for own, part in layer_tensors(match[2], values, c).items()}
        else:
            found = NAMES[name]
            out[found] = values + 1 if found == "output_norm.weight" and family.norms_plus_one else values
    if FAMILIES[c.model_type].needs_head:
        out.setdefault("output.weight", out["token_embd.weight"])
    if c.rope and c.rope.get("rope_type") == "llama3":
        out["rope_freqs.weight"] = np.array(llama3_divisors(c))
    if c.model_type == "gemma4_text":
        out["rope_freqs.weight"] = np.array(gemma4_divisors(c))
    return {name: np.ascontiguousarray(values, np.float32) for name, values in out.items()}


def read_model(folder):
    """Returns the Model of a checkpoint folder. Raises NotRepresentable if llama.cpp cannot represent the
    checkpoint."""
    config = json.loads((folder / "config.json").read_text())
    c = resolved(config.get("text_config", config))
    keys = keys_of(c)
    arch = FAMILIES[c.model_type].arch
    keys = {f"{arch}.{name}": value for name, value in keys.items()} | {"tokenizer.ggml.model": "none"}
    return Model(arch, keys, tensors_of(c, read_checkpoint(folder)))


def stored_type(name, values, tensor_type):
    """The type of a tensor in a file of type `tensor_type`: matrices have that type if their rows consist of whole
    blocks; norms, biases and routers are f32."""
    if values.dtype == np.float16:
        return gguf.GGMLQuantizationType.F16
    block = gguf.GGML_QUANT_SIZES[tensor_type][0]
    matrix = values.ndim > 1 and name.endswith(".weight") and "ffn_gate_inp" not in name
    return tensor_type if matrix and values.shape[-1] % block == 0 else gguf.GGMLQuantizationType.F32


def write_model(model, path, tensor_type="F32", parts=1):
    """Writes a Model and returns its files: `path`, or PATH-00001-of-0000N.gguf, … if there are several parts."""
    per_part = -(-len(model.tensors) // parts)
    writer = gguf.GGUFWriter(path, model.arch, split_max_tensors=per_part if parts > 1 else 0)
    for key, value in model.keys.items():
        kind, value = value if isinstance(value, tuple) else (KINDS[type(value)], value)
        writer.add_key_value(key, value, kind)
    for name, values in model.tensors.items():
        kind = stored_type(name, values, gguf.GGMLQuantizationType[tensor_type])
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files = sorted(path.parent.glob(f"{path.stem}-*-of-{parts:05}.gguf")) if parts > 1 else [path]
    assert len(files) == parts
    return files


def write_gguf(folder, path, tensor_type="F32", parts=1):
    """Writes a checkpoint folder and returns the files. llama.cpp opens the first one."""
    return write_model(read_model(folder), path, tensor_type, parts)

"""Changes of checkpoints that make them representable in GGUF files, next to changed config values: other numbers of
heads, and other orders and kinds of layers. The models differ from those of the goldens; the tests compare moec with
llama.cpp on them.

A change maps the tensors of a checkpoint by name to those of the variant.
"""

import re

import numpy as np

LAYER = re.compile(r"(model\.(?:language_model\.)?|backbone\.)layers\.(\d+)\.(.*)")


def feed_forward_of(donors):
    """Layers have the experts or the dense layer of other layers: {layer: donor}."""

    def change(tensors):
        out = {}
        for name, values in tensors.items():
            match = LAYER.fullmatch(name)
            if not match or not match[3].startswith(("mlp.", "feed_forward.")):
                out[name] = values
                continue
            out |= {f"{match[1]}layers.{layer}.{match[3]}": values
                    for layer in layers_of(tensors) if donors.get(layer, layer) == int(match[2])}
        return out

    return change


def layers_of(tensors):
    return sorted({int(match[2]) for name in tensors if (match := LAYER.fullmatch(name))})


def without_layer(removed):
    """The layers after it move up."""

    def change(tensors):
        out = {}
        for name, values in tensors.items():
            match = LAYER.fullmatch(name)
            layer = int(match[2]) if match else -1
            if layer == removed:
                continue
            out[f"{match[1]}layers.{layer - (layer > removed)}.{match[3]}" if match else name] = values
        return out

    return change


def repeated_heads(heads, dims):
    """Each query head has its own copy of the keys and values that it shares with others."""

    def change(tensors):
        def of(name, values):
            if not name.endswith(("k_proj.weight", "v_proj.weight")):
                return values
            grouped = values.reshape(-1, dims, values.shape[1])
            return np.repeat(grouped, heads // len(grouped), axis=0).reshape(heads * dims, -1)

        return {name: of(name, values) for name, values in tensors.items()}

    return change


def cut(values, axis, sizes, kept):
    """Keeps the first `kept[i]` elements of each part; the axis repeats the parts of `sizes`."""
    period = sum(sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    chosen = [start + i for start, count in zip(starts, kept) for i in range(count)]
    repeats = values.shape[axis] // period
    return np.take(values, [period * r + i for r in range(repeats) for i in chosen], axis=axis)


def narrower_keys(keys, values, key_dims, value_dims, kept):
    """Keys of qwen3_next's gated delta nets have `kept` dims: as many as its values."""
    shared = values // keys * value_dims

    def change(tensors):
        def of(name, tensor):
            if name.endswith("in_proj_qkvz.weight"):
                return cut(tensor, 0, [key_dims, key_dims, 2 * shared], [kept, kept, 2 * shared])
            if name.endswith("linear_attn.conv1d.weight"):
                of_keys, rest = np.split(tensor, [2 * keys * key_dims])
                return np.concatenate([cut(of_keys, 0, [key_dims], [kept]), rest])
            return tensor

        return {name: of(name, tensor) for name, tensor in tensors.items()}

    return change


def narrower_values(keys, key_dims, value_dims, kept):
    """Values of qwen3_5_moe's gated delta nets have `kept` dims: as many as its keys."""

    def change(tensors):
        def of(name, tensor):
            if name.endswith(("in_proj_qkv.weight", "linear_attn.conv1d.weight")):
                of_keys, rest = np.split(tensor, [2 * keys * key_dims])
                return np.concatenate([of_keys, cut(rest, 0, [value_dims], [kept])])
            if name.endswith(("in_proj_z.weight", "linear_attn.norm.weight")):
                return cut(tensor, 0, [value_dims], [kept])
            return cut(tensor, 1, [value_dims], [kept]) if name.endswith("linear_attn.out_proj.weight") else tensor

        return {name: of(name, tensor) for name, tensor in tensors.items()}

    return change


def fewer_latent_heads(heads, kept):
    """The layers with latent attention have `kept` heads."""

    def change(tensors):
        latent = {LAYER.fullmatch(name)[2] for name in tensors if name.endswith("kv_a_proj_with_mqa.weight")}

        def of(name, tensor):
            match = LAYER.fullmatch(name)
            if not match or match[2] not in latent:
                return tensor
            axis = {"self_attn.q_proj.weight": 0, "self_attn.kv_b_proj.weight": 0, "self_attn.o_proj.weight": 1}.get(match[3])
            return tensor if axis is None else np.take(tensor, range(tensor.shape[axis] // heads * kept), axis=axis)

        return {name: of(name, tensor) for name, tensor in tensors.items()}

    return change


CHANGES = {
    "dots1_b": repeated_heads(5, 8),
    "exaone_moe_b": feed_forward_of({0: 1, 1: 0}),
    "glm4_moe_lite_a": feed_forward_of({0: 1, 1: 0}),
    "mellum_a": feed_forward_of({1: 0}),
    "qwen3_vl_moe_a": feed_forward_of({1: 0}),
    "qwen3_next_a": narrower_keys(2, 4, 14, 10, 10),
    "qwen3_5_moe_a": narrower_values(2, 10, 12, 10),
    "nemotron_h_a": without_layer(3),
    "nemotron_h_c": without_layer(4),
    "kimi_linear_a": fewer_latent_heads(4, 3),
}

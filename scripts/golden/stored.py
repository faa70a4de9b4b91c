"""Quantizes the matrices of a checkpoint that transformers wrote, in the formats of releases.

The reference reads these files with transformers' decoders, so quantization causes no error in goldens. Codes are
chosen so that decoding rounds at most once, to f32.
"""

import json
import re

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file

FP4_MAGNITUDES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
FP4_BLOCK = 32
E4M3_LARGEST = 448.0
INT4_PER_WORD = 8
INT4_FACTOR_BITS = 5  # makes products with a signed integer of three bits exact in bf16


def in_blocks(matrix, block):
    """Converts [R,C] to [block rows, rows per block, block columns, columns per block], padded with zeros."""
    rows, columns = (-size % of for size, of in zip(matrix.shape, block))
    padded = F.pad(matrix, (0, columns, 0, rows))
    return padded.unflatten(1, (-1, block[1])).unflatten(0, (-1, block[0]))


def code_mxfp4(name, tensor, _quantization):
    """Quantizes experts' [E,in,out] to blocks U8 [E,out,in/32,16], even columns in the low four bits, and scales U8
    [E,out,in/32]: the exponent, with a bias of 127, that scales the largest element of a block to between 4 and 8."""
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        return None
    values = tensor.float().transpose(1, 2).unflatten(-1, (-1, FP4_BLOCK))
    exponents = torch.frexp(values.abs().amax(-1)).exponent - 3
    scaled = torch.ldexp(values, -exponents[..., None])
    between = (FP4_MAGNITUDES[1:] + FP4_MAGNITUDES[:-1]) / 2
    codes = (torch.bucketize(scaled.abs().contiguous(), between) + 8 * scaled.signbit()).to(torch.uint8)
    return {name + "_blocks": codes[..., 0::2] | codes[..., 1::2] << 4,
            name + "_scales": (exponents + 127).to(torch.uint8)}


def code_fp8(name, tensor, quantization):
    """Quantizes the linear maps of attention and feed-forward blocks, except routers, to e4m3 [R,C] with one factor F32 per
    block."""
    if not re.search(r"\.(self_attn|mlp)\..*(_proj|_with_mqa)\.weight$", name):
        return None
    block = quantization["weight_block_size"]
    for size, of in zip(tensor.shape, block):
        # transformers 5.23 uses size / number of factors as block size and ignores weight_block_size
        assert size % of == 0 or size < of, f"{name}: a partial block after a whole one"
    blocks = in_blocks(tensor.float(), block)
    factors = blocks.abs().amax((1, 3)) / E4M3_LARGEST
    codes = (blocks / factors[:, None, :, None]).to(torch.float8_e4m3fn)
    codes = codes.flatten(2).flatten(0, 1)[:tensor.shape[0], :tensor.shape[1]]
    return {name: codes.contiguous(), name + "_scale_inv": factors}


def short_mantissas(values, bits):
    """Rounds values up to `bits` significant bits."""
    mantissas, exponents = torch.frexp(values)
    return torch.ldexp((mantissas * 2**bits).ceil(), exponents - bits)


def code_int4(name, tensor, quantization):
    """Quantizes the routed experts' maps to integers plus 8, eight per I32 [R,C/8], low bits first, with one factor BF16 per
    group of columns."""
    if ".mlp.experts." not in name:
        return None
    group = quantization["config_groups"]["group_0"]["weights"]["group_size"]
    groups = in_blocks(tensor.float(), (1, group))
    factors = short_mantissas(groups.abs().amax((1, 3)) / 7, INT4_FACTOR_BITS)
    integers = (groups / factors[:, None, :, None]).round().clamp(-8, 7).flatten(1)[:, :tensor.shape[1]]
    codes = (integers.to(torch.int64) + 8).unflatten(1, (-1, INT4_PER_WORD))
    words = (codes << 4 * torch.arange(INT4_PER_WORD)).sum(-1)
    stem = name.removesuffix("weight")
    return {stem + "weight_packed": words.to(torch.int32),
            stem + "weight_scale": factors.to(torch.bfloat16),
            stem + "weight_shape": torch.tensor(tensor.shape)}


CODERS = {"mxfp4": code_mxfp4, "fp8": code_fp8, "compressed-tensors": code_int4}


def edit_config(folder, **members):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | members
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def rewrite(folder, change):
    """Replaces the tensors of the only weight file by change(tensors). Both map names to tensors."""
    path = folder / "model.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    save_file(change(tensors), path, metadata={"format": "pt"})


def store_quantised(folder, quantization):
    """Writes `quantization` into the config, and the matrices quantized by its method into the weight file."""
    coder = CODERS[quantization["quant_method"]]

    def code(tensors):
        coded = {name: coder(name, tensor, quantization) or {name: tensor} for name, tensor in tensors.items()}
        assert any(len(parts) > 1 for parts in coded.values()), "nothing to quantize"
        return {name: part for parts in coded.values() for name, part in parts.items()}

    rewrite(folder, code)
    edit_config(folder, quantization_config=quantization)


def hide_last_layer(folder, layers):
    """Declares that the last of `layers` layers predicts an additional token. As in the releases, that layer gets
    copies of embedding and head, norms of its inputs, and a map from two hidden states to one."""
    prefix = f"model.layers.{layers - 1}."

    def add_parts(tensors):
        norm, embedding = tensors["model.norm.weight"], tensors["model.embed_tokens.weight"]
        square = embedding[:len(norm)]
        parts = {"embed_tokens": embedding, "shared_head.head": embedding, "enorm": norm, "hnorm": norm,
                 "shared_head.norm": norm, "eh_proj": torch.cat([square, square], dim=1)}
        return tensors | {f"{prefix}{part}.weight": tensor.clone() for part, tensor in parts.items()}

    rewrite(folder, add_parts)
    edit_config(folder, num_hidden_layers=layers - 1, num_nextn_predict_layers=1)

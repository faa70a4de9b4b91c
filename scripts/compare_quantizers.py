#!/usr/bin/env python3
"""Compares moec's values of quantized checkpoints with those of the quantizers' packages, bit for bit.

    pip install --no-deps compressed-tensors==0.20.1 autoawq==0.2.9 bitsandbytes==0.50.2
    pip install 'mlx[cpu]==0.32.4'
    scripts/compare_quantizers.py --moec build/release/frontends/moec --out /tmp/quantizers

A checkpoint has random weights in the format of the package, in experts and attention (MLX: in all matrices); a second
one has the values that the package decodes from it, in F32. Both are exported with `--dtype f32`, and their weights must
be equal. AutoAWQ also converts its matrices to those of GPTQ. bitsandbytes decodes with its kernel in torch. Its AVX-512
kernel uses wrong factors for some shapes in which blocks cross rows, so the two are compared only for other shapes. Prints a line per format and exits with 1 if any differs.
Packages: torch, onnx, safetensors and those above; the tests do not need them.
"""

import argparse
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import bitsandbytes.functional as bnb
import mlx.core as mx
import numpy as np
import onnx
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute as dequantize_tables
from compressed_tensors.compressors import pack_to_int32, unpack_fp4_from_uint8, unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize
from onnx import numpy_helper
from safetensors.torch import save_file

HIDDEN, FF, EXPERTS, LAYERS, VOCAB, HEADS, HEAD_DIM = 64, 160, 6, 2, 96, 4, 16
GROUP = 32
ATTENTION = {"q": (HEADS * HEAD_DIM, HIDDEN), "k": (2 * HEAD_DIM, HIDDEN), "v": (2 * HEAD_DIM, HIDDEN),
             "o": (HIDDEN, HEADS * HEAD_DIM)}  # fmt: skip
CONFIG = {
    "model_type": "qwen3_moe", "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": 2, "head_dim": HEAD_DIM, "moe_intermediate_size": FF,
    "num_experts": EXPERTS, "num_experts_per_tok": 2, "norm_topk_prob": True, "intermediate_size": FF,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 128, "tie_word_embeddings": False,
}  # fmt: skip


def plain_tensors(chance):
    def normal(*shape):
        return torch.from_numpy(chance.normal(0, 0.05, shape).astype(np.float32))

    tensors = {"model.embed_tokens.weight": normal(VOCAB, HIDDEN), "lm_head.weight": normal(VOCAB, HIDDEN),
               "model.norm.weight": normal(HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, shape in (("input_layernorm", (HIDDEN,)), ("post_attention_layernorm", (HIDDEN,)),
                            ("self_attn.q_norm", (HEAD_DIM,)), ("self_attn.k_norm", (HEAD_DIM,)),
                            ("mlp.gate", (EXPERTS, HIDDEN))):
            tensors[f"{at}{name}.weight"] = normal(*shape)
    return tensors


def coded_shapes(everything):
    """The matrices that a quantizer codes, or all of the model, with their shapes."""
    if everything:
        yield from (("model.embed_tokens", (VOCAB, HIDDEN)), ("lm_head", (VOCAB, HIDDEN)))
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        if everything:
            yield f"{at}mlp.gate", (EXPERTS, HIDDEN)
        for part, shape in ATTENTION.items():
            yield f"{at}self_attn.{part}_proj", shape
        for expert in range(EXPERTS):
            for part, shape in (("gate", (FF, HIDDEN)), ("up", (FF, HIDDEN)), ("down", (HIDDEN, FF))):
                yield f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj", shape


# ---- Formats: each returns the parts of a matrix [out, in], by suffix, and its values ----------------------------------


def scales(chance, *shape):
    return torch.from_numpy((chance.integers(1, 99, shape) / 4000).astype(np.float32))


def packed_integers(bits, symmetric):
    def code(chance, out, columns):
        low, groups = 1 << (bits - 1), columns // GROUP
        integers = torch.from_numpy(chance.integers(-low, low, (out, columns), np.int8))
        zeros = torch.from_numpy(chance.integers(-low, low, (out, groups), np.int8))
        factors = scales(chance, out, groups)
        args = QuantizationArgs(num_bits=bits, strategy="group", group_size=GROUP, symmetric=symmetric)
        parts = {"weight_packed": pack_to_int32(integers, bits), "weight_scale": factors}
        assert torch.equal(unpack_from_int32(parts["weight_packed"], bits, integers.shape), integers)
        if not symmetric:
            parts["weight_zero_point"] = pack_to_int32(zeros, bits, packed_dim=0).contiguous()
        return parts, dequantize(integers, factors, None if symmetric else zeros, args, dtype=torch.float32)

    weights = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": GROUP, "symmetric": symmetric}
    return compressed("pack-quantized", weights), code


def compressed(format, weights):
    return {"quant_method": "compressed-tensors", "format": format, "config_groups": {"group_0": {"weights": weights}}}


def fp8(strategy):
    def code(chance, out, columns):
        numbers = torch.from_numpy(chance.normal(0, 40, (out, columns)).astype(np.float32)).to(torch.float8_e4m3fn)
        factors = scales(chance, *((out, 1) if strategy == "channel" else (1,)))
        args = QuantizationArgs(num_bits=8, type="float", strategy=strategy, symmetric=True)
        return ({"weight": numbers, "weight_scale": factors},
                dequantize(numbers, factors, None, args, dtype=torch.float32))

    return compressed("float-quantized", {"num_bits": 8, "type": "float", "strategy": strategy}), code


def nvfp4():
    def code(chance, out, columns):
        packed = torch.from_numpy(chance.integers(0, 256, (out, columns // 2), np.uint8))
        factors = torch.from_numpy(chance.uniform(1, 400, (out, columns // 16)).astype(np.float32))
        factors = factors.to(torch.float8_e4m3fn)
        whole = torch.tensor([float(chance.uniform(3000, 9000))])
        args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
        values = dequantize(unpack_fp4_from_uint8(packed, out, columns, dtype=torch.float32), factors.to(torch.float32),
                            None, args, global_scale=whole, dtype=torch.float32)
        return {"weight_packed": packed, "weight_scale": factors, "weight_global_scale": whole}, values

    weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    return compressed("nvfp4-pack-quantized", weights), code


def mlx(bits):
    def code(chance, out, columns):
        matrix = mx.array(chance.normal(0, 0.05, (out, columns)).astype(np.float32))
        words, factors, addends = mx.quantize(matrix, group_size=GROUP, bits=bits)
        values = mx.dequantize(words, factors, addends, group_size=GROUP, bits=bits)
        return ({"weight": torch.from_numpy(np.array(words)), "scales": torch.from_numpy(np.array(factors)),
                 "biases": torch.from_numpy(np.array(addends))}, torch.from_numpy(np.array(values)))

    return {"group_size": GROUP, "bits": bits, "mode": "affine"}, code


def load_awq():
    """AutoAWQ's functions for packing; its package imports more than they need."""
    root = Path(importlib.util.find_spec("awq").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("packing_utils", root / "utils/packing_utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def awq(as_gptq):
    packing = load_awq()

    def code(chance, out, columns):
        def words(*shape):
            return torch.from_numpy(chance.integers(-(1 << 31), 1 << 31, shape).astype(np.int32))

        parts = {"qweight": words(columns, out // 8), "qzeros": words(columns // GROUP, out // 8),
                 "scales": scales(chance, columns // GROUP, out)}
        if as_gptq:
            # A zero of 0 cannot be stored as zero - 1.
            parts["qzeros"] |= 0x11111111
        values = packing.dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"], 4, GROUP).T.contiguous()
        if as_gptq:
            parts["qweight"], parts["qzeros"] = packing.unpack_reorder_pack(parts["qweight"], parts["qzeros"], 4)
            parts["g_idx"] = torch.arange(columns, dtype=torch.int32) // GROUP
        return parts, values

    if as_gptq:
        return {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False}, code
    return {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}, code


def bitsandbytes(kind, nested, block):
    def code(chance, out, columns):
        matrix = torch.from_numpy(chance.normal(0, 0.05, (out, columns)).astype(np.float32))
        codes, state = bnb.quantize_4bit(matrix, blocksize=block, compress_statistics=nested, quant_type=kind)
        factors = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset if nested else state.absmax
        values = dequantize_tables(codes.reshape(-1), factors, state.code, block, matrix.shape, torch.float32)
        assert columns % block or torch.equal(values, bnb.dequantize_4bit(codes, state))
        return {"weight": codes} | {f"weight.{name}": part for name, part in state.as_dict(packed=True).items()}, values

    return {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind,
            "bnb_4bit_use_double_quant": nested}, code  # fmt: skip


def int8_rows():
    def code(chance, out, columns):
        matrix = torch.from_numpy(chance.normal(0, 0.05, (out, columns)).astype(np.float16))
        codes, factors, _ = bnb.int8_vectorwise_quant(matrix)
        parts = {"weight": codes, "SCB": factors, "weight_format": torch.tensor(0, dtype=torch.uint8)}
        return parts, bnb.int8_vectorwise_dequant(codes, factors)

    return {"quant_method": "bitsandbytes", "load_in_8bit": True}, code


FORMATS = {
    "compressed-tensors int4": packed_integers(4, True),
    "compressed-tensors int4, zeros": packed_integers(4, False),
    "compressed-tensors int8": packed_integers(8, True),
    "compressed-tensors fp8, rows": fp8("channel"),
    "compressed-tensors fp8, matrix": fp8("tensor"),
    "compressed-tensors nvfp4": nvfp4(),
    "AutoAWQ": awq(False),
    "GPTQ (converted by AutoAWQ)": awq(True),
    "bitsandbytes NF4": bitsandbytes("nf4", False, 64),
    "bitsandbytes NF4, nested": bitsandbytes("nf4", True, 32),
    "bitsandbytes NF4, nested, partial blocks": bitsandbytes("nf4", True, 4096),
    "bitsandbytes FP4": bitsandbytes("fp4", False, 32),
    "bitsandbytes FP4, nested": bitsandbytes("fp4", True, 64),
    "bitsandbytes LLM.int8": int8_rows(),
    **{f"MLX {bits} bits": mlx(bits) for bits in (2, 3, 4, 5, 6, 8)},
}


def write_checkpoint(folder, tensors, quantization=None):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | ({"quantization_config": quantization} if quantization else {})))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")


def weights_of(path):
    """The digests of a shard's weights in any order. Their names are those of the checkpoint's tensors."""
    weights = onnx.load(path).graph.initializer
    return sorted(hashlib.sha256(numpy_helper.to_array(weight).tobytes()).hexdigest() for weight in weights)


def files_of(folder):
    """The weights of shards and the digests of tables. Manifest and report describe the checkpoint."""
    files = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".json" and path.name != "manifest.bin"}
    return {path.relative_to(folder): weights_of(path) if path.suffix == ".onnx" else
            hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def is_equal(moec, folder, quantization, code):
    chance = np.random.default_rng(3)
    coded = plain_tensors(chance)
    plain = dict(coded)
    for name, shape in coded_shapes(everything="quant_method" not in quantization):
        parts, values = code(chance, *shape)
        coded.pop(f"{name}.weight", None)
        coded |= {f"{name}.{suffix}": part for suffix, part in parts.items()}
        plain[f"{name}.weight"] = values
    write_checkpoint(folder / "coded", coded, quantization)
    write_checkpoint(folder / "plain", plain)
    for kind in ("coded", "plain"):
        subprocess.run([moec, "export", folder / kind, "--out", folder / f"out-{kind}", "--dtype", "f32",
                        "--quiet"], check=True)
    return files_of(folder / "out-coded") == files_of(folder / "out-plain")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    # A compiled kernel may round differently.
    torch.compiler.set_stance("force_eager")
    different = 0
    for number, (name, (quantization, code)) in enumerate(FORMATS.items()):
        folder = flags.out / str(number)
        equal = is_equal(flags.moec.resolve(), folder, quantization, code)
        print(f"{name:45}{'equal' if equal else 'DIFFERS: ' + str(folder)}", flush=True)
        different += not equal
        if equal:
            shutil.rmtree(folder)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

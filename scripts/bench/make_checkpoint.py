#!/usr/bin/env python3
"""Writes a Mixtral-shaped checkpoint of a chosen size, in the layout of Hugging Face.

    scripts/bench/make_checkpoint.py FOLDER --gigabytes 4 [--files 4] [--hidden 1024 --ff 3584]
    scripts/bench/make_checkpoint.py FOLDER --gigabytes 1000 --sparse --hidden 4096 --ff 14336

Weights are random bf16 of magnitude 2^-8 … 2^-5: finite in f16, and not compressible. With --sparse the payload is a
hole in the file, which uses no disk space regardless of its nominal size. Requires only Python.
"""

import argparse
import json
import pathlib
import random

VOCABULARY, HEADS, HEAD_DIM = 32000, 16, 64
PIECE = 64 << 20

# The upper byte of a bf16 has the sign and seven bits of the exponent.
UPPER = bytes(0x80 & i | (0x3B if i & 1 else 0x3C) for i in range(256))


def random_bf16(count_bytes, seed):
    piece = bytearray(random.Random(seed).randbytes(count_bytes))
    piece[1::2] = bytes(piece[1::2]).translate(UPPER)
    return bytes(piece)


def layer_tensors(layer, hidden, ff, experts):
    """Yields (name, shape) of each weight of a layer."""
    prefix = f"model.layers.{layer}."
    attention = HEADS * HEAD_DIM
    yield prefix + "input_layernorm.weight", [hidden]
    yield prefix + "post_attention_layernorm.weight", [hidden]
    for name in "qkv":
        yield f"{prefix}self_attn.{name}_proj.weight", [attention, hidden]
    yield prefix + "self_attn.o_proj.weight", [hidden, attention]
    moe = prefix + "block_sparse_moe."
    yield moe + "gate.weight", [experts, hidden]
    for expert in range(experts):
        yield f"{moe}experts.{expert}.w1.weight", [ff, hidden]
        yield f"{moe}experts.{expert}.w2.weight", [hidden, ff]
        yield f"{moe}experts.{expert}.w3.weight", [ff, hidden]


def all_tensors(hidden, ff, experts, layers):
    yield "model.embed_tokens.weight", [VOCABULARY, hidden]
    for layer in range(layers):
        yield from layer_tensors(layer, hidden, ff, experts)
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [VOCABULARY, hidden]


def tensor_bytes(shape):
    count = 2
    for size in shape:
        count *= size
    return count


def config(hidden, ff, experts, layers):
    return {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "torch_dtype": "bfloat16",
        "hidden_size": hidden, "intermediate_size": ff, "num_local_experts": experts,
        "num_experts_per_tok": 2, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCABULARY,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "hidden_act": "silu",
        "tie_word_embeddings": False, "sliding_window": None,
    }  # fmt: skip


def write_payload(file, size, piece):
    """Repeats the piece until `size` bytes are written, because generating random bytes for all would take much longer."""
    while size > 0:
        file.write(piece[:size] if size < len(piece) else piece)
        size -= len(piece)


def write_file(path, tensors, piece):
    header, end = {}, 0
    for name, shape in tensors:
        begin, end = end, end + tensor_bytes(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        if piece:
            write_payload(file, end, piece)
        else:
            file.truncate(file.tell() + end)


def split(tensors, files):
    """Cuts the list into consecutive parts of about equal bytes."""
    limit = sum(tensor_bytes(shape) for _, shape in tensors) / files
    parts, held = [[]], 0
    for tensor in tensors:
        if held >= limit and len(parts) < files:
            parts.append([])
            held = 0
        parts[-1].append(tensor)
        held += tensor_bytes(tensor[1])
    return parts


def write_checkpoint(folder, gigabytes, files, hidden, ff, experts, sparse):
    """Writes config, index and weight files with the number of layers that comes closest to the size. Returns the bytes
    of all tensors."""
    layer = sum(tensor_bytes(shape) for _, shape in layer_tensors(0, hidden, ff, experts))
    fixed = 2 * tensor_bytes([VOCABULARY, hidden])
    layers = max(1, round((gigabytes * 1e9 - fixed) / layer))
    tensors = list(all_tensors(hidden, ff, experts, layers))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(hidden, ff, experts, layers), indent=1) + "\n")
    parts, weight_map = split(tensors, files), {}
    for index, part in enumerate(parts, 1):
        name = f"model-{index:05}-of-{len(parts):05}.safetensors"
        write_file(folder / name, part, None if sparse else random_bf16(PIECE, index))
        weight_map.update({tensor: name for tensor, _ in part})
    total = sum(tensor_bytes(shape) for _, shape in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", help="output folder")
    parser.add_argument("--gigabytes", type=float, default=4, help="size of the weights (default: 4)")
    parser.add_argument("--files", type=int, default=4, help="number of weight files (default: 4)")
    parser.add_argument("--hidden", type=int, default=1024, help="hidden size (default: 1024)")
    parser.add_argument("--ff", type=int, default=3584, help="expert width (default: 3584)")
    parser.add_argument("--experts", type=int, default=8, help="experts per layer (default: 8)")
    parser.add_argument("--sparse", action="store_true", help="write holes instead of random weights")
    args = parser.parse_args()
    total = write_checkpoint(**vars(args))
    print(f"{total} bytes of weights in {args.folder}")


if __name__ == "__main__":
    main()

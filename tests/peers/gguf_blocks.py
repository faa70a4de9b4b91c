"""Writes a GGUF file with random blocks of each GGUF block type that moec decodes, and with the values that the `gguf`
package decodes from the blocks:

    .venv/bin/python tests/peers/gguf_blocks.py tests/data/gguf_blocks.gguf     recreates the committed file

The tensor q4_k contains blocks, the tensor q4_k.values the decoded elements in F32, and so on for each type.
tests/frontends/sources/gguf/gguf_blocks_test.cc compares moec's values with them.
"""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Type -> offsets of the f16 scales in a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": [], "TQ1_0": [52], "TQ2_0": [64],
    "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
}  # fmt: skip
SIGN_AND_FRACTION = 0x83FF  # exponent bits of f16; without them a number is subnormal
ROWS = 2


def random_blocks(name, count, chance):
    """Returns `count` blocks of random bytes. A quarter of their scales are subnormal, a quarter are as small as typical
    scales of weights, and the rest are arbitrary numbers, infinities or NaNs. MXFP4 cycles through all 256 scales."""
    blocks = chance.integers(0, 256, (count, GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]), np.uint8)
    for at in HALVES[name]:
        halves = chance.integers(0, 1 << 16, count).astype(np.uint16)
        halves[0::4] &= SIGN_AND_FRACTION
        halves[1::4] = chance.normal(0, 0.02, halves[1::4].shape).astype(np.float16).view(np.uint16)
        blocks[:, at : at + 2] = halves.astype("<u2").view(np.uint8).reshape(count, 2)
    if name == "MXFP4":
        blocks[:, 0] = np.arange(count) * 85 % 256
    return blocks.reshape(ROWS, -1)


def write_blocks(path, count_of, seed):
    """Writes the file; `count_of(elements per block)` is the number of blocks of a type."""
    chance = np.random.default_rng(seed)
    writer = GGUFWriter(path, "blocks")
    for name in HALVES:
        kind = GGMLQuantizationType[name]
        blocks = random_blocks(name, count_of(GGML_QUANT_SIZES[kind][0]), chance)
        with np.errstate(all="ignore"):
            values = dequantize(blocks, kind)
        writer.add_tensor(name.lower(), blocks, raw_dtype=kind)
        writer.add_tensor(f"{name.lower()}.values", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_fixture(path):
    write_blocks(path, lambda elements: 2 if elements > 32 else 4, seed=7)


if __name__ == "__main__":
    write_fixture(sys.argv[1])

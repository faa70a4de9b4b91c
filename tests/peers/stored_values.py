"""Decodes matrices that a checkpoint stores quantized, in numpy, independently of moec's own decoder.

Each decoder accepts the raw tensors by name and the config's quantization_config. It replaces the parts of a weight
by their values in f32, under the name of the weight.
"""

import numpy as np

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
FP4 = np.concatenate([FP4, -FP4])


def e4m3_values():
    """The value of each byte: a sign bit, four exponent bits with bias 7, and three mantissa bits. There are no
    infinities."""
    codes = np.arange(256)
    exponents, mantissas = codes >> 3 & 15, codes & 7
    values = np.where(exponents, np.ldexp(8 + mantissas, exponents - 10), np.ldexp(mantissas, -9))
    values[codes & 127 == 127] = np.nan
    return np.where(codes < 128, values, -values).astype(np.float32)


E4M3 = e4m3_values()


def in_rows_and_columns(factors, block, shape):
    """Expands one factor per block to one factor per element. The last blocks may be partial."""
    rows, columns = shape
    return factors.repeat(block[0], 0).repeat(block[1], 1)[:rows, :columns]


def named_with(suffix, tensors):
    return [name.removesuffix(suffix) for name in tensors if name.endswith(suffix)]


def decode_fp8(tensors, quantization):
    for name in named_with("_scale_inv", tensors):
        codes, factors = tensors[name], tensors.pop(name + "_scale_inv")
        tensors[name] = E4M3[codes] * in_rows_and_columns(factors, quantization["weight_block_size"], codes.shape)


def decode_mxfp4(tensors, _quantization):
    """A row of blocks is a row of a linear map; the weight is [E,in,out]."""
    for name in named_with("_blocks", tensors):
        blocks, scales = tensors.pop(name + "_blocks"), tensors.pop(name + "_scales")
        elements = FP4[np.stack([blocks & 15, blocks >> 4], -1).reshape(*scales.shape, 32)]
        values = np.ldexp(elements, scales[..., None].astype(np.int32) - 127)
        tensors[name] = values.reshape(*scales.shape[:2], -1).swapaxes(1, 2)


def decode_int4(tensors, quantization):
    group = quantization["config_groups"]["group_0"]["weights"]["group_size"]
    for name in named_with("_packed", tensors):
        words, factors = tensors.pop(name + "_packed").view(np.uint32), tensors.pop(name + "_scale")
        shape = tensors.pop(name + "_shape")
        integers = (words[..., None] >> np.arange(0, 32, 4, np.uint32) & 15).reshape(len(words), -1)[:, :shape[1]]
        values = integers.astype(np.float32) - 8
        tensors[name] = values * in_rows_and_columns(factors, (1, group), shape)


DECODERS = {"fp8": decode_fp8, "mxfp4": decode_mxfp4, "compressed-tensors": decode_int4}

"""Layouts and types of ports, as backends/manifest/manifest.fbs defines them."""

import numpy as np

DTYPES = {"f32": np.float32, "f16": np.float16}
# Layout → axis of the T tokens: [1, C, T, 1], [1, C, 1, T] and [T, C]. The first two are transposed rows.
TOKEN_AXES = {"channels": 2, "bc1s": 3, "rows": 0, "plain": 0}


def token_axis(port):
    if port["layout"] not in TOKEN_AXES:
        raise ValueError(f"port {port['name']} has the layout {port['layout']}, which this script does not support")
    return TOKEN_AXES[port["layout"]]


def pack(rows, port):
    """Converts rows [n, C] to the port's layout and type, padded with zeros to its T tokens."""
    axis = token_axis(port)
    padded = np.zeros((port["dims"][axis], rows.shape[1]), DTYPES[port["dtype"]])
    padded[: len(rows)] = rows
    return np.ascontiguousarray(padded.T if axis > 0 else padded).reshape(port["dims"])


def unpack(tensor, port, count):
    """Rows [count, C] of the first `count` tokens of an output; all later tokens are padding."""
    axis = token_axis(port)
    if axis > 0:
        tensor = tensor.reshape(port["dims"][1], port["dims"][axis]).T
    return tensor[:count]

"""Reads and writes safetensors with numpy alone, so that moec's reader is not its own judge."""

import json

import numpy as np

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I32": np.int32}


def bf16_to_f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read_tensors(path):
    """Name → array; bf16 becomes f32, which holds every bf16 exactly."""
    data = path.read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_bytes])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = bf16_to_f32(values)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def read_checkpoint(folder):
    """The tensors of all weight files of a checkpoint folder."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != "golden.safetensors":
            tensors.update(read_tensors(path))
    return tensors


def write_tensors(path, tensors):
    """f32 arrays, one after the other in the given order."""
    header, at = {}, 0
    for name, values in tensors.items():
        assert values.dtype == np.float32, name
        end = at + values.nbytes
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    payload = b"".join(np.ascontiguousarray(values).tobytes() for values in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + payload)

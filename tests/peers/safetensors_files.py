"""Reads and writes safetensors with numpy alone, independently of moec's own reader."""

import json

import numpy as np

from stored_values import DECODERS

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I32": np.int32, "I64": np.int64, "U8": np.uint8,
          "F8_E4M3": np.uint8}


def bf16_to_f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read_tensors(path):
    """Maps names to arrays. bf16 becomes f32, which represents every bf16 exactly; f8 tensors are returned as
    bytes."""
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
    """Returns the tensors of all weight files of a checkpoint folder, dequantized if they are stored quantized.
    Omits the layers after the last decoder layer, which predict additional tokens."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != "golden.safetensors":
            tensors.update(read_tensors(path))
    config = json.loads((folder / "config.json").read_text())
    quantization = config.get("quantization_config")
    if quantization:
        DECODERS[quantization["quant_method"]](tensors, quantization)
    config = config.get("text_config", config)  # config of a text model inside a larger model
    further = config.get("num_nextn_predict_layers") or 0
    behind = tuple(f"model.layers.{config['num_hidden_layers'] + i}." for i in range(further))
    return {name: values for name, values in tensors.items() if not name.startswith(behind)}


def write_tensors(path, tensors):
    """Writes f32 arrays consecutively in the given order."""
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

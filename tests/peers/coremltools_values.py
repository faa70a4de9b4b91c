"""Decodes a package's quantized weights from weight.bin with numpy and with coremltools."""

import struct

import numpy as np

from coreml_packages import load_program, load_spec

# Element type of a blob → (bits, whether the integers are two's complement).
PACKED = {3: (8, False), 4: (8, True), 8: (4, True), 9: (1, False), 10: (2, False), 11: (4, False),
          12: (3, False), 13: (6, False)}
FLOATS = {1: np.float16, 2: np.float32}


def unpack(data, bits, signed, count):
    stream = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: count * bits]
    numbers = stream.reshape(count, bits).astype(np.int32) @ (1 << np.arange(bits))
    return np.where(numbers >= 1 << (bits - 1), numbers - (1 << bits), numbers) if signed else numbers


def read_blob(blobs, value):
    """Returns the array of a value. A 64-byte record states the blob's element type, size in bytes, offset and
    unused bits."""
    shape = [dimension.constant.size for dimension in value.type.tensorType.dimensions]
    if value.WhichOneof("value") != "blobFileValue":
        return np.frombuffer(value.immediateValue.tensor.bytes.values, np.int8).astype(np.int32).reshape(shape)
    at = value.blobFileValue.offset
    sentinel, kind, size, offset, padding = struct.unpack_from("<IIQQQ", blobs, at)
    assert sentinel == 0xDEADBEEF and offset == at + 64
    data, count = blobs[offset: offset + size], int(np.prod(shape))
    if kind in FLOATS:
        return np.frombuffer(data, FLOATS[kind]).reshape(shape)
    bits, signed = PACKED[kind]
    assert 8 * size - padding == count * bits
    return unpack(data, bits, signed, count).reshape(shape)


def spread(parameters, shape):
    """Expands one parameter per block to one parameter per element."""
    for axis, (count, size) in enumerate(zip(parameters.shape, shape)):
        parameters = parameters.repeat(size // count, axis)
    return parameters


def decode(operation, blobs):
    parts = {name: read_blob(blobs, operation.attributes[name])
             for name in ("quantized_data", "scale", "zero_point") if name in operation.attributes}
    parts |= {name: read_blob(blobs, argument.arguments[0].value) for name, argument in operation.inputs.items()}
    if operation.type == "constexpr_lut_to_dense":
        codes, table = parts["indices"], parts["lut"]
        entries = spread(table[..., 0], codes.shape)
        return np.take_along_axis(entries, codes[..., None], -1)[..., 0]
    codes = parts.get("quantized_data", parts.get("data"))
    scale, zero = parts["scale"], parts.get("zero_point", parts.get("offset", np.int32(0)))
    if operation.type == "constexpr_affine_dequantize":
        shape = [1] * codes.ndim
        axis = operation.attributes["axis"].immediateValue.tensor.ints.values
        shape[axis[0] if axis else 0] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape) if zero.ndim else zero
    else:
        scale = spread(scale, codes.shape)
        zero = spread(zero, codes.shape) if np.ndim(zero) else zero
    return ((codes - zero).astype(np.float32) * scale.astype(np.float32)).astype(scale.dtype)


def constexpr_functions(model):
    """Yields (function name, {operation name: coremltools' array}) for each function of a package's model.mlmodel."""
    spec = load_spec(str(model.parents[2]))
    program = load_program(spec, spec.specificationVersion, file_weights_dir=str(model.parent / "weights"))
    for name, function in program.functions.items():
        yield name, {op.outputs[0].name: op.materialized_val_inference() for op in function.operations
                     if op.op_type.startswith("constexpr_")}


def constexpr_values(model):
    """Yields (operation name, our array, coremltools' array) for each quantized weight of a package's
    model.mlmodel."""
    package = model.parents[2]
    spec = load_spec(str(package))
    blobs = (model.parent / "weights/weight.bin").read_bytes()
    program = load_program(spec, spec.specificationVersion, file_weights_dir=str(model.parent / "weights"))
    for name, function in spec.mlProgram.functions.items():
        loaded = {op.outputs[0].name: op for op in program.functions[name].operations}
        for operation in function.block_specializations[function.opset].operations:
            if operation.type.startswith("constexpr_"):
                output = operation.outputs[0].name
                yield output, decode(operation, blobs), loaded[output].materialized_val_inference()

"""Reads emitted Core ML packages with coremltools, which cannot run them on Linux."""

import functools
import json
import logging
from dataclasses import dataclass
from pathlib import Path

logging.disable(logging.WARNING)  # importing coremltools warns about missing macOS frameworks
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from coremltools.proto import FeatureTypes_pb2  # noqa: E402
from coremltools.models.utils import load_spec  # noqa: E402

logging.disable(logging.NOTSET)
logging.getLogger("coremltools").setLevel(logging.ERROR)

DTYPES = {FeatureTypes_pb2.ArrayFeatureType.FLOAT16: "f16",
          FeatureTypes_pb2.ArrayFeatureType.FLOAT32: "f32"}

# moec's ops → MIL names; omits ops whose names are equal.
MIL_OPS = {"neg": "mul", "reciprocal": "inverse", "div": "real_div", "max": "maximum",
           "min": "minimum", "slice": "slice_by_size", "state_read": "read_state",
           "state_write": "write_state"}


class Program:
    """One model.mlmodel and its weight.bin. Reads each once, because a program has many functions and inferring its
    types takes most of these tests' time."""

    def __init__(self, model):
        self.model = model

    @property
    def path(self):
        return self.model.parents[2]

    @functools.cached_property
    def spec(self):
        return load_spec(str(self.path))

    def typed(self, spec):
        """Loads the program. While loading, coremltools infers the type of each operation and compares it with the
        stored type."""
        weights = str(self.model.parent / "weights")
        return load_program(spec, spec.specificationVersion, file_weights_dir=weights)

    @functools.cached_property
    def arrays(self):
        """Maps each function to its consts in weight.bin: names → arrays, as coremltools reads them."""
        return {name: self.stored(name, function) for name, function in self.typed(self.spec).functions.items()}

    def stored(self, name, function):
        stored = {operation.outputs[0].name for operation in operations(self.spec, name)
                  if operation.type == "const"
                  and operation.attributes["val"].WhichOneof("value") == "blobFileValue"}
        return {op.outputs[0].name: op.outputs[0].val for op in function.find_ops(op_type="const")
                if op.outputs[0].name in stored}


def operations(spec, function):
    function = spec.mlProgram.functions[function]
    return function.block_specializations[function.opset].operations


@dataclass
class Package:
    """One width of one shard."""

    shard: dict  # from the manifest
    width: dict
    program: Program

    @property
    def function(self):
        return self.width["function"] or "main"

    def described(self, spec):
        """The function's description: that of the model or, if there are several functions, one of its parts."""
        description = spec.description
        if not self.width["function"]:
            return description
        return next(each for each in description.functions if each.name == self.function)

    def metadata(self, spec, key):
        prefix = f"moec.{self.function}." if self.width["function"] else "moec."
        return spec.description.metadata.userDefined.get(prefix + key, "")

    def operations(self, spec):
        return operations(spec, self.function)

    def weights(self):
        """Maps the label of each const in weight.bin to its array."""
        names = [line.split(" ", 1) for line in self.metadata(self.program.spec, "names").splitlines()]
        labels = {name: label for label, name in names}
        return {labels.get(name, name): array for name, array in self.program.arrays[self.function].items()}


class Folder:
    """An exported folder and its packages."""

    def __init__(self, path, checkpoint):
        self.path, self.checkpoint = path, checkpoint
        self.manifest = json.loads((path / "manifest.json").read_text())
        self.functions = {}  # package → names in the manifest
        self.packages = []
        programs = {}
        for shard in self.manifest["shards"]:
            for width in shard["widths"]:
                model = path / width["file"]["path"]
                program = programs.setdefault(model, Program(model))
                self.packages.append(Package(shard, width, program))
                self.functions.setdefault(program.path, set()).add(width["function"])


def port_of(feature):
    """(name, element type, sizes) of a described input, output or state."""
    array = feature.type.multiArrayType
    if feature.type.WhichOneof("Type") == "stateType":
        array = feature.type.stateType.arrayType
    return feature.name, DTYPES[array.dataType], list(array.shape)

"""Reads emitted Core ML packages with coremltools, which cannot run them on Linux."""

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

ARRAYS = {}  # Package.arrays() of each loaded file


@dataclass
class Package:
    """One width of one shard."""

    shard: dict  # from the manifest
    width: dict
    model: Path  # model.mlmodel

    @property
    def path(self):
        return self.model.parents[2]

    def spec(self):
        return load_spec(str(self.path))

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

    def operations(self, spec, function=None):
        function = spec.mlProgram.functions[function or self.function]
        return function.block_specializations[function.opset].operations

    def typed(self, spec):
        """Loads the program. While loading, coremltools infers the type of each operation and compares it with the
        stored type."""
        weights = str(self.model.parent / "weights")
        return load_program(spec, spec.specificationVersion, file_weights_dir=weights)

    def arrays(self, spec):
        """Maps each function to its consts in weight.bin: names → arrays, as coremltools reads them. Loads each file
        once, because its widths share it and inferring the types takes most of these tests' time."""
        if self.model not in ARRAYS:
            program = self.typed(spec)
            ARRAYS[self.model] = {name: self.stored(spec, name, function)
                                  for name, function in program.functions.items()}
        return ARRAYS[self.model]

    def stored(self, spec, name, function):
        stored = {operation.outputs[0].name for operation in self.operations(spec, name)
                  if operation.type == "const"
                  and operation.attributes["val"].WhichOneof("value") == "blobFileValue"}
        return {op.outputs[0].name: op.outputs[0].val for op in function.find_ops(op_type="const")
                if op.outputs[0].name in stored}

    def weights(self, spec):
        """Maps the label of each const in weight.bin to its array."""
        names = [line.split(" ", 1) for line in self.metadata(spec, "names").splitlines()]
        labels = {name: label for label, name in names}
        return {labels.get(name, name): array for name, array in self.arrays(spec)[self.function].items()}


class Folder:
    """An exported folder and its packages."""

    def __init__(self, path, checkpoint):
        self.path, self.checkpoint = path, checkpoint
        self.manifest = json.loads((path / "manifest.json").read_text())
        self.packages = [Package(shard, width, path / width["file"]["path"])
                         for shard in self.manifest["shards"] for width in shard["widths"]]
        self.functions = {}  # model.mlmodel → names in the manifest
        for package in self.packages:
            self.functions.setdefault(package.model, set()).add(package.width["function"])


def port_of(feature):
    """(name, element type, sizes) of a described input, output or state."""
    array = feature.type.multiArrayType
    if feature.type.WhichOneof("Type") == "stateType":
        array = feature.type.stateType.arrayType
    return feature.name, DTYPES[array.dataType], list(array.shape)

"""Reads an export of moec and checks all preconditions of the translation to Core AI."""

import json
import keyword
import re
from dataclasses import dataclass
from pathlib import Path

from aimodel.graph import RE_EXPORT, Graph, read_graph
from aimodel.lowering import lower_node
from aimodel.refusal import Refused, require

DTYPE_NAMES = {"f32": "float32", "f16": "float16"}
LAYOUT = "bc1s"  # the layout channels has a last axis of 1, which Core AI pads to 64 bytes
SHARD_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
AS_WANTED = "export with --target onnx --layout bc1s --form conv --dtype f16 or f32, and the cache as inputs"


@dataclass(frozen=True)
class Width:
    function: str  # "t16"
    file: str  # path of the ONNX graph in the export
    digest: str
    ports: dict  # {"inputs": {name: [dtype, dims]}, "outputs": …}, from the manifest


@dataclass(frozen=True)
class Shard:
    name: str
    widths: tuple[Width, ...]


def check_build(build, folder):
    wanted = {"format": ("onnx",), "layout": (LAYOUT,), "dtype": tuple(DTYPE_NAMES), "weights": ("float",)}
    for key, values in wanted.items():
        require(build[key] in values, "form", f"{folder} was exported with {key} {build[key]} instead of "
                f"{' or '.join(values)}", AS_WANTED)


def ports_of(ports, file):
    for port in ports:
        name = port["name"]
        require(name.isidentifier() and not keyword.iskeyword(name), "names",
                f"{file}: the authoring library does not support the port name '{name}'", RE_EXPORT)
        require(port["dtype"] in DTYPE_NAMES, "dtype", f"{file}: the port '{name}' has the type {port['dtype']}", AS_WANTED)
    described = {port["name"]: [DTYPE_NAMES[port["dtype"]], list(port["dims"])] for port in ports}
    require(len(described) == len(ports), "names", f"{file}: two ports have the same name", RE_EXPORT)
    return described


def width_of(width):
    file = width["file"]["path"]
    ports = {kind: ports_of(width[kind], file) for kind in ("inputs", "outputs")}
    return Width(f"t{width['tokens']}", file, width["file"]["digest"], ports)


def shards_of(manifest):
    shards = tuple(Shard(shard["name"], tuple(map(width_of, shard["widths"]))) for shard in manifest["shards"])
    names = [shard.name for shard in shards]
    require(names and len(set(names)) == len(names), "names", "the manifest has no shards, or lists one twice", RE_EXPORT)
    for shard in shards:
        require(SHARD_NAME.fullmatch(shard.name), "names", f"the shard name '{shard.name}' is not a file name", RE_EXPORT)
        functions = {width.function for width in shard.widths}
        require(functions and len(functions) == len(shard.widths), "names",
                f"shard {shard.name} has no width, or lists one twice", RE_EXPORT)
    return shards


def check_ports(graph: Graph, width):
    """Checks that a file has the manifest's ports, with the same names, types and shapes."""
    for kind, wanted in width.ports.items():
        got = {name: [str(tensor.dtype), list(tensor.dims)] for name, tensor in getattr(graph, kind).items()}
        require(got == wanted, "ports", f"{width.file} has the {kind} {got}, but the manifest has {wanted}", RE_EXPORT)


def check_graph(folder, width):
    graph = read_graph(folder, width.file)
    check_ports(graph, width)
    for node in graph.nodes:
        lower_node(graph, node)


def read_export(folder):
    """Returns the shards of an export after checking that every graph can be translated. Raises Refused, or OSError if
    files are missing."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        check_build(manifest["build"], folder)
        shards = shards_of(manifest)
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Refused("manifest", f"{folder}/manifest.json: {type(error).__name__}: {error}", RE_EXPORT) from error
    for shard in shards:
        for width in shard.widths:
            check_graph(folder, width)
    return shards

#!/usr/bin/env python3
"""Runs an exported folder of .tflite files with LiteRT, as an example for writing a runtime.

It reads only manifest.json and has no model-specific code. The parts without an engine are in running/.

    pip install ai-edge-litert numpy tokenizers
    moec export models/tinymoe --out out/tinymoe --target litert --tokens 1,16
    scripts/run_with_litert.py out/tinymoe --prompt "def " --max-tokens 60

A file has a signature per token width. Each signature packs its weights, so the process needs twice the memory of the
weights for two widths. --weight-cache keeps the packed weights once, in files that later runs map into memory.
"""

from pathlib import Path

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.cpu_options import CpuOptions
from ai_edge_litert.environment import Environment
from ai_edge_litert.options import Options

from running.command import run_command
from running.steps import ShardRunner


class Signature:
    """A graph of a file, with the interface of an onnxruntime session."""

    def __init__(self, model, name):
        self.model, self.name, self.details = model, name, model.get_output_tensor_details(name)
        self.inputs = {port: model.create_input_buffer_by_name(name, port)
                       for port in model.get_input_tensor_details(name)}
        self.outputs = {port: model.create_output_buffer_by_name(name, port) for port in self.details}

    def run(self, names, feeds):
        for port, values in feeds.items():
            self.inputs[port].write(values)
        self.model.run_by_name(self.name, self.inputs, self.outputs)
        return [self.values(port) for port in names]

    def values(self, port):
        shape, dtype = self.details[port]["shape"], self.details[port]["dtype"]
        return self.outputs[port].read(int(np.prod(shape)), dtype).reshape(shape)


def compile_model(path, environment, threads, weight_cache=""):
    cpu = CpuOptions(num_threads=threads, xnnpack_weight_cache_path=weight_cache)
    return CompiledModel.from_file(str(path), environment=environment, options=Options(cpu_options=cpu))


class LitertRunner(ShardRunner):
    """A ShardRunner whose shards run in LiteRT on the CPU, with XNNPACK. `weight_cache` is a folder for packed weights."""

    format, target, signature = "tflite", "litert", Signature

    def __init__(self, folder, skip_idle_groups=True, threads=0, top_k="", weight_cache=""):
        super().__init__(folder, skip_idle_groups, top_k)
        self.threads = threads
        self.weight_cache, self.environment = weight_cache, Environment.create()
        if weight_cache:
            Path(weight_cache).mkdir(parents=True, exist_ok=True)

    def session(self, width):
        """The signature of a width; all signatures of a file share a model."""
        place = (width["file"]["path"], width["function"])
        if place not in self.sessions:
            self.sessions[place] = self.signature(self.model(place[0]), place[1])
        return self.sessions[place]

    def model(self, path):
        if path not in self.sessions:
            cache = str(Path(self.weight_cache, path.replace("/", "_") + ".cache")) if self.weight_cache else ""
            self.sessions[path] = compile_model(self.folder / path, self.environment, self.threads, cache)
        return self.sessions[path]


def add_options(parser):
    parser.add_argument("--threads", type=int, default=0, help="threads (default: the engine's)")
    parser.add_argument("--weight-cache", default="", metavar="FOLDER", help="folder for packed weights")


def main():
    run_command(__doc__, add_options, lambda args: LitertRunner(
        args.folder, threads=args.threads, top_k=args.top_k, weight_cache=args.weight_cache))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs an exported folder with onnxruntime alone, as an example for writing a runtime.

It reads only manifest.json and has no model-specific code; backends/manifest/manifest.fbs documents the fields. The
parts without an engine are in running/. The tokenizers package encodes text with the tokenizer.json of the export.

    pip install numpy onnx onnxruntime tokenizers
    moec export models/tinymoe --out out/tinymoe --tokens 1,16
    scripts/run_with_onnxruntime.py out/tinymoe --prompt "def " --max-tokens 60
    scripts/run_with_onnxruntime.py out/qnn --prompt "def " --provider QNN=backend_path=libQnnHtp.so

Graphs of several token widths share one copy of their weights, mapped from the export's files. This requires `--form
matmul`, because onnxruntime reorders the weights of convolutions per session. Sharing is slower, because matrices are
not packed for the kernels; --packed keeps packed copies, one per width.
"""

import numpy as np
import onnxruntime

from running.command import run_command
from running.steps import ShardRunner

CPU = "CPUExecutionProvider"


def find_provider(text):
    """Parses "NAME[=KEY=VALUE,…]" to (name, options); NAME may omit "ExecutionProvider". Raises ValueError."""
    name, _, rest = text.partition("=")
    known = onnxruntime.get_available_providers()
    found = [full for full in known if full.lower() in (name.lower(), f"{name.lower()}executionprovider")]
    if not found:
        raise ValueError(f"this onnxruntime has no provider {name}; it has {', '.join(known)}: install the package of the "
                         "vendor, such as onnxruntime-qnn or onnxruntime-openvino")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    for key, equals, _ in pairs:
        if not equals:
            raise ValueError(f"--provider {text}: {key} has no value; write NAME=KEY=VALUE,KEY=VALUE")
    return found[0], {key: value for key, _, value in pairs}


def threads_of(count):
    """Session options with `count` threads. All sessions share one pool: with separate pools, waiting sessions would spin
    on all cores and make steps through many sessions about 30 times slower."""
    options = onnxruntime.SessionOptions()
    if count == 1 or not hasattr(onnxruntime, "set_global_thread_pool_sizes"):
        options.intra_op_num_threads = count
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return options
    if not threads_of.pool:
        onnxruntime.set_global_thread_pool_sizes(count, 1)  # once per process, before the first session
        threads_of.pool = True
    options.use_per_session_threads = False
    return options


threads_of.pool = False


class Weights:
    """Initializers of all graphs, mapped once from the export's data files."""

    def __init__(self):
        self.mapped = {}  # (file, offset) → (value, array that it refers to)

    def give(self, path, options):
        """Adds a graph's external initializers to the session options."""
        import onnx  # not required with packed copies

        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            entry = {pair.key: pair.value for pair in tensor.external_data}
            place = (path.parent / entry["location"], int(entry.get("offset", 0)))
            if place not in self.mapped:
                dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
                array = np.memmap(place[0], dtype, "c", place[1], tuple(tensor.dims))
                self.mapped[place] = (onnxruntime.OrtValue.ortvalue_from_numpy(array), array)
            options.add_initializer(tensor.name, self.mapped[place][0])


class Runner(ShardRunner):
    """A ShardRunner whose shards run in onnxruntime. `threads` is the number of its threads, 0 for its default; `provider`
    comes from find_provider(), with the CPU as fallback; `packed` trades memory for speed (see above)."""

    def __init__(self, folder, skip_idle_groups=True, threads=0, top_k="", provider=(CPU, {}), packed=True):
        super().__init__(folder, skip_idle_groups, top_k)
        self.provider, self.threads, self.packed = provider, threads, packed
        self.weights = Weights()

    def open_session(self, path):
        name, settings = self.provider
        options = threads_of(self.threads)
        if name == CPU and not self.packed:
            options.add_session_config_entry("session.disable_prepacking", "1")
            self.weights.give(path, options)
        providers = [(name, settings)] + [CPU] * (name != CPU)
        session = onnxruntime.InferenceSession(path, options, providers=providers)
        if session.get_providers()[0] != name:  # onnxruntime silently skips a provider that it cannot load
            raise ValueError(f"{name} did not start: check its options and libraries")
        return session


def add_options(parser):
    parser.add_argument("--threads", type=int, default=0, help="threads (default: the engine's)")
    parser.add_argument("--provider", default=CPU, metavar="NAME[=KEY=VALUE,…]",
                        help="execution provider of onnxruntime, with its options (default: the CPU)")
    parser.add_argument("--packed", action="store_true", help="keep packed copies of weights per width")


def open_runner(args):
    return Runner(args.folder, threads=args.threads, top_k=args.top_k, provider=find_provider(args.provider),
                  packed=args.packed)


def main():
    run_command(__doc__, add_options, open_runner)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs an exported folder of .tflite files with LiteRT, as an example for writing a runtime.

It reads manifest.json and has no model-specific code; the parts that do not depend on the engine are those of
run_with_onnxruntime.py, next to this script.

    pip install ai-edge-litert numpy tokenizers
    moec export models/tinymoe --out out/tinymoe --target litert --tokens 1,16
    scripts/run_with_litert.py out/tinymoe --prompt "def " --max-tokens 60

A file has a signature per token width. XNNPACK packs the weights once per signature, so the process needs about twice
the memory of the weights for two widths.
"""

from ai_edge_litert.interpreter import Interpreter

from run_with_onnxruntime import Runner, run_command


class Signature:
    """A graph of a file, with the interface of an onnxruntime session."""

    def __init__(self, interpreter, name):
        self.call = interpreter.get_signature_runner(name)

    def run(self, names, feeds):
        results = self.call(**feeds)
        return [results[name] for name in names]


class LitertRunner(Runner):
    """A Runner whose shards run in LiteRT's interpreter with XNNPACK."""

    format, target = "tflite", "litert"

    def session(self, width):
        """The signature of a width; all signatures of a file share an interpreter."""
        place = (width["file"]["path"], width["function"])
        if place not in self.sessions:
            self.sessions[place] = Signature(self.interpreter(place[0]), place[1])
        return self.sessions[place]

    def interpreter(self, path):
        if path not in self.sessions:
            self.sessions[path] = Interpreter(model_path=str(self.folder / path), num_threads=self.threads or None)
        return self.sessions[path]


def main():
    run_command(__doc__, lambda parser: None, lambda args: LitertRunner(args.folder, threads=args.threads, top_k=args.top_k))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures the error of engines' functions in f32 on the CPU against float64, as a Markdown table.

    .venv/bin/python scripts/measure_functions.py            prints the table
    .venv/bin/python scripts/measure_functions.py --write    replaces it in backends/targets/README.md

Each row has a function, or the form that moec emits for it, with a range of inputs, and the maximum relative error of each
engine. Engines compute vectors, so each value is in the middle of a long tensor.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper

README = Path(__file__).resolve().parents[1] / "backends/targets/README.md"
BEGIN, END = "<!-- functions:begin -->", "<!-- functions:end -->"
COUNT = 1 << 14


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def node(op, *inputs, output="y", **attributes):
    return helper.make_node(op, inputs, [output], **attributes)


WRITTEN_SIGMOID = [node("Neg", "x", output="n"), node("Exp", "n", output="e"), node("Add", "e", "one", output="s"),
                   node("Reciprocal", "s")]
RSQRT = [node("Sqrt", "x", output="r"), node("Reciprocal", "r")]
ERF = np.vectorize(__import__("math").erf)
# Name, nodes that compute y from x, the function in float64, range of x.
ROWS = [
    ("Sigmoid", [node("Sigmoid", "x")], sigmoid, -5, 20),
    ("Sigmoid", [node("Sigmoid", "x")], sigmoid, -10, -5),
    ("Sigmoid", [node("Sigmoid", "x")], sigmoid, -18, -10),
    ("Sigmoid", [node("Sigmoid", "x")], sigmoid, -80, -18),
    ("1 / (1 + Exp(−x))", WRITTEN_SIGMOID, sigmoid, -80, 20),
    ("Exp", [node("Exp", "x")], np.exp, -80, 80),
    ("Log", [node("Log", "x")], np.log, 1e-6, 0.9),
    ("Log", [node("Log", "x")], np.log, 1.1, 1e6),
    ("Tanh", [node("Tanh", "x")], np.tanh, 1e-4, 0.1),
    ("Tanh", [node("Tanh", "x")], np.tanh, 0.1, 20),
    ("Erf", [node("Erf", "x")], ERF, 1e-4, 0.1),
    ("Erf", [node("Erf", "x")], ERF, 0.1, 5),
    ("1 / Sqrt", RSQRT, lambda x: 1 / np.sqrt(x), 1e-12, 1e6),
    ("Reciprocal", [node("Reciprocal", "x")], lambda x: 1 / x, 1e-6, 1e6),
    ("Softmax", [node("Softmax", "x", axis=-1)], lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(), -40, 0),
]


def model_of(nodes):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, COUNT]) for name in "xy")
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    constants = [one] if any("one" in each.input for each in nodes) else []
    graph = helper.make_graph(nodes, "function", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model.SerializeToString()


def run_onnxruntime(model, x):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def run_openvino(model, x):
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([x])[compiled.output(0)]


ENGINES = {"onnxruntime " + onnxruntime.__version__: run_onnxruntime,
           "OpenVINO " + openvino.__version__.split("-")[0]: run_openvino}


def error_of(run, nodes, exact, least, most):
    """Maximum relative error over the range. Samples positive ranges evenly over exponents."""
    spaced = np.geomspace(least, most, COUNT) if least > 0 else np.linspace(least, most, COUNT)
    x = spaced.astype(np.float32)[None]
    wanted = exact(x.astype(np.float64))
    return float(np.max(np.abs(run(model_of(nodes), x) - wanted) / np.abs(wanted)))


def table(rows):
    lines = ["| function | from | to | " + " | ".join(ENGINES) + " |", "|---|---|---|" + "---|" * len(ENGINES)]
    for name, nodes, exact, least, most in rows:
        errors = [f"{error_of(run, nodes, exact, least, most):.0e}" for run in ENGINES.values()]
        lines.append(f"| {name} | {least:g} | {most:g} | " + " | ".join(errors) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table to " + README.name)
    measured = table(ROWS)
    if not parser.parse_args().write:
        print(measured)
        return
    text = README.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"{README}: the lines {BEGIN} and {END} are missing")
    before, rest = text.split(BEGIN)
    README.write_text(before + BEGIN + "\n" + measured + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()

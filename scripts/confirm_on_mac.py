#!/usr/bin/env python3
"""Queries Core ML on a Mac for the preferred device of each op of an export, and writes the results to measured.json.

    scripts/confirm_on_mac.py OUT [--measured measured.json] [--units CPU_AND_NE]

OUT is a folder that `moec export --target ane` wrote, with OUT/expected_placement.json from `moec check OUT --expected`.
Requires macOS 14.4 or later and coremltools 8 or later. Compiles and loads each package, reads its compute plan
(MLComputePlan), and compares each op's preferred device with moec's prediction. `moec check OUT --measured measured.json`
reads the result on any machine.

This script has NOT been run on a Mac. Its pure functions are tested with plans in the format that coremltools
documents; Core ML's actual plans are untested.

Exits with 0 if every op prefers the predicted unit, otherwise with 1.
"""

import argparse
import json
import pathlib
import platform
import subprocess
import sys

FORMAT = "moec-measured-placement"
VERSION = 1
NEURAL_ENGINE = "neural_engine"
# Device classes of coremltools.models.compute_device, by class name.
DEVICES = {
    "MLNeuralEngineComputeDevice": NEURAL_ENGINE,
    "MLCPUComputeDevice": "cpu",
    "MLGPUComputeDevice": "gpu",
}


def device_name(device):
    """The name of a compute device; None if the plan has none."""
    return None if device is None else DEVICES.get(type(device).__name__, type(device).__name__)


def op_name(operation):
    """moec's name for a MIL operation: its first output, or "write_state STATE" if it has none."""
    if operation.outputs:
        return operation.outputs[0].name
    state = operation.inputs["input"].bindings[0].name
    return f"{operation.operator_name.rpartition('.')[2]} {state}"


def measure_op(plan, operation):
    """Measures one op of a compute plan. Ops that Core ML folds (const, constexpr) have no device."""
    usage = plan.get_compute_device_usage_for_mlprogram_operation(operation)
    cost = plan.get_estimated_cost_for_mlprogram_operation(operation)
    return {
        "name": op_name(operation),
        "op": operation.operator_name,
        "preferred": device_name(usage.preferred_compute_device) if usage else None,
        "supported": sorted(device_name(d) for d in usage.supported_compute_devices) if usage else [],
        "cost": cost.weight if cost else None,
    }


def measure_plan(plan, function):
    """All ops of a plan's function in order, without const. Without a name, uses main or the first function."""
    functions = plan.model_structure.program.functions
    name = function or ("main" if "main" in functions else next(iter(functions)))
    operations = functions[name].block.operations
    return [
        measure_op(plan, operation)
        for operation in operations
        if operation.operator_name.rpartition(".")[2] != "const"
    ]


def package_of(file_path):
    """The package that contains a file: "a/L00.mlpackage" for "a/L00.mlpackage/Data/…"."""
    for parent in pathlib.PurePosixPath(file_path).parents:
        if parent.suffix == ".mlpackage":
            return str(parent)
    raise ValueError(f"{file_path} is not in an .mlpackage: export with --target ane")


def graphs_of(manifest):
    """Lists (shard name, width) of each graph in the manifest."""
    return [(shard["name"], width) for shard in manifest["shards"] for width in shard["widths"]]


def differences(graph, expected):
    """Yields a line for each op of a measured graph for which prediction and preference disagree about the Neural
    Engine. Skips ops without a preference."""
    measured = {op["name"]: op for op in graph["ops"]}
    for op in expected["ops"]:
        found = measured.get(op["name"])
        if found is None or found["preferred"] is None:
            continue
        predicted = op["unit"] == "Neural Engine"
        if predicted != (found["preferred"] == NEURAL_ENGINE):
            yield (
                f"{graph['shard']} T={graph['tokens']} {op['name']} ({op['op']}): predicted on "
                f"{op['unit']} {op.get('rule', '')}, prefers {found['preferred']}"
            )


def load_plan(package, units, folder):
    """Compiles a package and loads its compute plan. Only this function and machine() require coremltools."""
    import coremltools as ct
    from coremltools.models.compute_plan import MLComputePlan
    from coremltools.models.utils import compile_model

    compiled = compile_model(str(package), str(folder / (package.stem + ".mlmodelc")))
    return MLComputePlan.load_from_path(path=compiled, compute_units=ct.ComputeUnit[units])


def machine():
    """The chip, and the versions of macOS and coremltools."""
    import coremltools

    brand = ["sysctl", "-n", "machdep.cpu.brand_string"]
    chip = subprocess.run(brand, capture_output=True, text=True, check=True).stdout.strip()
    return {"chip": chip, "macos": platform.mac_ver()[0], "coremltools": coremltools.__version__}


def measure_export(out, units, load=load_plan):
    """The graphs of measured.json. Compiles a package with several functions or widths once."""
    import tempfile

    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    plans, graphs = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for shard, width in graphs_of(manifest):
            package = package_of(width["file"]["path"])
            if package not in plans:
                plans = {package: load(out / package, units, pathlib.Path(folder))}
            graphs.append(
                {
                    "shard": shard,
                    "tokens": width["tokens"],
                    "digest": width["file"]["digest"],
                    **({"function": width["function"]} if width.get("top_k") else {}),
                    "ops": measure_plan(plans[package], width["function"]),
                }
            )
    return graphs


def compare(graphs, expected):
    """One line per difference from expected_placement.json."""
    def key(graph):
        return graph["shard"], graph["tokens"], graph.get("function", "")

    by_graph = {key(graph): graph for graph in expected["graphs"]}
    return [
        line
        for graph in graphs
        for line in differences(graph, by_graph[key(graph)])
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path, help="an exported folder")
    parser.add_argument("--measured", type=pathlib.Path, default=pathlib.Path("measured.json"),
                        help="the file to write (default: measured.json)")
    parser.add_argument("--units", default="CPU_AND_NE", help="coremltools.ComputeUnit for Core ML (default: %(default)s)")
    args = parser.parse_args()
    if sys.platform != "darwin":
        parser.error("this script needs macOS, because Core ML makes compute plans only there")
    graphs = measure_export(args.out, args.units)
    report = {"format": FORMAT, "version": VERSION, "machine": machine(), "units": args.units, "graphs": graphs}
    args.measured.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    expected_path = args.out / "expected_placement.json"
    if not expected_path.exists():
        print(f"wrote {args.measured} without a comparison, because {expected_path} does not exist")
        return 0
    lines = compare(graphs, json.loads(expected_path.read_text(encoding="utf-8")))
    print("\n".join(lines + [f"{len(lines)} ops differ from the prediction; wrote {args.measured}"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

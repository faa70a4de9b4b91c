#!/usr/bin/env python3
"""Asks Core ML on a Mac where it runs each op of an export, and writes what it says to measured.json.

    scripts/confirm_on_mac.py OUT [--measured measured.json] [--units CPU_AND_NE]

OUT is a folder that `moec export --target ane` wrote, with OUT/expected_placement.json from
`moec check OUT --expected`. Needs macOS 14.4 or later and coremltools 8 or later. Each package is
compiled and loaded, its compute plan (MLComputePlan) is read, and each op's preferred device is
compared with the unit that moec predicted. `moec check OUT --measured measured.json`, on any machine,
reads the result.

This script has NOT been run on a Mac. Its pure functions are tested with a plan of the shape that
coremltools documents; what Core ML itself says is for a Mac to show.

Exits with 0, or 1 where an op that was predicted on the Neural Engine prefers another device.
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
    """The name of a compute device; None where the plan knows none."""
    return None if device is None else DEVICES.get(type(device).__name__, type(device).__name__)


def op_name(operation):
    """What moec calls a MIL operation: its first output, or "write_state STATE"."""
    if operation.outputs:
        return operation.outputs[0].name
    state = operation.inputs["input"].bindings[0].name
    return f"{operation.operator_name.rpartition('.')[2]} {state}"


def measure_op(plan, operation):
    """One op of a compute plan; ops that are folded away (const, constexpr) have no device."""
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
    """All ops of a function of a plan, in order, but for plain constants."""
    functions = plan.model_structure.program.functions
    name = function or ("main" if "main" in functions else next(iter(functions)))
    operations = functions[name].block.operations
    return [
        measure_op(plan, operation)
        for operation in operations
        if operation.operator_name.rpartition(".")[2] != "const"
    ]


def package_of(file_path):
    """The package of a model.mlmodel: "a/L00.mlpackage/Data/…" is "a/L00.mlpackage"."""
    for parent in pathlib.PurePosixPath(file_path).parents:
        if parent.suffix == ".mlpackage":
            return str(parent)
    raise ValueError(f"{file_path} lies in no .mlpackage: the export is not for Core ML")


def graphs_of(manifest):
    """(shard name, width) for each graph of the manifest."""
    return [(shard["name"], width) for shard in manifest["shards"] for width in shard["widths"]]


def differences(graph, expected):
    """Lines about ops of a measured graph that prefer another device than predicted on the Neural Engine."""
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
    """Compiles a package and loads its compute plan. Only here is coremltools needed."""
    import coremltools as ct
    from coremltools.models.compute_plan import MLComputePlan
    from coremltools.models.utils import compile_model

    compiled = compile_model(str(package), str(folder / (package.stem + ".mlmodelc")))
    return MLComputePlan.load_from_path(path=compiled, compute_units=ct.ComputeUnit[units])


def machine():
    """What measured: chip and versions."""
    import coremltools

    brand = ["sysctl", "-n", "machdep.cpu.brand_string"]
    chip = subprocess.run(brand, capture_output=True, text=True, check=True).stdout.strip()
    return {"chip": chip, "macos": platform.mac_ver()[0], "coremltools": coremltools.__version__}


def measure_export(out, units, load=load_plan):
    """measured.json's graphs. A package with several functions or widths is compiled once."""
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
                    "ops": measure_plan(plans[package], width["function"]),
                }
            )
    return graphs


def compare(graphs, expected):
    """All differences from expected_placement.json."""
    by_graph = {(g["shard"], g["tokens"]): g for g in expected["graphs"]}
    return [
        line
        for graph in graphs
        for line in differences(graph, by_graph[graph["shard"], graph["tokens"]])
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path, help="an exported folder")
    parser.add_argument("--measured", type=pathlib.Path, default=pathlib.Path("measured.json"))
    parser.add_argument("--units", default="CPU_AND_NE", help="a coremltools.ComputeUnit")
    args = parser.parse_args()
    if sys.platform != "darwin":
        parser.error("Core ML's compute plans exist on macOS only")
    graphs = measure_export(args.out, args.units)
    report = {"format": FORMAT, "version": VERSION, "machine": machine(), "units": args.units, "graphs": graphs}
    args.measured.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    expected_path = args.out / "expected_placement.json"
    if not expected_path.exists():
        print(f"wrote {args.measured}; there is no {expected_path} to compare with")
        return 0
    lines = compare(graphs, json.loads(expected_path.read_text(encoding="utf-8")))
    print("\n".join(lines + [f"{len(lines)} ops differ from the prediction; wrote {args.measured}"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

"""scripts/confirm_on_mac.py reads compute plans and compares them with the prediction. The plan here is handmade in
the shape of coremltools.models.compute_plan and was not measured on a Mac."""

import importlib.util
import json
import pathlib
import types

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "confirm_on_mac.py"
spec = importlib.util.spec_from_file_location("confirm_on_mac", SCRIPT)
confirm = importlib.util.module_from_spec(spec)
spec.loader.exec_module(confirm)


class MLNeuralEngineComputeDevice:
    pass


class MLCPUComputeDevice:
    pass


NE, CPU = MLNeuralEngineComputeDevice(), MLCPUComputeDevice()
record = types.SimpleNamespace


def operation(kind, name, device, cost=0.5):
    return record(
        operator_name=kind,
        outputs=[record(name=name)] if name else [],
        inputs={"input": record(bindings=[record(name="k_state")])},
        device=device,
        cost=cost,
    )


class Plan:
    def __init__(self, functions):
        self.model_structure = record(
            program=record(
                functions={
                    name: record(block=record(operations=ops)) for name, ops in functions.items()
                }
            )
        )

    def get_compute_device_usage_for_mlprogram_operation(self, op):
        if op.device is None:
            return None
        return record(preferred_compute_device=op.device, supported_compute_devices=[NE, CPU])

    def get_estimated_cost_for_mlprogram_operation(self, op):
        return record(weight=op.cost) if op.device else None


OPS = [
    operation("const", "axis", None),
    operation("ios17.conv", "gate", NE),
    operation("ios17.softmax", "probs", CPU),
    operation("ios16.constexpr_lut_to_dense", "w", None),
    operation("ios18.write_state", None, NE),
]


def write_export(out, function=""):
    width = {
        "tokens": 1,
        "file": {"path": "attn/L00.mlpackage/Data/com.apple.CoreML/model.mlmodel", "digest": "d" * 32},
        "function": function,
    }
    (out / "manifest.json").write_text(json.dumps({"shards": [{"name": "L00.attn", "widths": [width]}]}))


def test_measures_device_and_cost_per_op():
    assert confirm.measure_op(Plan({}), OPS[1]) == {
        "name": "gate",
        "op": "ios17.conv",
        "preferred": "neural_engine",
        "supported": ["cpu", "neural_engine"],
        "cost": 0.5,
    }


def test_folded_ops_have_no_device():
    ops = confirm.measure_plan(Plan({"main": OPS}), "")
    assert [op["name"] for op in ops] == ["gate", "probs", "w", "write_state k_state"]
    assert ops[2]["preferred"] is None and ops[2]["supported"] == [] and ops[2]["cost"] is None


def test_measures_a_function_by_name():
    plan = Plan({"t1": OPS[1:2], "t16": OPS[2:3]})
    assert [op["name"] for op in confirm.measure_plan(plan, "t16")] == ["probs"]


def test_measures_each_graph_with_its_digest(tmp_path):
    write_export(tmp_path)
    asked = []

    def load(package, units, folder):
        asked.append((package, units))
        return Plan({"main": OPS})

    graphs = confirm.measure_export(tmp_path, "CPU_AND_NE", load)
    assert asked == [(tmp_path / "attn/L00.mlpackage", "CPU_AND_NE")]
    assert [(g["shard"], g["tokens"], g["digest"]) for g in graphs] == [("L00.attn", 1, "d" * 32)]


def test_names_only_mispredicted_ops():
    graph = {"shard": "L00.attn", "tokens": 1, "ops": confirm.measure_plan(Plan({"main": OPS}), "")}
    predicted = [
        {"name": "gate", "op": "conv", "unit": "Neural Engine"},
        {"name": "probs", "op": "softmax", "unit": "Neural Engine"},
        {"name": "w", "op": "conv", "unit": "CPU", "rule": "P3"},
    ]
    expected = {"graphs": [{"shard": "L00.attn", "tokens": 1, "ops": predicted}]}
    lines = confirm.compare([graph], expected)
    assert len(lines) == 1
    assert "probs (softmax)" in lines[0] and "prefers cpu" in lines[0]


def test_rejects_files_outside_packages():
    with pytest.raises(ValueError, match="not in an .mlpackage"):
        confirm.package_of("attn/L00.onnx")

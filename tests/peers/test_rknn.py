"""Rockchip's compiler places ops of golden cases as targets/rknn.json predicts; its simulator matches PyTorch's results.

    scripts/install_vendors.sh rknn
    build/vendors/rknn/bin/pytest tests/peers/test_rknn.py

Skipped if the package rknn-toolkit2 is missing, which needs 1.5 GB with its dependencies.
"""

import json
import sys

import pytest

pytest.importorskip("rknn.api")

import confirm_with_rknn as rknn  # noqa: E402
from comparison import Comparison  # noqa: E402
from confirmation import Emulated, measure  # noqa: E402

CHIP = "rk3588"
CASES = ("tinymoe", "mixtral_a", "deepseek_v3_b")
SHARD_COSINE, CHAIN_COSINE = 0.9999, 0.999


def widths(case):
    return ("--tokens", "1,16" if case.startswith("tiny") else "1,24")


@pytest.mark.parametrize("case", CASES)
def test_command_confirms_predictions(case, export, golden, moec, worst, tmp_path):
    want = golden(case)
    folder = export(want.checkpoint, "--target", "rknn", *widths(case))
    said = moec("confirm", folder, "--engine", "rknn", "--chip", CHIP, "--golden", want.folder, "--python", sys.executable,
                "--script", rknn.__file__)
    assert "PASSED" in said
    measured = json.loads((folder / "measured.json").read_text())
    cosines = [graph["cosine"] for graph in measured["graphs"]]
    for what, cosine in (("shard", min(cosines)), ("chain", measured["chain"]["cosine"])):
        worst[f"rknn {CHIP} {what}"].add(Comparison(cosine=cosine, comparisons=1))
    assert min(cosines) >= SHARD_COSINE
    assert measured["chain"]["cosine"] >= CHAIN_COSINE
    assert measured["chain"]["rows"] - measured["chain"]["same_top1"] <= 1
    moec("check", folder, "--chip", CHIP, "--measured", folder / "measured.json")


def test_odd_heads_are_reshaped_on_the_cpu(export, golden):
    """gpt_oss_a has heads of size 12: its reshapes are the only ops that leave the NPU without a rule, and the
    results are still correct."""
    want = golden("gpt_oss_a")
    folder = export(want.checkpoint, "--target", "rknn", *widths("gpt_oss_a"))
    measured = measure(Emulated(folder, rknn.Compiler(CHIP)), want.folder, run=True)
    elsewhere = {op["op"] for graph in measured["graphs"] for op in graph["ops"] if op["preferred"] != rknn.UNIT}
    assert elsewhere == {"Reshape", "Greater", "Less", "Equal", "Min", "Exp", "ReduceMax"}
    assert min(graph["cosine"] for graph in measured["graphs"]) >= SHARD_COSINE
    assert measured["chain"]["same_top1"] == measured["chain"]["rows"]


def units_of(measured, op):
    return {one["preferred"] for graph in measured["graphs"] for one in graph["ops"] if one["op"] == op}


def test_norms_with_a_division_fuse_on_the_npu(export, golden):
    """Norms with a reciprocal do not fuse."""
    checkpoint = golden("mixtral_a").checkpoint
    compiler = rknn.Compiler(CHIP)
    divided = measure(Emulated(export(checkpoint, "--target", "rknn", "--tokens", "1"), compiler), None, run=False)
    plain = measure(Emulated(export(checkpoint, "--tokens", "1"), compiler), None, run=False)
    assert "exNorm" in {op["rknn_op"] for graph in divided["graphs"] for op in graph["ops"]}
    assert units_of(divided, "Reciprocal") == set() and units_of(divided, "Div") <= {"NPU"}
    assert units_of(plain, "Reciprocal") == {"CPU"}


def test_compiled_files_are_kept_on_request(export, golden, tmp_path):
    folder = export(golden("mixtral_a").checkpoint, "--target", "rknn", "--tokens", "1")
    emulated = Emulated(folder, rknn.Compiler(CHIP))
    measure(emulated, None, run=False)
    emulated.compiler.write_contexts(emulated, tmp_path / "contexts")
    listed = json.loads((tmp_path / "contexts/contexts.json").read_text())
    assert listed["machine"] == {"engine": "rknn", "version": "2.5.0", "chip": CHIP,
                                 "packages": "rknn-toolkit2 2.5.0, onnx 1.16.1"}
    assert {file["path"] for file in listed["files"]} == {
        path.relative_to(tmp_path / "contexts").as_posix() for path in (tmp_path / "contexts").rglob("*.rknn")}
    assert len(listed["files"]) == len(emulated.manifest["shards"])


ROW = "D RKNN: [08:56:20.290] {} {} FLOAT16  {}    (1,128,1,1)  (1,1,1,1)  0/0/0  0  {}\n"


def test_rows_map_to_the_replaced_nodes():
    rows = [("InputOperator", "CPU", "InputOperator:x"), ("exNorm", "NPU", "exNorm:norm/mean_2rmsn"),
            ("Div", "CPU", "Div:norm/inverse#1"), ("Min", "CPU", "Min:clamped"), ("ConvMul", "NPU", "Conv:up_ConvMul"),
            ("Reshape", "NPU", "Reshape:heads"), ("Transpose", "CPU", "Transpose:heads_tp"),
            ("Reshape", "CPU", "Reshape:state_tp_rs"), ("Reshape", "NPU", "Reshape:other_rs")]
    log = "".join(ROW.format(index, *row) for index, row in enumerate(rows))
    log += "No lowering found for: clamped, node type = Min, use CustomOperatorLower instead.\n"
    nodes = {"norm/mean": "ReduceMean", "norm/inverse": "Reciprocal", "clamped": "Min", "up": "Conv", "heads": "Reshape"}
    ops, others = rknn.placed_ops(log, nodes)
    assert {op["name"]: (op["op"], op["preferred"]) for op in ops} == {
        "norm/mean": ("ReduceMean", "NPU"), "norm/inverse": ("Reciprocal", "CPU"), "clamped": ("Min", "CPU"),
        "up": ("Conv", "NPU"), "heads": ("Reshape", "CPU")}
    assert next(op["message"] for op in ops if op["name"] == "clamped").startswith("node type = Min")
    assert others == [{"name": "Reshape:state_tp_rs", "op": "Reshape", "preferred": "CPU"}]

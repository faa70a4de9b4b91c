"""Qualcomm's plugin of LiteRT takes every op of cases with different mixers, and its results match LiteRT's on the CPU.

    scripts/install_vendors.sh litert-qnn
    build/vendors/litert-qnn/bin/pytest tests/peers/test_litert_qnn.py

Skipped if a package of the environment is missing; the licence of onnxruntime-qnn requires that users install it
themselves.
"""

import json
import os
import subprocess
import sys

import pytest

for package in ("ai_edge_litert", "onnx", "onnxruntime_qnn"):
    pytest.importorskip(package)

import confirm_with_litert_qnn as litert_qnn  # noqa: E402
from comparison import Comparison  # noqa: E402
from confirmation import measure  # noqa: E402

CHIP = "v75"
# Attention with grouped heads, with a latent cache, with an index, with sinks and in chunks; gated delta rules, Mamba 2,
# short convolutions, and convolutions before attention.
CASES = ("tinymoe", "deepseek_v2_b", "deepseek_v32_a", "gpt_oss_d", "llama4_text_a", "qwen3_next_a", "kimi_linear_a",
         "nemotron_h_a", "granitemoehybrid_a", "lfm2_moe_a", "zaya_b")
# LiteRT has no grouped convolutions of f16 on the CPU, with which the results of the NPU are compared.
ONLY_SINGLE = ("zaya_b",)
SHARD_COSINE, CHAIN_COSINE = 0.9999, 0.9998


def widths(case):
    return ("--tokens", "1,16" if case.startswith("tiny") else "1,8")


@pytest.fixture
def compiled(export, golden):
    def open_export(case, *flags, chip=CHIP):
        flags = flags or ("--target", "litert-qnn", "--dtype", "f32" if case in ONLY_SINGLE else "f16")
        folder = export(golden(case).checkpoint, *flags, *widths(case))
        return litert_qnn.Compiled(folder, litert_qnn.Compiler(chip))

    return open_export


def check_placement(measured):
    """Every op on the NPU, in one partition per graph. The partitions of a file are numbered in the order of widths."""
    assert [graph["error"] for graph in measured["graphs"] if "error" in graph] == []
    assert {op["preferred"] for graph in measured["graphs"] for op in graph["ops"]} == {litert_qnn.UNIT}
    assert {graph["partitions"] for graph in measured["graphs"]} == {1}
    assert {(graph["tokens"] > 1, graph["partition"]) for graph in measured["graphs"]} == {
        (False, "qnn_partition_0"), (True, "qnn_partition_1")}


@pytest.mark.parametrize("chip", litert_qnn.CHIPS)
@pytest.mark.parametrize("case", CASES)
def test_shards_and_chains_match(case, chip, compiled, golden, worst):
    measured = measure(compiled(case, chip=chip), golden(case).folder, run=True)
    check_placement(measured)
    cosines = [graph["cosine"] for graph in measured["graphs"] if "cosine" in graph]
    worst[f"litert-qnn {chip} graphs"].add(Comparison(cosine=min(cosines), comparisons=len(measured["graphs"])))
    worst[f"litert-qnn {chip} chains"].add(Comparison(cosine=measured["chain"]["cosine"], comparisons=1))
    worst[f"litert-qnn {chip} ops"].add(Comparison(comparisons=sum(len(graph["ops"]) for graph in measured["graphs"])))
    assert min(cosines) >= SHARD_COSINE
    assert measured["chain"]["cosine"] >= CHAIN_COSINE


@pytest.mark.parametrize("case", ["deepseek_v2_b", "gpt_oss_d"])
def test_results_are_wrong_without_the_rules(case, compiled, golden):
    """Exports for the target litert, in which the last head receives the values of the first, or an exp is NaN."""
    measured = measure(compiled(case, "--target", "litert", "--dtype", "f16"), golden(case).folder, run=True)
    check_placement(measured)
    assert min(graph["cosine"] for graph in measured["graphs"] if "cosine" in graph) < 0.99


def test_single_precision_runs_in_half(compiled, golden):
    measured = measure(compiled("tinymoe", "--target", "litert"), golden("tinymoe").folder, run=True)
    check_placement(measured)
    assert min(graph["cosine"] for graph in measured["graphs"]) >= SHARD_COSINE


def test_keeps_rows_of_eight_bits(compiled, golden):
    flags = ("--target", "litert-qnn", "--dtype", "f32", "--weights", "int8")
    measured = measure(compiled("tinymoe", *flags), golden("tinymoe").folder, run=True)
    check_placement(measured)
    assert min(graph["cosine"] for graph in measured["graphs"]) >= SHARD_COSINE
    assert measured["chain"]["cosine"] >= CHAIN_COSINE


def test_reports_refused_blocks(compiled):
    """The plugin refuses the whole file, which the target litert-qnn predicts."""
    measured = measure(compiled("tinymoe", "--target", "litert", "--weights", "attn=int4:32"), None, run=True)
    assert {"error" in graph for graph in measured["graphs"] if "attn" in graph["shard"]} == {True}
    assert {"error" in graph for graph in measured["graphs"] if "moe" in graph["shard"]} == {False}
    assert any("Unsupported quantization type" in graph.get("error", "") for graph in measured["graphs"])


def test_lists_ops_outside_partitions(compiled):
    measured = measure(compiled("tinymoe", "--target", "litert", "--routing", "topk"), None, run=True)
    split = [graph for graph in measured["graphs"] if graph["partitions"] > 1]
    assert {graph["shard"].partition(".")[2] for graph in split} == {"moe"}
    assert all("outside the plugin's 2 partitions" in graph["error"] for graph in split)
    left = {op["op"] for graph in split for op in graph["ops"] if op["preferred"] != litert_qnn.UNIT}
    assert left == {"RESHAPE", "EQUAL"}  # of the int32 indices of TOPK_V2


def test_command_confirms_and_keeps_files(export, golden, moec, tmp_path):
    want = golden("mixtral_a")
    folder = export(want.checkpoint, "--target", "litert-qnn", *widths("mixtral_a"))
    said = moec("confirm", folder, "--engine", "litert-qnn", "--golden", want.folder, "--python", sys.executable, "--script",
                litert_qnn.__file__, "--context-binaries", tmp_path)
    ops = sum(len(graph["ops"]) for graph in json.loads((folder / "measured.json").read_text())["graphs"])
    assert f"for {CHIP}: {ops} of {ops} ops\nPASSED" in said
    listed = json.loads((tmp_path / "contexts.json").read_text())
    shards = json.loads((folder / "manifest.json").read_text())["shards"]
    assert listed["shares_weights"] and len(listed["files"]) == len(shards)
    assert all((tmp_path / file["path"]).stat().st_size == file["bytes"] for file in listed["files"])


def refusal(*python, **environment):
    done = subprocess.run([*python, litert_qnn.__file__, "out"], capture_output=True, text=True,
                          env={**os.environ, **environment})
    assert done.returncode == 2
    return done.stderr


def test_names_missing_packages():
    assert "error[confirm.package]: No module named" in refusal(sys.executable, "-S")


def test_names_a_missing_compiler():
    assert "install a C compiler" in refusal(sys.executable, CC="no-such-cc")

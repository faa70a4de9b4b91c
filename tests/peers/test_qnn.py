"""Qualcomm's compiler places every op of every golden case on the NPU, and its emulator matches PyTorch's results.

    scripts/install_vendors.sh
    build/vendors/qnn/bin/pytest tests/peers/test_qnn.py

Skipped if the package onnxruntime-qnn is missing; its licence requires that users install it themselves.
"""

import itertools
import json
import shutil
import sys

import numpy as np
import pytest

pytest.importorskip("onnxruntime_qnn")

import confirm_with_qnn as qnn  # noqa: E402
from comparison import Comparison  # noqa: E402
from confirmation import Emulated, measure, read_steps  # noqa: E402
from goldens import CASES, REPO, WRITERS  # noqa: E402
from safetensors_files import read_checkpoint, write_tensors  # noqa: E402

CHIP, OTHER_CHIPS = "v75", ("v73", "v79")
CODES = ("--form", "matmul", "--weights", "attn=int8:32,head=int4:32")
SHARD_COSINE, CHAIN_COSINE = 0.99999, 0.9998
# Minimum chain cosine for recurrent mixers, whose states are f32 in the graph and f16 on the NPU.
RECURRENT_CHAIN = 0.998
# In rows of the golden whose most likely token differs in the emulator, f16 nearly ties: the golden's two largest
# logits are closer than NEAR standard deviations of the row.
NEAR = 0.05


def most_tokens(case):
    return "16" if case.startswith("tiny") else "24"


def widths(case):
    return ("--tokens", f"1,{most_tokens(case)}")


@pytest.fixture(scope="module")
def compiler():
    compilers = {}
    return lambda chip: compilers.setdefault(chip, qnn.Compiler(chip))


@pytest.fixture
def emulated(export, golden, compiler):
    def open_export(case, *flags):
        folder = export(golden(case).checkpoint, "--target", "qnn", *widths(case), *flags)
        return Emulated(folder, compiler(CHIP))

    return open_export


def ops_elsewhere(measured):
    return [(graph["shard"], op) for graph in measured["graphs"] for op in graph["ops"] if op["preferred"] != qnn.UNIT]


def check_placement(measured, manifest):
    assert [graph for graph in measured["graphs"] if "error" in graph] == []
    assert ops_elsewhere(measured) == []
    listed = {(shard["name"], width["tokens"]) for shard in manifest["shards"] for width in shard["widths"]}
    assert {(graph["shard"], graph["tokens"]) for graph in measured["graphs"] if graph["ops"]} == listed


def leads_of_other_tokens(emulated, golden):
    """The logit margin of the golden's token, for each row in which the chain's token differs, in standard deviations."""
    emulated.reset()
    leads = []
    for tokens, logits in read_steps(golden.folder, emulated.manifest):
        for row, wanted in zip(emulated.feed(tokens), logits):
            if row.argmax() != wanted.argmax():
                leads.append(float((wanted.max() - wanted[row.argmax()]) / wanted.std()))
    return leads


@pytest.mark.parametrize("case", WRITERS)
def test_shards_and_chains_match_the_golden(case, emulated, golden, worst):
    running, want = emulated(case), golden(case)
    measured = measure(running, want.folder, run=True)
    check_placement(measured, running.manifest)
    recurrent = any(cache["state"] for cache in running.manifest["caches"])
    far = {(graph["shard"], graph["tokens"]): graph["cosine"] for graph in measured["graphs"]
           if graph.get("cosine", 1) < SHARD_COSINE}
    assert far == {}
    for what, cosine in (("shard", min(graph.get("cosine", 1) for graph in measured["graphs"])),
                         ("chain", measured["chain"]["cosine"])):
        worst[f"qnn {CHIP} {what}"].add(Comparison(cosine=cosine, comparisons=1))
    assert measured["chain"]["cosine"] >= (RECURRENT_CHAIN if recurrent else CHAIN_COSINE)
    leads = leads_of_other_tokens(running, want)
    assert len(leads) == measured["chain"]["rows"] - measured["chain"]["same_top1"]
    assert [lead for lead in leads if lead > NEAR] == []
    assert len(leads) <= 2


# Scales weights of the golden, selected by a part of their names: squares of the activations overflow f16, even if the
# file computes them in f32. At these factors no two experts of kimi_linear_a nearly tie; at 100 f16 chooses another one.
SCALES = [("qwen3_next_a", "conv1d", 100), ("kimi_linear_a", "conv1d", 150), ("qwen3_next_a", "conv1d", 0.1),
          ("nemotron_h_a", "embeddings", 3000), ("mixtral_a", "embed_tokens", 3000)]


@pytest.mark.parametrize(("case", "weights", "factor"), SCALES)
def test_squares_beyond_f16_are_preserved(case, weights, factor, export, golden, compiler, tmp_path):
    checkpoint = golden(case).checkpoint
    tensors = read_checkpoint(checkpoint)
    scaled = {name: values * np.float32(factor) if weights in name else values for name, values in tensors.items()}
    assert any(not np.array_equal(scaled[name], tensors[name]) for name in tensors)
    write_tensors(tmp_path / "model.safetensors", scaled)
    shutil.copy(checkpoint / "config.json", tmp_path)
    running = Emulated(export(tmp_path, "--target", "qnn", *widths(case)), compiler(CHIP))
    measured = measure(running, None, run=True)
    assert min(graph["cosine"] for graph in measured["graphs"] if "cosine" in graph) >= SHARD_COSINE


# Neighbours in the list are of one family, so nearly every family is compiled for each chip. Graphs for one token have no
# ops that the wider ones lack (test_onnx_files.py); test_shards_and_chains_match_the_golden() compiles both.
@pytest.mark.parametrize(("case", "chip"), list(zip(CASES, itertools.cycle(OTHER_CHIPS))))
def test_every_op_runs_on_other_npus(case, chip, export, golden, compiler):
    folder = export(golden(case).checkpoint, "--target", "qnn", "--tokens", most_tokens(case))
    running = Emulated(folder, compiler(chip))
    check_placement(measure(running, None, run=False), running.manifest)


@pytest.mark.parametrize("case", ["deepseek_v2_b", "gpt_oss_d"])
def test_replaced_ops_are_wrong_without_the_passes(case, export, golden, compiler):
    """With a plain slice, the last of deepseek_v2_b's five heads receives the values of the first. In gpt_oss_d, exp of a
    masked score of -40032 is NaN."""
    want = golden(case)
    folder = export(want.checkpoint, "--target", "onnx", "--dtype", "f16", *widths(case))
    measured = measure(Emulated(folder, compiler(CHIP)), want.folder, run=True)
    assert ops_elsewhere(measured) == []
    assert min(graph["cosine"] for graph in measured["graphs"] if "cosine" in graph) < 0.99
    assert measured["chain"]["cosine"] < 0.997


def test_blocked_codes_stay_on_the_npu(emulated, golden):
    running = emulated("tinymoe", *CODES)
    measured = measure(running, golden("tinymoe").folder, run=True)
    assert ops_elsewhere(measured) == []
    assert {op["op"] for graph in measured["graphs"] for op in graph["ops"]} >= {"MatMulNBits"}
    assert min(graph["cosine"] for graph in measured["graphs"] if "cosine" in graph) >= SHARD_COSINE


def refusals(emulated):
    refused = ops_elsewhere(measure(emulated, None, run=False))
    assert refused and {op["op"] for _, op in refused} == {"MatMulNBits"}
    return {op["message"] for _, op in refused}


def test_reports_reasons_for_unsupported_ops(export, golden, compiler):
    folder = export(golden("tinymoe").checkpoint, "--target", "qnn", *widths("tinymoe"), *CODES)
    assert all(refusals(Emulated(folder, compiler("v68"))))


def without_rule(rule, folder):
    """The target qnn without one rule, as a separate file."""
    target = json.loads((REPO / "backends/targets/qnn.json").read_text())
    kept = [each for each in target["rules"] if each["id"] != rule]
    assert len(kept) == len(target["rules"]) - 1
    (folder / "qnn.json").write_text(json.dumps(target | {"rules": kept}))
    return folder / "qnn.json"


def test_rejects_blocks_that_do_not_divide_inputs(export, golden, compiler, tmp_path):
    """Rule Q14 rejects them, and so does the compiler without the rule. The last projection of tinymoe's experts
    has 48 inputs."""
    flags = (*widths("tinymoe"), "--form", "matmul", "--weights", "experts=int4:32")
    checkpoint = golden("tinymoe").checkpoint
    with pytest.raises(AssertionError, match="target.Q14"):
        export(checkpoint, "--target", "qnn", *flags)
    folder = export(checkpoint, "--target", without_rule("Q14", tmp_path), *flags)
    assert refusals(Emulated(folder, compiler(CHIP))) == {"K must be divisible by block_size."}


def test_command_confirms_and_keeps_contexts(export, golden, moec, tmp_path):
    want = golden("mixtral_a")
    folder = export(want.checkpoint, "--target", "qnn", *widths("mixtral_a"))
    contexts = tmp_path / "contexts"
    said = moec("confirm", folder, "--chip", CHIP, "--golden", want.folder, "--python", sys.executable, "--script",
                qnn.__file__, "--context-binaries", contexts)
    ops = sum(len(graph["ops"]) for graph in json.loads((folder / "measured.json").read_text())["graphs"])
    assert f"confirmed by qnn 2.51.0 for {CHIP}: {ops} of {ops} ops\nPASSED" in said
    assert f"{ops} of {ops} ops\nPASSED" in moec("check", folder, "--measured", folder / "measured.json")
    listed = json.loads((contexts / "contexts.json").read_text())
    assert listed["machine"]["chip"] == CHIP
    written = {path.relative_to(contexts).as_posix() for path in contexts.rglob("*.*") if path.suffix != ".json"}
    assert {file["path"] for file in listed["files"]} == written
    shards = json.loads((folder / "manifest.json").read_text())["shards"]
    assert sum(name.endswith(".bin") for name in written) == len(shards)  # both widths share one context

"""Pruned checkpoints, and exports without masked experts, equal masked exports in onnxruntime."""

import json

import numpy as np
import pytest

from goldens import REPO
from run_with_onnxruntime import Runner

TINYMOE = REPO / "models/tinymoe"
TOKENS = list(b"def f(x): return")
MASK = "L0:0-11;L1:4-15;L2:0-5,10-15;L3:1-12"


def logits(folder):
    return Runner(folder, threads=1).feed(TOKENS)


@pytest.mark.parametrize("by", ["saliency", "count"])
def test_pruned_model_equals_the_masked_one(by, moec, tmp_path):
    moec("analyze", TINYMOE, "--prompts", "default", "--out", tmp_path / "analysis", "--quiet")
    report = json.loads(moec("prune", TINYMOE, "--keep", 12, "--by", by, "--profile", tmp_path / "analysis", "--out",
                             tmp_path / "pruned", "--json"))
    assert report["bytes"]["experts"] * 4 == report["bytes_before"]["experts"] * 3
    width = ("--tokens", len(TOKENS), "--quiet")
    moec("export", tmp_path / "pruned", "--out", tmp_path / "few", *width)
    moec("export", TINYMOE, "--expert-mask", report["expert_mask"], "--out", tmp_path / "masked", *width)
    wanted = logits(tmp_path / "masked")
    # onnxruntime sums the shares of 12 and of 16 experts in different orders.
    assert np.abs(logits(tmp_path / "few") - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("flags", [(), ("--experts-per-shard", 4)])
def test_export_without_masked_experts_equals_the_masked_one(flags, moec, tmp_path):
    width = ("--tokens", len(TOKENS), "--quiet", "--expert-mask", MASK, *flags)
    moec("export", TINYMOE, "--out", tmp_path / "masked", *width)
    moec("export", TINYMOE, "--drop-masked", "--out", tmp_path / "dropped", *width)
    moec("check", tmp_path / "dropped")
    assert (logits(tmp_path / "dropped") == logits(tmp_path / "masked")).all()

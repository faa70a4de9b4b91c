"""Runs exports with --compat genai, static shards as a pipeline, in unmodified onnxruntime-genai."""

import sys

import numpy as np
import pytest

from comparison import compare
from run_with_onnxruntime import Runner

pytest.importorskip("onnxruntime_genai")

from validate_with_genai import Model  # noqa: E402

PIPELINE = ("--compat", "genai", "--tokens", "1,16")
LARGEST_ERROR = 1e-5
# tinymoe, latent attention, windows and sinks, chunks, and two rotations with windows.
CASES = ("tinymoe", "deepseek_v3_a", "gpt_oss_a", "llama4_text_a", "gemma4_a")


def expect_equal(folder, prompt, largest_error, worst=None):
    """Compares logits and 12 greedy tokens with those of the static graphs, one token at a time."""
    static = Runner(folder, threads=1)
    static.manifest["model"]["eos_tokens"] = []
    wanted = [np.ravel(static.feed([token])) for token in prompt][-1]
    model = Model(folder)
    (got,) = model.logits_after([prompt])
    figures = compare(got, wanted)
    assert figures.relative_l2 <= largest_error
    if worst:
        worst["onnxruntime-genai, pipeline"].add(figures)
    static.reset()
    assert model.same_text(model.greedy(prompt, 12), list(static.generate(prompt, 12))) == 12


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("length", (1, 12, 16, 40))
def test_logits_and_text_equal_static_graphs(case, length, export, golden, worst):
    folder = export(golden(case).checkpoint, *PIPELINE)
    vocab = Runner(folder, threads=1).manifest["model"]["vocab"]
    prompt = np.random.default_rng(5).integers(0, vocab, length).tolist()
    expect_equal(folder, prompt, LARGEST_ERROR, worst)


@pytest.mark.parametrize("options", (("--routing", "host"), ("--head-slices", "2"), ("--layers-per-shard", "2"),
                                     ("--form", "matmul")))
def test_forms_equal_static_graphs(options, export, golden):
    expect_equal(export(golden("tinymoe").checkpoint, *PIPELINE, *options), golden("tinymoe").prompt, LARGEST_ERROR)


def test_npu_shards_equal_static_graphs(export, golden):
    """f16, with the layout of convolutions."""
    folder = export(golden("tinymoe").checkpoint, *PIPELINE, "--target", "qnn")
    expect_equal(folder, golden("tinymoe").prompt, 2e-3)


# A prompt that ends in the pad id, and a prompt that fills its windows.
def test_pad_id_is_a_token(export, golden):
    folder = export(golden("tinymoe").checkpoint, *PIPELINE)
    expect_equal(folder, [*golden("tinymoe").prompt[:7], 0], LARGEST_ERROR)


def test_validate_runs_the_pipeline(export, golden, moec):
    folder = export(golden("tinymoe").checkpoint, *PIPELINE)
    assert "greedy text: 64 of 64 tokens equal\nPASSED" in moec(
        "validate", folder, "--golden", golden("tinymoe").folder, "--engine", "onnxruntime-genai",
        "--python", sys.executable)

"""A runtime that uses only the manifest and onnxruntime generates the same text as transformers."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from comparison import compare
from goldens import CASES, REPO, WRITERS
from run_with_onnxruntime import CPU, Runner, find_provider

# Form, experts, routing, attention, slices and widths, combined so that each value occurs at least once.
EXPORTS = {
    "one_width": (),
    "prefill": ("--tokens", "1,16"),
    "three_widths": ("--tokens", "1,5,32", "--attention", "per_head"),
    "matmul": ("--tokens", "1,16", "--form", "matmul", "--head-slices", "3"),
    "bank": ("--tokens", "1,16", "--experts", "bank"),
    "bank_matmul": ("--tokens", "1,16", "--experts", "bank", "--form", "matmul"),
    "bank_split": ("--tokens", "1,16", "--experts", "bank", "--bank-channel-limit", "400"),
    "iterate": ("--tokens", "1,16", "--routing", "iterate", "--head-slices", "7"),
    "iterate_matmul_bank": ("--routing", "iterate", "--form", "matmul", "--experts", "bank"),
    "topk": ("--tokens", "1,16", "--routing", "topk"),
    "topk_matmul": ("--tokens", "1,16", "--routing", "topk", "--form", "matmul"),
    "whole_layers": ("--tokens", "1,16", "--layers-per-shard", "fit"),
    "host": ("--tokens", "1,16", "--routing", "host"),
    "host_groups": ("--tokens", "1,16", "--routing", "host", "--experts-per-shard", "3"),
    "host_bank_groups": ("--tokens", "1,16", "--routing", "host", "--experts-per-shard", "4",
                         "--experts", "bank", "--form", "matmul", "--head-slices", "2"),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_tinymoe_generates_the_golden_text(name, runner, golden):
    want = golden("tinymoe")
    assert len(want.greedy) == 64
    assert list(runner("tinymoe", *EXPORTS[name]).generate(want.prompt, 64)) == want.greedy


@pytest.mark.parametrize("name", ["host_groups", "host_bank_groups"])
def test_skipping_idle_groups_keeps_results(name, runner, golden):
    prompt = golden("tinymoe").prompt
    skipping = runner("tinymoe", *EXPORTS[name])
    skipped_logits = [skipping.feed(prompt[:20]), skipping.feed(prompt[20:21])]
    skipped_steps = skipping.skipped_steps
    full = runner("tinymoe", *EXPORTS[name])
    full.skip_idle_groups = False
    full_logits = [full.feed(prompt[:20]), full.feed(prompt[20:21])]
    full.skip_idle_groups = True
    assert full.skipped_steps == 0
    # Each token has two experts per layer, so at most two groups per layer run for the last token.
    layers = full.manifest["model"]["layers"]
    groups = sum(shard["kind"] == "experts" for shard in full.manifest["shards"])
    assert skipped_steps >= groups - 2 * layers
    for skipped, wanted in zip(skipped_logits, full_logits):
        np.testing.assert_array_equal(skipped, wanted)


@pytest.mark.parametrize("case", CASES)
def test_chained_logits_match_the_golden(case, runner, golden, worst):
    want = golden(case)
    running = runner(case, "--tokens", "1,16")
    for step, position, tokens in want.steps:
        assert running.position == position
        logits, wanted = running.feed(tokens), want.rows(step, "logits")
        figures = compare(logits, wanted)
        worst["f32 chained logits"].add(figures)
        assert figures.relative_l2 <= 1e-4
        np.testing.assert_array_equal(logits.argmax(axis=1), wanted.argmax(axis=1))


@pytest.mark.parametrize("case", WRITERS)
def test_greedy_tokens_match_every_golden(case, runner, golden):
    want = golden(case)
    written = runner(case, "--tokens", "1,16").generate(want.prompt, len(want.greedy))
    assert list(written) == want.greedy


def test_token_by_token_prompt_gives_equal_logits(runner, golden):
    prompt = golden("tinymoe").prompt
    at_once = runner("tinymoe", "--tokens", "1,16").feed(prompt)
    running = runner("tinymoe", "--tokens", "1,16")
    one_by_one = np.concatenate([running.feed([token]) for token in prompt])
    assert compare(one_by_one, at_once).relative_l2 <= 1e-5


def test_script_generates_the_golden_text(export, golden):
    want = golden("tinymoe")
    out = export(want.checkpoint, "--tokens", "1,16")
    script = REPO / "scripts/run_with_onnxruntime.py"
    command = [sys.executable, script, out, "--prompt", bytes(want.prompt), "--max-tokens", "64"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.strip(b"\n") == bytes(want.greedy)


def train_tokenizer(vocab):
    """Trains a byte-level BPE with `vocab` tokens, all of them ASCII."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocab, show_progress=False)
    tokenizer.train_from_iterator([Path(__file__).read_text()], trainer)
    assert tokenizer.get_vocab_size() == vocab
    return tokenizer


def test_script_uses_the_exported_tokenizer(runner, golden, moec, tmp_path):
    checkpoint = shutil.copytree(golden("mixtral_b").checkpoint, tmp_path / "checkpoint")
    tokenizer = train_tokenizer(vocab=101)
    tokenizer.save(str(checkpoint / "tokenizer.json"))
    moec("export", checkpoint, "--out", tmp_path / "out", "--tokens", "1,16", "--quiet")

    ids = tokenizer.encode("tokens of the test").ids
    assert 4 < len(ids) < len("tokens of the test")
    written = list(runner("mixtral_b", "--tokens", "1,16").generate(ids, 24))

    script = REPO / "scripts/run_with_onnxruntime.py"
    command = [sys.executable, script, tmp_path / "out", "--prompt", "tokens of the test", "--max-tokens", "24"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout == tokenizer.decode(written)


def test_script_requires_token_ids_without_tokenizer(golden, export):
    out = export(golden("mixtral_b").checkpoint, "--tokens", "1,16")
    script = REPO / "scripts/run_with_onnxruntime.py"
    command = [sys.executable, script, out, "--prompt", "text"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "pass --prompt-tokens" in done.stderr
    command = [sys.executable, script, out, "--prompt-tokens", "3,1,4", "--max-tokens", "5"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert len(done.stdout.split()) == 5


def test_script_explains_unsupported_exports_in_one_line(golden, export, tmp_path):
    case = golden("tinymoe").checkpoint
    onnx = export(case, "--tokens", "1,16", "--context", "32")
    coreml = export(case, "--target", "ane", "--kv", "io")
    for folder, prompt, said in ((tmp_path / "none", "a", "manifest.json"),
                                 (coreml, "a", "files: export with --target onnx"),
                                 (onnx, "", "the prompt is empty"),
                                 (onnx, "a" * 33, "33 tokens exceed the context of 32")):
        command = [sys.executable, REPO / "scripts/run_with_onnxruntime.py", folder, "--prompt", prompt]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr
        assert done.stderr.count("\n") == 1 and not done.stdout
    command = [sys.executable, REPO / "scripts/run_with_onnxruntime.py", onnx, "--prompt", "a" * 30]
    done = subprocess.run(command, capture_output=True, check=True)
    assert len(done.stdout.rstrip(b"\n")) == 3  # the last token is not fed back


def test_bidirectional_tokens_run_in_one_pass(runner, golden, export):
    tokens = golden("openai_privacy_filter_a").steps[0][2]
    narrow = runner("openai_privacy_filter_a", "--tokens", "5")
    with pytest.raises(ValueError, match="export with --tokens 15"):
        narrow.feed(tokens)
    script = REPO / "scripts/run_with_onnxruntime.py"
    out = export(golden("openai_privacy_filter_a").checkpoint, "--tokens", "5")
    done = subprocess.run([sys.executable, script, out, "--prompt-tokens", "1,2"], capture_output=True, text=True)
    assert done.returncode == 2 and "this model labels tokens" in done.stderr


def test_rejects_tokens_beyond_the_context(runner):
    running = runner("mixtral_b", "--tokens", "1,16", "--context", "20")
    running.feed(list(range(16)))
    with pytest.raises(ValueError, match="context is full"):
        running.feed(list(range(5)))


@pytest.mark.parametrize("form", ["conv", "matmul"])
def test_shared_weights_give_equal_text(form, export, golden):
    want = golden("tinymoe")
    folder = export(want.checkpoint, "--tokens", "1,16", "--form", form)
    shared = Runner(folder, threads=1, packed=False)
    assert list(shared.generate(want.prompt, 20)) == want.greedy[:20]
    sizes = [array.nbytes for _, array in shared.weights.mapped.values()]
    assert 0 < sum(sizes) <= sum(file.stat().st_size for file in folder.rglob("*.data"))  # both widths together


def test_parses_providers_and_their_options():
    assert find_provider("cpu") == (CPU, {})
    assert find_provider("CPUExecutionProvider=use_arena=0,x=a=b") == (CPU, {"use_arena": "0", "x": "a=b"})
    with pytest.raises(ValueError, match="no provider QNN2; it has .*CPUExecutionProvider"):
        find_provider("QNN2")
    with pytest.raises(ValueError, match="use_arena has no value"):
        find_provider("CPU=use_arena")

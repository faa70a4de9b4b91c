#!/usr/bin/env python3
"""Compares moec with the model builder of onnxruntime-genai: folders in 4 bits from the same checkpoint, an lfm2_moe
model of 503 M parameters with random weights.

    scripts/bench/genai_builder.py [--moec build/release/frontends/moec] [--folder build/bench/builder] [--threads 1]
        [--rounds 12] [--json]

Reports time and peak memory of each export, tokens/s of prefill (128 tokens) and decode (64 tokens), peak memory of the
engine for one prompt, and KL from transformers in f32 over 96 random tokens. The engines alternate every 8 tokens.
Install in a separate environment:

    pip install torch==2.13.0                    # first: this pin gives a CPU build
    pip install transformers==5.23.0 onnx onnx_ir onnxruntime onnxruntime-genai==0.18.0
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import sys

import numpy as np

from engines import Child, peak_bytes
from measured import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TINYMOE = ROOT / "models/tinymoe"
VOCAB, CONTEXT, PROMPT, DECODE, SLICE, TEXT = 49152, 512, 128, 64, 8, 96
KINDS = ("conv", "conv", "full_attention") * 3 + ("conv",)


def write_checkpoint(folder):
    import torch
    from transformers import Lfm2MoeConfig, Lfm2MoeForCausalLM

    torch.manual_seed(3)
    config = Lfm2MoeConfig(
        vocab_size=VOCAB, hidden_size=1024, intermediate_size=2048, moe_intermediate_size=512, conv_L_cache=3,
        num_hidden_layers=len(KINDS), layer_types=list(KINDS), num_attention_heads=16, num_key_value_heads=4,
        num_dense_layers=2, num_experts=32, num_experts_per_tok=4, max_position_embeddings=2048,
        tie_word_embeddings=True, pad_token_id=2, bos_token_id=1, eos_token_id=2, initializer_range=0.03)  # fmt: skip
    Lfm2MoeForCausalLM(config).to(torch.float16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):  # the builder copies it; no text is encoded
        shutil.copy(TINYMOE / name, folder / name)


def export_commands(moec, checkpoint, folder):
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", checkpoint, "-o", folder / "builder",
               "-p", "int4", "-e", "cpu", "-c", folder / "cache"]  # fmt: skip
    ours = [moec, "export", checkpoint, "--out", folder / "moec", "--quiet", "--force", "--target", "ort-genai",
            "--context", CONTEXT, "--weights", "int4:32,embed=float", "--accuracy-level", 4, "--routing", "op"]  # fmt: skip
    return {"moec": ours, "builder": builder}


def engine_of(folder, threads):
    return Child(pathlib.Path(__file__).parent / "genai_speed.py", folder, CONTEXT, threads)


class Turn:
    """A prompt and the tokens that continue it, decoded in slices."""

    def __init__(self, engine, prompt):
        seconds, first = engine.run(prompt, 1)
        self.engine, self.tokens = engine, prompt + first
        self.prefill, self.decode = [len(prompt) / seconds], []

    def decode_slice(self):
        seconds, written = self.engine.run(self.tokens, SLICE)
        self.tokens += written
        self.decode.append(len(written) / seconds)


def speed(out, prompts, threads):
    """Returns {"prefill", "decode"} of each folder in tokens/s: the upper quartile, because other work on the machine
    only slows runs down. The engines alternate in slices of a text. The first prompt is not measured: it packs
    weights."""
    engines = {name: engine_of(folder, threads) for name, folder in out.items()}
    turns = {name: [] for name in out}
    for prompt in prompts:
        for name, engine in engines.items():
            turns[name].append(Turn(engine, prompt))
        for _ in range(DECODE // SLICE):
            for name in out:
                turns[name][-1].decode_slice()
    for engine in engines.values():
        engine.close()
    return {name: {key: statistics.quantiles([one for turn in all_turns[1:] for one in getattr(turn, key)], n=4)[2]
                   for key in ("prefill", "decode")} for name, all_turns in turns.items()}  # fmt: skip


def peak_of(folder, prompt, threads):
    """Peak memory of a process that answers one prompt."""
    engine = engine_of(folder, threads)
    turn = Turn(engine, prompt)
    for _ in range(DECODE // SLICE):
        turn.decode_slice()
    peak = peak_bytes(engine.process)
    engine.close()
    return peak


def reference(checkpoint, tokens):
    """Log probabilities [T, V] of transformers in f32, in f64."""
    import torch
    from transformers import Lfm2MoeForCausalLM

    model = Lfm2MoeForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double().log_softmax(-1).numpy()


def mean_kl(folder, tokens, wanted):
    """KL of wanted [T, V] from the folder's probabilities, a token at a time; nats per token."""
    import onnxruntime_genai as genai

    model = genai.Model(str(folder))
    generator = genai.Generator(model, genai.GeneratorParams(model))
    divergences = []
    for token, logs in zip(tokens, wanted):
        generator.append_tokens(np.array([token], np.int32))
        logits = np.array(generator.get_logits(), np.float64).reshape(-1)[-VOCAB:]
        top = logits.max()
        got = logits - top - np.log(np.exp(logits - top).sum())
        divergences.append(float(np.exp(logs) @ (logs - got)))
    return statistics.mean(divergences)


def measured(args):
    checkpoint = args.folder / "checkpoint"
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint)
    shutil.rmtree(args.folder / "builder", ignore_errors=True)
    costs = {name: measure(command) for name, command in export_commands(args.moec, checkpoint, args.folder).items()}
    out = {name: args.folder / name for name in costs}
    chance = random.Random(1)
    prompts = [[chance.randrange(3, VOCAB) for _ in range(PROMPT)] for _ in range(args.rounds + 1)]
    speeds = speed(out, prompts, args.threads)
    text = prompts[0][:TEXT]
    wanted = reference(checkpoint, text)
    return {name: {"export_seconds": costs[name]["seconds"], "export_peak_mb": costs[name]["peak_bytes"] / 1e6,
                   **speeds[name], "peak_mb": peak_of(out[name], prompts[0], args.threads) / 1e6,
                   "kl": mean_kl(out[name], text, wanted)} for name in out}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=pathlib.Path, default=ROOT / "build/release/frontends/moec")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench/builder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    figures = measured(args)
    if args.json:
        return print(json.dumps(figures, indent=1))
    for name, one in figures.items():
        print(f"{name:8} export {one['export_seconds']:5.1f} s {one['export_peak_mb']:5.0f} MB, prefill "
              f"{one['prefill']:4.0f} tokens/s, decode {one['decode']:5.1f}, peak "
              f"{one['peak_mb']:.0f} MB, KL {one['kl']:.3f} nats")


if __name__ == "__main__":
    sys.exit(main())

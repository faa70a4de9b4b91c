#!/usr/bin/env python3
"""Trains tinymoe, a small Qwen3-MoE byte model for tests and demos.

Tokens are bytes. The text comes from the machine that runs the script (the Python library, its documentation, installed
manuals) and from two generators (arithmetic, JSON records), so no data set is downloaded or committed.

    pip install torch==2.13.0        # first: this pin gives a CPU build
    pip install transformers safetensors numpy
    scripts/train_tinymoe.py --minutes 25

Output (default models/tinymoe): config.json, generation_config.json,
model.safetensors (bf16, one matrix per expert), tokenizer.json,
tokenizer_config.json, metrics.json and README.md (the model card).
All reported numbers are measured after rounding the weights to bf16.
"""

import json
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from golden.publish import staged
from training.byte_tokenizer import write_tokenizer
from training.optimiser import BETAS, balance_loss, descend, set_rate
from training.run import facts_of_run, flags_of, write_report
from training.tinymoe.card import card
from training.tinymoe.measures import evaluate, headroom, samples
from training.tinymoe.texts import DOMAINS, MIX, SEQ, load_data, order0, windows

REPORTED = 50     # steps between lines of output
SAVED = 120       # seconds between training checkpoints


# ---------------------------------------------------------------- model ----

def make_config():
    return Qwen3MoeConfig(
        vocab_size=256, hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, num_experts=16, num_experts_per_tok=2,
        moe_intermediate_size=80, intermediate_size=256, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[], hidden_act="silu", rms_norm_eps=1e-6,
        max_position_embeddings=512, tie_word_embeddings=False, attention_bias=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        initializer_range=0.05, use_sliding_window=False, output_router_logits=False,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )


def make_model(experts_implementation):
    model = Qwen3MoeForCausalLM(make_config())
    model.config._experts_implementation = experts_implementation
    with torch.no_grad():  # small initial residual branches, as in depth-scaled initialisation
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.5)
            layer.mlp.experts.down_proj.mul_(0.5)
    return model


def parameter_counts(model):
    """Returns (all parameters, parameters per token)."""
    total = sum(p.numel() for p in model.parameters())
    expert = sum(p.numel() for n, p in model.named_parameters() if ".experts." in n)
    return total, total - expert + expert * model.config.num_experts_per_tok // model.config.num_experts


def export(model, data, folder, facts, batches):
    """Rounds the weights to bf16, measures the rounded model, and replaces the files of the output folder."""
    rounded = Qwen3MoeForCausalLM(make_config())
    rounded.load_state_dict({k: v.to(torch.bfloat16).float() for k, v in model.state_dict().items()})
    rounded.config._experts_implementation = model.config._experts_implementation
    metrics = {**facts, **evaluate(rounded, data, batches)}
    metrics["peak_activation"] = headroom(rounded, data)
    metrics["samples"] = samples(rounded)
    with staged(folder) as staging:
        rounded.to(torch.bfloat16).save_pretrained(staging)
        write_tokenizer(staging)
        write_report(staging, metrics, card)
    return metrics


# -------------------------------------------------------------- training ----

def load_texts():
    data, files = load_data()
    for d in DOMAINS:
        print(f"{d}: train {len(data[d][0]):,} bytes ({files[d][0]} files), "
              f"held out {len(data[d][1]):,} ({files[d][1]} files), order-0 {order0(data[d][1]):.3f}", flush=True)
        if len(data[d][1]) < 10 * SEQ or len(data[d][0]) < 100 * SEQ:
            sys.exit(f"this machine has too little text for the domain {d}")
    return data


def router_losses(router_logits, k):
    """Returns two router losses, averaged over layers: balance, which spreads tokens over experts, and z = mean of
    logsumexp(logits)^2, which keeps the logits small."""
    balance = z = 0.0
    for logits in router_logits:
        balance = balance + balance_loss(logits, k)
        z = z + logits.logsumexp(-1).square().mean()
    return balance / len(router_logits), z / len(router_logits)


def make_optimiser(model, rate):
    """AdamW with weight decay on the matrices, except for the embedding."""
    named = [(p, p.dim() > 1 and "embed" not in n) for n, p in model.named_parameters()]
    groups = [{"params": [p for p, decays in named if decays], "weight_decay": 0.1},
              {"params": [p for p, decays in named if not decays], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=BETAS, eps=1e-8)


class Clock:
    """Counts the seconds of training."""

    def __init__(self):
        self.start = time.monotonic()

    def elapsed(self):
        return time.monotonic() - self.start

    def outside(self, function, *args):
        """Calls the function without counting its time."""
        began = time.monotonic()
        result = function(*args)
        self.start += time.monotonic() - began
        return result


class Training:
    def __init__(self, flags):
        self.flags, self.rng = flags, np.random.default_rng(flags.seed)
        self.data = load_texts()
        self.model = make_model(flags.experts_implementation)
        self.optimiser = make_optimiser(self.model, flags.lr)
        self.parameters, self.active = parameter_counts(self.model)
        print(f"{self.parameters:,} parameters, {self.active:,} active", flush=True)
        self.steps, self.running = 0, np.zeros(3)

    def facts(self, seconds, provisional):
        flags, cfg = self.flags, self.model.config
        return {
            "provisional": provisional, "steps": self.steps, "tokens": self.steps * flags.batch * SEQ,
            "train_minutes": round(seconds / 60, 2), "threads": flags.threads, "batch": flags.batch, "lr": flags.lr,
            "balance_coef": flags.balance, "z_coef": flags.z, "parameters": self.parameters,
            "active_parameters": self.active, **facts_of_run("scripts/train_tinymoe.py"),
            "config": {"num_hidden_layers": cfg.num_hidden_layers, "hidden_size": cfg.hidden_size,
                       "num_attention_heads": cfg.num_attention_heads, "head_dim": cfg.head_dim,
                       "num_key_value_heads": cfg.num_key_value_heads, "experts": cfg.num_experts,
                       "top_k": cfg.num_experts_per_tok, "moe_intermediate_size": cfg.moe_intermediate_size},
            "train_bytes": {d: len(self.data[d][0]) for d in DOMAINS},
        }

    def export(self, seconds, provisional, batches):
        return export(self.model, self.data, self.flags.out, self.facts(seconds, provisional), batches)

    def export_provisional(self, seconds):
        m = self.export(seconds, True, 4)
        print("provisional", json.dumps(m["bits_per_byte"]), "gini", m["gini_per_layer"], flush=True)

    def next_batch(self):
        counts = self.rng.multinomial(self.flags.batch, [MIX[d] for d in DOMAINS])
        x = np.concatenate([windows(self.data[d][0], n, self.rng) for d, n in zip(DOMAINS, counts) if n])
        return torch.from_numpy(x.astype(np.int64))

    def step(self):
        x = self.next_batch()
        out = self.model(x[:, :-1], output_router_logits=True, use_cache=False)
        loss = F.cross_entropy(out.logits.flatten(0, 1), x[:, 1:].flatten())
        balance, z = router_losses(out.router_logits, self.model.config.num_experts_per_tok)
        descend(self.model, self.optimiser, loss + self.flags.balance * balance + self.flags.z * z)
        self.steps += 1
        self.running += [loss.item() / math.log(2), balance.item(), z.item()]

    def report(self, seconds, rate):
        bits, balance, z = self.running / REPORTED
        self.running[:] = 0
        speed = self.steps * self.flags.batch * SEQ / max(seconds, 1e-9) / 1e3
        print(f"step {self.steps} {seconds / 60:.1f} min  {speed:.1f}k tok/s  "
              f"bits/byte {bits:.3f}  balance {balance:.3f}  z {z:.2f}  lr {rate:.2e}", flush=True)

    def save(self, work):
        torch.save(self.model.state_dict(), work / "model.tmp")
        os.replace(work / "model.tmp", work / "model.pt")

    def run(self, work):
        """Trains for the requested minutes; returns the seconds."""
        flags, clock, last_save = self.flags, Clock(), 0.0
        provisional_due = flags.provisional > 0
        self.model.train()
        while (elapsed := clock.elapsed()) < flags.minutes * 60:
            # the schedule follows the clock, so that slow machines also end with a small rate
            rate = set_rate(self.optimiser, flags.lr, self.steps, elapsed, flags.minutes * 60)
            self.step()
            if self.steps % REPORTED == 0:
                self.report(elapsed, rate)
            if elapsed - last_save > SAVED:
                last_save = elapsed
                self.save(work)
            if provisional_due and elapsed >= flags.provisional * 60:
                provisional_due = False
                clock.outside(self.export_provisional, elapsed)
        return clock.elapsed()


def parse_flags():
    ap = flags_of(__doc__, "tinymoe", batch=16, lr=2.5e-3)
    ap.add_argument("--minutes", type=float, default=25, help="wall-clock minutes of the training loop")
    ap.add_argument("--provisional", type=float, default=5, help="also export after this many minutes (0: never)")
    ap.add_argument("--balance", type=float, default=0.01)
    ap.add_argument("--z", type=float, default=0.001)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--experts-implementation", default="grouped_mm", choices=["eager", "grouped_mm", "batched_mm"])
    ap.add_argument("--work", type=Path, help="folder for the periodic training checkpoint (default: a temporary one)")
    return ap.parse_args()


def main():
    flags = parse_flags()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    training = Training(flags)
    work = flags.work or Path(tempfile.mkdtemp(prefix="tinymoe-"))
    work.mkdir(parents=True, exist_ok=True)
    seconds = training.run(work)
    m = training.export(seconds, False, 16)
    shown = ("bits_per_byte", "order0_entropy", "gini_per_layer", "least_used_share",
             "total_variation_mean_per_layer", "peak_activation")
    print("final", json.dumps({k: m[k] for k in shown}), flush=True)
    if not flags.work:
        shutil.rmtree(work, ignore_errors=True)
    if m["bits_per_byte"]["mean"] > 3.0 or max(m["gini_per_layer"]) > 0.6:
        sys.exit("the run failed: too many bits per byte, or a collapsed router")


if __name__ == "__main__":
    main()

"""Measures tinymoe: bits per byte and load of experts on held-out text, the largest activation, samples."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

from training.expert_use import gini
from training.tinymoe.texts import DOMAINS, SEQ, order0, windows

BATCH = 16  # windows
PROMPTS = ["def __init__(self, ", "The file is opened ", "17 + 25 = ", '{"id": 4']


@torch.no_grad()
def measure_domain(model, held_out, batches):
    """Returns bits per byte; the token share per expert [layers, experts]; and per token and layer the gap between the k-th
    and the next router logit, and the standard deviation of the logits."""
    cfg = model.config
    experts, k = cfg.num_experts, cfg.num_experts_per_tok
    rng = np.random.default_rng(11)  # the same windows every time
    loss, count, margins, spread = 0.0, np.zeros((cfg.num_hidden_layers, experts)), [], []
    for _ in range(batches):
        x = torch.from_numpy(windows(held_out, BATCH, rng).astype(np.int64))
        out = model(x[:, :-1], output_router_logits=True, use_cache=False)
        loss += F.cross_entropy(out.logits.flatten(0, 1), x[:, 1:].flatten()).item()
        for i, logits in enumerate(out.router_logits):
            top = logits.topk(k + 1, dim=-1)
            count[i] += np.bincount(top.indices[:, :k].flatten().numpy(), minlength=experts)
            margins.append((top.values[:, k - 1] - top.values[:, k]).numpy())
            spread.append(logits.std(-1).numpy())
    return loss / batches / math.log(2), count / count.sum(1, keepdims=True), margins, spread


def describe_use(use):
    """Compares the domains' use of experts, layer by layer."""
    overall = np.mean([use[d] for d in DOMAINS], axis=0)
    tv = {f"{a}/{b}": (np.abs(use[a] - use[b]).sum(1) / 2) for a, b in itertools.combinations(DOMAINS, 2)}
    return {
        "utilisation": {d: np.round(use[d], 4).tolist() for d in DOMAINS},
        "utilisation_overall": np.round(overall, 4).tolist(),
        "least_used_share": [round(float(v), 4) for v in overall.min(1)],
        "gini_per_layer": [round(float(g), 4) for g in gini(overall)],
        "total_variation": {p: [round(float(x), 4) for x in v] for p, v in tv.items()},
        "total_variation_mean_per_layer": [round(float(x), 4) for x in np.mean(list(tv.values()), axis=0)],
    }


def evaluate(model, data, batches):
    """Bits per byte and load of experts on held-out windows, which are the same in every call."""
    model.eval()
    measured = {d: measure_domain(model, data[d][1], batches) for d in DOMAINS}
    model.train()
    bits, use = ({d: measured[d][i] for d in DOMAINS} for i in (0, 1))
    margins, spread = (np.concatenate([part for d in DOMAINS for part in measured[d][i]]) for i in (2, 3))
    return {
        "held_out_bytes_per_domain": batches * BATCH * SEQ,
        "bits_per_byte": {**{d: round(bits[d], 4) for d in DOMAINS},
                          "mean": round(float(np.mean(list(bits.values()))), 4)},
        "order0_entropy": {d: round(order0(data[d][1]), 4) for d in DOMAINS},
        **describe_use(use),
        "router_logit_std_mean": round(float(spread.mean()), 4),
        "router_margin_percentiles": {str(p): round(float(np.percentile(margins, p)), 5) for p in (0.1, 1, 10, 50)},
    }


@torch.no_grad()
def headroom(model, data):
    """The largest absolute value of any module output on held-out text. The maximum of f16 is 65504."""
    peak = 0.0

    def look(_module, _args, out):
        nonlocal peak
        if torch.is_tensor(out) and out.is_floating_point():
            peak = max(peak, out.abs().max().item())

    handles = [module.register_forward_hook(look) for module in model.modules()]
    rng = np.random.default_rng(12)
    model.eval()
    for d in DOMAINS:
        model(torch.from_numpy(windows(data[d][1], BATCH, rng)[:, :-1].astype(np.int64)), use_cache=False)
    model.train()
    for handle in handles:
        handle.remove()
    return round(peak, 3)


def samples(model):
    model.eval()
    out = {}
    for p in PROMPTS:
        ids = torch.tensor([list(p.encode())])
        got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=120, do_sample=False)
        out[p] = bytes(got[0].tolist()).decode("utf-8", "replace")
    model.train()
    return out

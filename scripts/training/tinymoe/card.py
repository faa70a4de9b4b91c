"""Writes tinymoe's model card from the numbers in metrics.json."""

import numpy as np

from training.run import provenance_lines
from training.tables import table_of
from training.tinymoe.texts import DOMAINS, SEQ


def introduction(m):
    lines = [
        "# tinymoe", "",
        "A small Qwen3-MoE byte model (one token = one byte), trained so that tests and demos have a router",
        "that really decides something. Written by `scripts/train_tinymoe.py`; every number below was measured",
        "by that script on the weights after rounding to bf16. It is a test fixture, not a useful language model.", "",
    ]
    if m["provisional"]:
        lines += ["**Provisional checkpoint: training was still running when this was written.**", ""]
    return lines


def facts(m):
    c = m["config"]
    return [
        f"- Parameters: {m['parameters']:,} ({m['active_parameters']:,} used per token), "
        f"{c['num_hidden_layers']} layers, hidden {c['hidden_size']}, "
        f"{c['num_attention_heads']}/{c['num_key_value_heads']} heads of {c['head_dim']}, {c['experts']} experts of "
        f"width {c['moe_intermediate_size']}, top-{c['top_k']}, weights renormalised, untied head.",
        f"- Training: {m['steps']:,} steps, {m['tokens']:,} tokens, {m['train_minutes']:.1f} minutes of wall-clock "
        f"on {m['threads']} CPU threads, sequence {SEQ}, AdamW, cosine learning rate.",
        f"- Loss: cross entropy + {m['balance_coef']} x load balance + {m['z_coef']} x router z-loss.",
        *provenance_lines(m),
        "- Data: Python's library sources; English documentation found on the machine (help topics, docstrings,",
        "  installed manuals, licence texts); generated arithmetic; generated JSON. Held-out documents are whole",
        "  files chosen by a hash of their name; generated domains use another seed.",
        "- Training bytes: " + ", ".join(f"{d} {m['train_bytes'][d]:,}" for d in DOMAINS) + ".",
    ]


def bits(m):
    b, h = m["bits_per_byte"], m["order0_entropy"]
    rows = [(d, f"{b[d]:.3f}", f"{h[d]:.3f}") for d in DOMAINS]
    rows.append(("mean", f"{b['mean']:.3f}", f"{np.mean(list(h.values())):.3f}"))
    return [
        "", "## Held-out bits per byte", "",
        f"{m['held_out_bytes_per_domain']:,} bytes a domain, windows of {SEQ}; the order-0 column is the entropy of "
        "the domain's byte histogram.", "",
        *table_of(("domain", "bits/byte", "order-0 entropy"), rows),
    ]


def expert_use(m):
    experts = m["config"]["experts"]
    use = {**m["utilisation"], "all": m["utilisation_overall"]}
    rows = [(i, d, *(f"{100 * v:.1f}" for v in use[d][i]))
            for i in range(m["config"]["num_hidden_layers"]) for d in [*DOMAINS, "all"]]
    return [
        "", "## Expert use", "",
        f"Percent of a layer's (token, slot) pairs per expert; an even split is {100 / experts:.2f}.", "",
        *table_of(("layer", "domain", *(f"e{e}" for e in range(experts))), rows),
    ]


def evenness(m):
    pairs = m["total_variation"]
    rows = [(i, f"{m['gini_per_layer'][i]:.3f}", f"{100 * m['least_used_share'][i]:.1f} %",
             f"{m['total_variation_mean_per_layer'][i]:.3f}", *(f"{v[i]:.3f}" for v in pairs.values()))
            for i in range(m["config"]["num_hidden_layers"])]
    return [
        "", "Gini index of the use over all domains (0 = even), the least used expert's share, and the total variation",
        "distance between two domains' use (0 = same experts, 1 = disjoint), mean over the domain pairs:", "",
        *table_of(("layer", "Gini", "least used", "distance between domains", *pairs), rows),
    ]


def magnitudes(m):
    q = m["router_margin_percentiles"]
    return [
        "", f"Router logits have a mean standard deviation of {m['router_logit_std_mean']:.2f} over the experts. "
        f"The gap between the k-th and the next logit is {q['50']:.3f} at the median, "
        f"{q['1']:.4f} at the first percentile "
        f"and {q['0.1']:.5f} at the first permille.",
        f"The largest absolute value at any module's output on held-out text is {m['peak_activation']:.1f} "
        "(f16 ends at 65504).",
    ]


def greedy_samples(m):
    lines = ["", "## Greedy samples", ""]
    for text in m["samples"].values():
        lines += ["```text", text.replace("```", "'''"), "```", ""]
    return lines


def card(m):
    parts = (introduction, facts, bits, expert_use, evenness, magnitudes, greedy_samples)
    return "\n".join(line for part in parts for line in part(m))

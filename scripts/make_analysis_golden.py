#!/usr/bin/env python3
"""Measures tinymoe's experts on the bundled prompts with transformers, as golden of `moec analyze`.

    scripts/make_analysis_golden.py --out tests/data/tinymoe_profile.json

Hooks on the experts of each layer receive the hidden states, the picked experts and their weights from transformers' router
(PyTorch, float32, eager attention). The script computes each expert's output from its matrices, and compares the weighted
sum with the module's output. Each prompt runs separately. The file has the format of profile.json
(ir/experts/expert_profile.h). Requires PyTorch and transformers.
"""

import argparse
import collections
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

REPO = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-5


class LayerMeasures:
    """Sums over a layer's tokens, per expert."""

    def __init__(self, experts, categories):
        self.tokens = 0
        self.selections, self.together = [0] * experts, collections.Counter()
        self.mass, self.norm, self.added, self.largest = ([0.0] * experts for _ in range(4))
        self.by_category = {name: [0] * experts for name in categories}

    def add(self, category, expert, weight, inner, output):
        self.selections[expert] += 1
        self.by_category[category][expert] += 1
        self.mass[expert] += weight
        self.norm[expert] += output.norm().item()
        self.added[expert] += weight * output.norm().item()
        self.largest[expert] = max(self.largest[expert], inner.abs().max().item())

    def json(self, layer):
        experts = range(len(self.selections))

        def means(sums):
            return [total / count if count else 0 for total, count in zip(sums, self.selections)]

        return {
            "layer": layer, "tokens": self.tokens, "selections": self.selections, "mass": self.mass,
            "output_norm": means(self.norm), "saliency": means(self.added), "largest_activation": self.largest,
            "together": [self.together[i, j] for i in experts for j in experts if i < j],
            "categories": [{"name": name, "selections": counts} for name, counts in self.by_category.items()],
        }


def measure(module, args, result, measures, category):
    """Adds one forward pass of a layer's experts."""
    hidden, chosen, weights = args
    total = torch.zeros_like(hidden)
    measures.tokens += len(hidden)
    for t, (experts, shares) in enumerate(zip(chosen.tolist(), weights.tolist())):
        for expert, weight in zip(experts, shares):
            gate, up = (module.gate_up_proj[expert] @ hidden[t]).chunk(2)
            inner = module.act_fn(gate) * up
            output = module.down_proj[expert] @ inner
            measures.add(category, expert, weight, inner.double(), output.double())
            total[t] += weight * output
        first, second = sorted(experts)
        measures.together[first, second] += 1
    worst = (total - result).abs().max().item()
    assert worst < TOLERANCE * max(1, result.abs().max().item()), worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPO / "tests/data/tinymoe_profile.json", help="the file to write")
    out = parser.parse_args().out
    torch.set_num_threads(1)  # fixes the order of summation
    lines = (REPO / "frontends/measure/prompts.jsonl").read_text().splitlines()
    prompts = [json.loads(line) for line in lines]
    model = AutoModelForCausalLM.from_pretrained(
        REPO / "models/tinymoe", dtype=torch.float32, attn_implementation="eager").eval()
    model.config._experts_implementation = "eager"
    categories = list(dict.fromkeys(prompt["category"] for prompt in prompts))
    config = model.config
    layers = [LayerMeasures(config.num_experts, categories) for _ in model.model.layers]
    running = {}
    for layer, measures in zip(model.model.layers, layers):
        layer.mlp.experts.register_forward_hook(
            lambda module, args, result, measures=measures: measure(module, args, result, measures, running["category"]))
    with torch.no_grad():
        for prompt in prompts:
            running["category"] = prompt["category"]
            model(torch.tensor([list(prompt["text"].encode())]))
    counts = [[prompt for prompt in prompts if prompt["category"] == name] for name in categories]
    profile = {
        "format": "moec.expert_profile", "version": 1, "model": config.model_type, "checkpoint": "",
        "source": "transformers", "text": "", "experts": config.num_experts, "top_k": config.num_experts_per_tok,
        "categories": [{"name": name, "documents": len(group), "tokens": sum(len(p["text"]) for p in group)}
                       for name, group in zip(categories, counts)],
        "layers": [measures.json(i) for i, measures in enumerate(layers)],
    }
    out.write_text(json.dumps(profile) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures the quality of expert orders, as Markdown tables: the divergence between tinymoe with only the first experts
of an order and the whole model.

    scripts/measure_ranking.py [--moec BINARY] [--kept 4,6,8,10,12,14] [--texts N]

Analyses every second prompt of the bundled suite, and computes the orders from this profile alone:

  saliency  per layer, by the mean over an expert's tokens of routing weight x norm of its output
  mass      per layer, by the sum of an expert's routing weights
  summed    one order for all layers, by the mass summed over them
  random    per layer at random: the means over three orders

`moec compare` then runs the other prompts with the first experts of an order in every layer. Figures are the mean KL
divergence in nats from the predictions with all experts, with bounds that contain 95 % of the resamples of the prompts.
For `random`, the bounds are the smallest and the largest mean. With --texts, the profile is measured on
tests/data/tinymoe_calibration.bin, which has more tokens, and the divergence on N windows of tinymoe_heldout.bin. The
second table has the groups of `moec place` for three nodes with eight experts per layer, one column per node.
"""

import argparse
import json
import random
import statistics
import tempfile
from pathlib import Path

from suite_splits import REPO, WINDOW, Moec, read_suite, write_half

SEEDS = range(3)
POLICIES = ("packed", "balanced", "contiguous")
NODES, HELD = 3, 8
DOMAINS = ("python", "english", "arithmetic", "json")  # each has a quarter of the committed texts


def flags_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=Path, default=REPO / "build/release/frontends/moec", help="the moec program")
    parser.add_argument("--kept", default="4,6,8,10,12,14", help="kept experts per layer (default: 4,6,8,10,12,14)")
    parser.add_argument("--texts", type=int, metavar="N", help="measure on N windows of the committed texts")
    return parser.parse_args()


def by_value(values):
    return sorted(range(len(values)), key=lambda expert: -values[expert])


def orders_of(profile):
    """Returns {name: {layer: experts, best first}}."""
    layers, experts = profile["layers"], range(profile["experts"])
    summed = by_value([sum(layer["mass"][expert] for layer in layers) for expert in experts])
    orders = {key: {layer["layer"]: by_value(layer[key]) for layer in layers} for key in ("saliency", "mass")}
    orders["summed"] = {layer["layer"]: summed for layer in layers}
    for seed in SEEDS:
        generator = random.Random(seed)
        orders[f"random{seed}"] = {layer["layer"]: generator.sample(experts, len(experts)) for layer in layers}
    return orders


def kept_experts(order, count):
    return ";".join(f"L{layer}:{','.join(map(str, sorted(experts[:count])))}" for layer, experts in order.items())


def divergences(moec, groups, prompts):
    """Returns {name of a group: its KL, with "mean", "low" and "high"}."""
    path = moec.scratch / "compared.json"
    path.write_text(json.dumps({"groups": [{"name": name, "experts": text} for name, text in groups.items()]}))
    report = json.loads(moec.run("compare", moec.out, "--groups", path, "--prompts", prompts, "--json"))
    return {group["name"]: group["scores"][0]["kl"] for group in report["groups"]}


def with_bounds(kl):
    return f"{kl['mean']:.2f} ({kl['low']:.2f} to {kl['high']:.2f})"


def range_of(kls):
    means = [kl["mean"] for kl in kls]
    return f"{statistics.fmean(means):.2f} ({min(means):.2f} to {max(means):.2f})"


def print_orders(moec, orders, counts, prompts):
    groups = {f"{name} {count}": kept_experts(order, count) for name, order in orders.items() for count in counts}
    found = divergences(moec, groups, prompts)
    print("| kept of 16 | saliency | mass | summed | random |\n|---|---|---|---|---|")
    names = {name: [name] for name in ("saliency", "mass", "summed")} | {"random": [f"random{seed}" for seed in SEEDS]}
    for count in counts:
        cells = [[found[f"{name} {count}"] for name in group] for group in names.values()]
        print(f"| {count} | {' | '.join(with_bounds(cell[0]) if len(cell) == 1 else range_of(cell) for cell in cells)} |")
    means = [statistics.fmean(found[f"{name} {count}"]["mean"] for name in group for count in counts)
             for group in names.values()]
    print(f"| mean | {' | '.join(f'{mean:.2f}' for mean in means)} |")


def print_places(moec, profile, prompts):
    groups = {}
    for policy in POLICIES:
        placed = json.loads(moec.place(profile, policy, NODES, NODES * HELD).read_text())
        groups |= {f"{policy} {group['name']}": group["experts"] for group in placed["groups"]}
    found = divergences(moec, groups, prompts)
    print("\n| placed | " + " | ".join(f"node {node}" for node in range(NODES)) + " |\n|---" + "|---" * NODES + "|")
    for policy in POLICIES:
        print(f"| {policy} | " + " | ".join(with_bounds(kl) for name, kl in found.items() if name.startswith(policy)) + " |")


def windows_of(name):
    """Windows of a committed text, as prompts."""
    text = (REPO / f"tests/data/tinymoe_{name}.bin").read_bytes()
    windows = [list(text[begin:begin + WINDOW]) for begin in range(0, len(text), WINDOW)]
    return [{"category": DOMAINS[i * len(DOMAINS) // len(windows)], "tokens": tokens}
            for i, tokens in enumerate(windows)]


def write_parts(flags, seen, unseen):
    """Writes the prompts that determine the orders to `seen`, and the prompts that measure the orders to `unseen`."""
    if flags.texts:
        heldout = windows_of("heldout")
        write_half(windows_of("calibration"), range(len(heldout)), seen)
        write_half(heldout, {len(heldout) * i // flags.texts for i in range(flags.texts)}, unseen)
        return
    prompts = read_suite()
    write_half(prompts, range(0, len(prompts), 2), seen)
    write_half(prompts, range(1, len(prompts), 2), unseen)


def main():
    flags = flags_of()
    with tempfile.TemporaryDirectory() as scratch:
        moec = Moec(flags.moec, scratch)
        seen, unseen = moec.scratch / "seen.jsonl", moec.scratch / "unseen.jsonl"
        write_parts(flags, seen, unseen)
        profile = moec.analyze(seen)
        orders = orders_of(json.loads((profile / "profile.json").read_text()))
        print_orders(moec, orders, [int(count) for count in flags.kept.split(",")], unseen)
        print_places(moec, profile, unseen)


if __name__ == "__main__":
    main()

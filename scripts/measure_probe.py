#!/usr/bin/env python3
"""Measures the quality of `moec probe`'s choices on held-out prompts, as a Markdown table.

    scripts/measure_probe.py [--moec BINARY] [--splits 10] [--policy categories] [--covered] [--nodes 4] [--held 8]

Each split analyses a random half of the bundled suite, with equal numbers of prompts per category. The profile of this half
places tinymoe's experts on the nodes (--held experts per layer on every node), and `moec probe --write` measures
its table. Then the other half is probed: a prompt is a hit if the chosen node is the best one for its tokens after the first
32; its regret is the log-probability that the choice loses against that node. The rows:

  table    the choice by the table
  mass     the choice by the routing mass of the first tokens
  always   for all prompts, the node that was best for the profiled half
  chance   a node chosen uniformly at random

The last line is the mean log-probability, in nats per token, that the best node of each prompt gives.

A prompt's figure is the mean over the splits that held it out; bounds contain 95 % of 2000 resamples of the prompts.
`busiest` is the busiest node's share of a split's held-out prompts, averaged over splits. Ten splits take two to ten
minutes on one core.
"""

import argparse
import collections
import json
import random
import statistics
import tempfile
from pathlib import Path

from suite_splits import REPO, Moec, random_half, read_suite, write_half

RESAMPLES = 2000
ROWS = ("table", "mass", "always", "chance")


def flags_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=Path, default=REPO / "build/release/frontends/moec", help="the moec program")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--policy", choices=("categories", "packed"), default="categories",
                        help="of moec place (default: categories)")  # fmt: skip
    parser.add_argument("--covered", action="store_true", help="with categories: each expert is on some node")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--held", type=int, default=8, help="experts per layer and node (default: 8)")
    return parser.parse_args()


def largest(values):
    return max(range(len(values)), key=values.__getitem__)


def outcomes(document, usual):
    """Returns (hit, regret) per row for a probed prompt; `usual` is the node of the row `always`."""
    served = document["log_probability"]
    best = max(served)
    chosen = {"table": largest(document["scores"]), "mass": largest(document["kept"]), "always": usual}
    rows = {row: (float(served[node] == best), best - served[node]) for row, node in chosen.items()}
    return rows | {"chance": (1 / len(served), best - statistics.fmean(served))}


def usual_node(documents):
    return largest([sum(values) for values in zip(*(document["log_probability"] for document in documents))])


def measure_split(moec, prompts, seed, flags):
    """Returns {index: outcomes} of the held-out prompts, {row: the busiest node's share of them}, and the
    log-probabilities that their best nodes give."""
    half = random_half(prompts, seed)
    seen, unseen = moec.scratch / "seen.jsonl", moec.scratch / "unseen.jsonl"
    write_half(prompts, half, seen)
    order = write_half(prompts, set(range(len(prompts))) - half, unseen)
    groups = moec.place(moec.analyze(seen), flags.policy, flags.nodes, flags.nodes * flags.held, flags.covered)
    known = json.loads(moec.run("probe", moec.out, "--groups", groups, "--prompts", seen, "--write", "--json"))
    probed = json.loads(moec.run("probe", moec.out, "--prompts", unseen, "--json"))["documents"]
    usual = usual_node(known["documents"])
    loads = {"always": 1.0, "chance": 1 / flags.nodes}
    for row, field in (("table", "scores"), ("mass", "kept")):
        counts = collections.Counter(largest(document[field]) for document in probed)
        loads[row] = max(counts.values()) / len(probed)
    results = {index: outcomes(document, usual) for index, document in zip(order, probed)}
    return results, loads, [max(document["log_probability"]) for document in probed]


def bounds(values):
    generator = random.Random(1)
    means = sorted(statistics.fmean(generator.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-RESAMPLES // 40 - 1]


def figure(values, factor, digits):
    low, high = (factor * bound for bound in bounds(values))
    return f"{factor * statistics.fmean(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def print_table(found, loads):
    print("| choice | best node, % | regret, nats per token | busiest, % |\n|---|---|---|---|")
    for row in ROWS:
        hits, regrets = ([statistics.fmean(outcome[row][part] for outcome in of_prompt) for of_prompt in found.values()]
                         for part in (0, 1))
        busiest = 100 * statistics.fmean(load[row] for load in loads)
        print(f"| {row} | {figure(hits, 100, 0)} | {figure(regrets, 1, 3)} | {busiest:.0f} |")


def main():
    flags = flags_of()
    prompts, found, loads, best = read_suite(), collections.defaultdict(list), [], []
    with tempfile.TemporaryDirectory() as scratch:
        moec = Moec(flags.moec, scratch)
        for seed in range(flags.splits):
            held_out, load, served = measure_split(moec, prompts, seed, flags)
            loads.append(load)
            best += served
            for index, outcome in held_out.items():
                found[index].append(outcome)
    print_table(found, loads)
    print(f"\nlog-probability on the best node: {statistics.fmean(best):.2f} nats per token")


if __name__ == "__main__":
    main()

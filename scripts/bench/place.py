#!/usr/bin/env python3
"""Measures `moec place` of published models over unequal nodes, with and without a profile.

    scripts/bench/place.py [MODEL…] [--nodes 12] [--rounds 5] [--tokens 2000] [--folder DIR]

The profiles are made up: in each layer, the use of experts falls as 1 / rank in a random order, which each of eight
categories changes, and tokens choose the top-k of these scores with Gumbel noise. Profiles of more pairs of experts than
moec reads have no pairs. The nodes differ in memory and bandwidth, and together have room for 1.5 copies of each expert.
Prints the median wall time of each case in seconds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy

from bench import MOEC

MODELS = ("kimi-k3", "qwen3-235b-a22b")
CATEGORIES = tuple(f"class{i}" for i in range(8))
MOST_PAIRS = 7_500_000  # per profile; moec reads 2^23 JSON values
COPIES = 1.5


def moec(*words):
    done = subprocess.run([MOEC, *map(str, words)], stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def layer_profile(number, experts, top_k, tokens, pairs, random):
    """Profile of one layer, from sampled tokens of all categories."""
    popular = -numpy.log(1 + random.permutation(experts))
    of_category = random.normal(size=(len(CATEGORIES), experts))
    category = numpy.arange(tokens) % len(CATEGORIES)
    scores = popular + of_category[category] + random.gumbel(size=(tokens, experts))
    chosen = numpy.zeros((tokens, experts), dtype=numpy.float32)
    numpy.put_along_axis(chosen, numpy.argpartition(-scores, top_k, axis=1)[:, :top_k], 1, axis=1)
    counts = [chosen[category == c].sum(axis=0).astype(int) for c in range(len(CATEGORIES))]
    layer = {"layer": number, "tokens": tokens, "selections": sum(counts).tolist(),
             "mass": (sum(counts) / top_k).tolist()}  # fmt: skip
    if pairs:
        together = (chosen.T @ chosen).astype(int)
        layer["together"] = together[numpy.triu_indices(experts, 1)].tolist()
    layer["categories"] = [{"name": name, "selections": own.tolist()} for name, own in zip(CATEGORIES, counts)]
    return layer


def write_profile(path, placement, layers, tokens):
    """A profile for the model of a placement without a profile."""
    experts, top_k = placement["experts"], placement["top_k"]
    random = numpy.random.default_rng(7)
    pairs = len(layers) * experts * (experts - 1) // 2 <= MOST_PAIRS
    profile = {"format": "moec.expert_profile", "version": 1, "model": placement["model"], "checkpoint": "",
               "source": "checkpoint", "text": "", "experts": experts, "top_k": top_k,
               "categories": [{"name": name, "documents": 1, "tokens": tokens // len(CATEGORIES)} for name in CATEGORIES],
               "layers": [layer_profile(n, experts, top_k, tokens, pairs, random) for n in layers]}  # fmt: skip
    path.write_text(json.dumps(profile))


def moe_layers(placement):
    """The layers in the groups of a placement, such as 1, 2, 3 of "L1-2:0-7;L3:0-8"."""
    layers = []
    for item in placement["groups"][0]["experts"].split(";"):
        first, _, last = item.partition(":")[0].removeprefix("L").partition("-")
        layers += range(int(first), int(last or first) + 1)
    return layers


def write_cluster(path, placement, count):
    """Nodes whose room for experts grows from half of the mean to 1.5 times, and their bandwidth in another order."""
    whole = placement["nodes"][0]["bytes"]
    trunk = json.loads(moec("place", placement["source"], "--nodes", placement["experts"] // placement["top_k"],
                            "--json"))["nodes"][0]["bytes"]  # fmt: skip
    nodes = [{"name": f"machine{i}", "memory": str(int(trunk * 1.05 + whole * COPIES / count * (0.5 + i / (count - 1)))),
              "bandwidth": f"{400 + 250 * (i * 5 % count)}GB/s", "tflops": 80, "link": "25Gbit/s", "latency_ms": 0.1}
             for i in range(count)]  # fmt: skip
    path.write_text(json.dumps({"nodes": nodes}))


def seconds(rounds, *words):
    times = []
    for _ in range(rounds):
        began = time.monotonic()
        moec(*words)
        times.append(time.monotonic() - began)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="MODEL", nargs="*", default=MODELS)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--folder", type=pathlib.Path, help="keep profiles and clusters here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{'model':20} {'no profile':>10} {'mask':>8} {'peer':>8}")
        for model in options.models:
            placement = {**json.loads(moec("place", model, "--nodes", 1, "--json")), "source": model}
            cluster, profile = folder / f"{model}.cluster.json", folder / f"{model}.profile.json"
            write_cluster(cluster, placement, options.nodes)
            write_profile(profile, placement, moe_layers(placement), options.tokens)
            words = ["place", model, "--cluster", cluster, "--nodes", options.nodes, "--json"]
            print(f"{model:20} {seconds(options.rounds, *words):10.2f} "
                  f"{seconds(options.rounds, *words, '--profile', profile):8.2f} "
                  f"{seconds(options.rounds, *words, '--profile', profile, '--on-miss', 'peer'):8.2f}")  # fmt: skip


if __name__ == "__main__":
    main()

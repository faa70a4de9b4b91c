#!/usr/bin/env python3
"""Prints the README's table of figures: every golden case exported, then validated in f32 and f16.

    scripts/figures.py [--moec build/release/frontends/moec] [EXPORT FLAGS…]

Each row is the worst over all shards of a case, on golden inputs; agreement counts tokens over all
routers. The figures are those of `moec validate --json`; nothing is computed here but the worst of them.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def moec(binary, *words):
    run = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode > 1:
        sys.exit(f"moec {' '.join(map(str, words))}\n{run.stderr}")
    return run


def row(case, precision, report):
    alone = [shard["alone"] for shard in report["shards"]]
    alone += [shard["cache"] for shard in report["shards"] if "cache" in shard]
    routers = [shard["router"] for shard in report["shards"] if "router" in shard]
    tokens = sum(router["tokens"] for router in routers)
    same = sum(router["same_experts"] for router in routers)
    logits, greedy = report["logits"], report["greedy"]
    return [
        case,
        precision,
        f"{min(c['cosine'] for c in alone):.9f}",
        f"{max(c['relative_l2'] for c in alone):.1e}",
        f"{same} of {tokens}",
        f"{min(router['least_margin'] for router in routers):.1e}",
        f"{logits['same_top1']} of {logits['tokens']}",
        f"{logits['mean_kl']:.0e}",
        f"{greedy['equal']} of {greedy['wanted']}",
        "yes" if report["ok"] else "NO",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--moec", default=str(ROOT / "build/release/frontends/moec"))
    options, flags = parser.parse_known_args()
    heads = ["case", "mode", "least cosine", "most rel. L2", "same experts", "least margin",
             "top-1", "KL", "greedy", "passed"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for golden in sorted((ROOT / "tests/golden").glob("*/golden.json")):
        case = golden.parent.name
        checkpoint = golden.parent / json.loads(golden.read_text())["checkpoint"]
        with tempfile.TemporaryDirectory() as out:
            moec(options.moec, "export", checkpoint, "--out", f"{out}/x", "--tokens", "1,16", "-q", *flags)
            for precision in ("f32", "f16"):
                run = moec(options.moec, "validate", f"{out}/x", "--golden", golden.parent,
                           "--precision", precision, "--json")
                print("| " + " | ".join(row(case, precision, json.loads(run.stdout))) + " |", flush=True)


if __name__ == "__main__":
    main()

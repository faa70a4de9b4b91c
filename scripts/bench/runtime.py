#!/usr/bin/env python3
"""The measurements of `scripts/bench.sh runtime`: a seeded model whose experts do not fit into memory runs with a part
of them in slots, beside what the disk gives. README.md describes them."""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import disk_floor

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HIDDEN, FF, EXPERTS, TOP_K = 1024, 2048, 32, 4
EXPERT_BYTES = 3 * HIDDEN * FF * 2  # f16
SAMPLE_BYTES = 1 << 30
READS = ("serial", "ahead", "foresee")


def say(text):
    print(text, file=sys.stderr, flush=True)


def config(layers):
    text = json.loads((ROOT / "models/tinymoe/config.json").read_text())
    text.update(hidden_size=HIDDEN, moe_intermediate_size=FF, num_local_experts=EXPERTS, num_experts_per_tok=TOP_K,
                num_hidden_layers=layers, num_attention_heads=16, num_key_value_heads=4, head_dim=64, vocab_size=4096)
    return text


def make_export(moec, folder, gigabytes):
    layers = max(1, round(gigabytes * 1e9 / (EXPERTS * EXPERT_BYTES)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(layers)))
    out = folder / "out"
    flags = ["--seeded-weights", "7", "--dtype", "f16", "--tokens", "1", "--context", "256"]
    cuts = ["--experts-per-shard", "8", "--max-shard-mb", "none"]
    command = [moec, "export", folder / "config.json", "--out", out, "--quiet", "--force"]
    subprocess.run([*command, *flags, *cuts], check=True, stderr=subprocess.DEVNULL)
    return out


def run(moec, out, capacity, tokens, *flags):
    prompt = ",".join(map(str, random.Random(5).sample(range(4096), 4)))
    command = [moec, "run", out, "--prompt-tokens", prompt, "--max-tokens", str(tokens), "--temperature", "1"]
    done = subprocess.run([*command, "--capacity", str(capacity), "--json", *flags], check=True, capture_output=True)
    return json.loads(done.stdout)


def sample(paths):
    """Files of about SAMPLE_BYTES."""
    chosen, size = [], 0
    for path in paths:
        if size < SAMPLE_BYTES:
            chosen.append(path)
            size += path.stat().st_size
    return chosen


def figures(result, rate):
    """Of one run, beside a disk that reads `rate` GB/s."""
    tokens = len(result["prompt"]) + len(result["tokens"]) - 1
    seconds = result["prefill_seconds"] + result["decode_seconds"]
    experts = result["experts"]
    return {
        "tokens_per_second": tokens / seconds,
        "hit_rate": experts["hit_rate"],
        "megabytes_per_token": experts["bytes_read_per_token"] / 1e6,
        "seconds": seconds,
        "wait_seconds": experts["wait_seconds"],
        "of_the_disk": seconds / (experts["bytes_read"] / 1e9 / rate),
        "peak_bytes": result["memory"]["peak_bytes"],
    }


def one_round(moec, out, capacity, tokens):
    """Each round begins with the fastest of several ways to read the disk, and ends with that way again."""
    files = sample(sorted(out.glob("moe/*.data")))
    disk_floor.settle(files)
    rates = {way: disk_floor.read_rate(files, way) for way in disk_floor.WAYS}
    way = max(rates, key=rates.get)
    runs = {reads: run(moec, out, capacity, tokens, "--expert-reads", reads) for reads in READS}
    rate = max(rates[way], disk_floor.read_rate(files, way))
    if len({str(result["tokens"]) for result in runs.values()}) > 1:
        sys.exit("the order of reads changed the tokens")
    result = {"disk": rate, **{reads: figures(runs[reads], rate) for reads in READS}}
    say(json.dumps(result))
    return result


def trunk_and_slots(manifest, capacity):
    """Bytes of all weights but those of experts, and of the slots."""
    trunk = sum(shard["weight_bytes"] for shard in manifest["shards"] if shard["kind"] != "experts")
    return trunk + manifest["model"]["layers"] * capacity * EXPERT_BYTES


def summary(rounds, allowed):
    """Medians of the rounds; `gain` is how much longer serial reads take."""
    result = {"disk": statistics.median(item["disk"] for item in rounds)}
    for reads in READS:
        result[reads] = {key: statistics.median(item[reads][key] for item in rounds) for key in rounds[0][reads]}
        result[reads]["gain"] = statistics.median(item["serial"]["seconds"] / item[reads]["seconds"] for item in rounds)
        result[reads]["peak_of_trunk_and_slots"] = max(item[reads]["peak_bytes"] for item in rounds) / allowed
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4, help="of experts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=24, help="that a run writes")
    parser.add_argument("--capacity", type=int, default=EXPERTS // 4, help="slots of each layer")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench_runtime")
    parser.add_argument("--moec", type=pathlib.Path, default=ROOT / "build/release/frontends/moec")
    parser.add_argument("--keep-export", action="store_true", help="leave --folder for the next call")
    flags = parser.parse_args()
    out = flags.folder / "out"
    if not (out / "manifest.json").exists():
        out = make_export(flags.moec, flags.folder, flags.gigabytes)
    rounds = [one_round(flags.moec, out, flags.capacity, flags.tokens) for _ in range(flags.rounds)]
    manifest = json.loads((out / "manifest.json").read_text())
    print(json.dumps(summary(rounds, trunk_and_slots(manifest, flags.capacity)), indent=2))
    if not flags.keep_export:
        shutil.rmtree(flags.folder)


if __name__ == "__main__":
    main()

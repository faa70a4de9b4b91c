#!/usr/bin/env python3
"""Measurements of `scripts/bench.sh runtime`: a seeded model runs with only some of its experts in slots; its reads are
compared with the disk. README.md describes them."""

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
STARTS = 5
READS = ("serial", "ahead", "prefetch")


def say(text):
    print(text, file=sys.stderr, flush=True)


def config(layers):
    text = json.loads((ROOT / "models/tinymoe/config.json").read_text())
    text.update(hidden_size=HIDDEN, moe_intermediate_size=FF, num_local_experts=EXPERTS, num_experts_per_tok=TOP_K,
                num_hidden_layers=layers, num_attention_heads=16, num_key_value_heads=4, head_dim=64, vocab_size=4096)
    return text


def own_folder(parent, gigabytes):
    """Returns the folder for all files that this script writes and removes; one per model size."""
    return parent / f"runtime-{gigabytes:g}"


def layers_of(gigabytes):
    return max(1, round(gigabytes * 1e9 / (EXPERTS * EXPERT_BYTES)))


def make_export(moec, folder, gigabytes):
    layers = layers_of(gigabytes)
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
    """Figures of one run, compared with a disk that reads `rate` GB/s."""
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
    """Runs a round. Before the round, measures several ways to read the disk and chooses the fastest; after it,
    measures that way again."""
    experts = sorted(out.glob("moe/*.data"))
    disk_floor.settle(experts)  # moec reads from the page cache what it contains
    files = sample(experts)
    rates = {way: disk_floor.read_rate(files, way) for way in disk_floor.WAYS}
    way = max(rates, key=rates.get)
    runs = {reads: run(moec, out, capacity, tokens, "--expert-reads", reads) for reads in READS}
    rate = max(rates[way], disk_floor.read_rate(files, way))
    if len({str(result["tokens"]) for result in runs.values()}) > 1:
        sys.exit("different values of --expert-reads gave different tokens")
    result = {"disk": rate, **{reads: figures(runs[reads], rate) for reads in READS}}
    say(json.dumps(result))
    return result


def profile(layers):
    """A profile in the format of moec analyze, with an arbitrary order of each layer's experts."""
    chance, counts = random.Random(3), list(range(1, EXPERTS + 1))
    rows = []
    for layer in range(layers):
        chance.shuffle(counts)
        rows.append({"layer": layer, "tokens": sum(counts) // TOP_K, "selections": list(counts)})
    head = {"format": "moec.expert_profile", "version": 1, "model": "qwen3_moe", "checkpoint": "", "source": "export"}
    return {**head, "text": "", "experts": EXPERTS, "top_k": TOP_K, "categories": [], "layers": rows}


def prepack(moec, out, capacity, layers):
    """Writes a file of prepacked experts next to the export."""
    file, chosen = out.parent / "warm.pack", out.parent / "profile.json"
    chosen.write_text(json.dumps(profile(layers)))
    command = [moec, "prepack", out, "--profile", chosen, "--capacity", str(capacity), "--out", file, "--force"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return file


def warm_start(moec, out, capacity, pack):
    """Measures the speed of filling slots from a file of prepacked experts, and of reading that file before and after;
    the fastest of several runs each. The first start may be slow, because a virtual machine may have to request memory
    from its host."""
    disk_floor.settle([pack])
    rates = {way: disk_floor.read_rate([pack], way) for way in disk_floor.WAYS}
    way = max(rates, key=rates.get)
    starts = [run(moec, out, capacity, 1, "--prepacked", pack)["experts"]["start"] for _ in range(STARTS)]
    disk = max(rates[way], disk_floor.read_rate([pack], way))
    speeds = [start["bytes_per_second"] / 1e9 for start in starts]
    result = {"disk": disk, "start": max(speeds), "first_start": speeds[0], "bytes": starts[0]["bytes"],
              "of_the_disk": max(speeds) / disk}  # fmt: skip
    say(json.dumps(result))
    return result


def middle(rounds):
    """Medians of all figures over the rounds."""
    return {key: statistics.median(item[key] for item in rounds) for key in rounds[0]}


def trunk_and_slots(manifest, capacity):
    """Bytes of all weights except experts, and of the slots."""
    trunk = sum(shard["weight_bytes"] for shard in manifest["shards"] if shard["kind"] != "experts")
    return trunk + manifest["model"]["layers"] * capacity * EXPERT_BYTES


def summary(rounds, allowed):
    """Medians over rounds. `gain` is the speedup over serial reads."""
    result = {"disk": statistics.median(item["disk"] for item in rounds)}
    for reads in READS:
        result[reads] = {key: statistics.median(item[reads][key] for item in rounds) for key in rounds[0][reads]}
        result[reads]["gain"] = statistics.median(item["serial"]["seconds"] / item[reads]["seconds"] for item in rounds)
        result[reads]["peak_of_trunk_and_slots"] = max(item[reads]["peak_bytes"] for item in rounds) / allowed
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4, help="gigabytes of experts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=24, help="tokens per run")
    parser.add_argument("--capacity", type=int, default=EXPERTS // 4, help="slots per layer")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench_runtime")
    parser.add_argument("--moec", type=pathlib.Path, default=ROOT / "build/release/frontends/moec")
    parser.add_argument("--keep-export", action="store_true", help="keep the export for the next call")
    flags = parser.parse_args()
    folder = own_folder(flags.folder, flags.gigabytes)
    out = folder / "out"
    if not (out / "manifest.json").exists():
        out = make_export(flags.moec, folder, flags.gigabytes)
    pack = prepack(flags.moec, out, flags.capacity, layers_of(flags.gigabytes))
    starts = [warm_start(flags.moec, out, flags.capacity, pack) for _ in range(flags.rounds)]
    rounds = [one_round(flags.moec, out, flags.capacity, flags.tokens) for _ in range(flags.rounds)]
    manifest = json.loads((out / "manifest.json").read_text())
    result = summary(rounds, trunk_and_slots(manifest, flags.capacity))
    print(json.dumps({**result, "warm_start": middle(starts)}, indent=2))
    if not flags.keep_export:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

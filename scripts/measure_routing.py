#!/usr/bin/env python3
"""Measures how often moec and transformers in f16 pick the exact experts.

    scripts/measure_routing.py MOEC [--family glm4_moe] [--seeds 20] [--first-seed 0] [--offsets 0,7,35]
                               [--target onnx --target ane]

MOEC is the moec program. For each family and seed, the script makes a tiny random checkpoint as for the goldens
(scripts/golden/cases.py), and adds the offset to the correction biases, if any. transformers runs a random text in
float32. Each router, with its norm and scores, is then computed in float64 from the hidden states of this run; these
picks are the exact ones. Then the routers of transformers' model in f16 and of moec's exports in f16 read the same
hidden states, rounded to f16. The first table counts tokens with picks other than the exact ones, summed over MoE
layers and seeds.

The second table tests that moec is not worse than transformers in f16. Rounding the inputs to f16 alone changes the
picks of a few tokens per thousand at random, so small counts are not significant. The checkpoints are therefore
compared in pairs. A checkpoint is `better` if moec has fewer wrong tokens than transformers over all layers and
offsets, and `worse` if it has more. `p worse` and `p better` are the probabilities of at least these numbers if both
were equally good (one-sided sign tests). A family fails if p worse is at most 0.05 divided by the number of families
and targets; the exit code is then 1. The last rows cover all families together.

Requires the packages of make_golden.py. passes/README.md quotes the figures.
"""

import argparse
import contextlib
import hashlib
import json
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from golden.request import Request
from make_golden import quieten

LEVEL = 0.05
FLAGS = {"onnx": ["--target", "onnx", "--dtype", "f16"], "ane": ["--target", "ane"]}


def flags_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moec", type=Path)
    parser.add_argument("--family", action="append", help="measure only this family (repeatable)")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--offsets", default="0,7,35", help="offsets of the correction biases (default: %(default)s)")
    parser.add_argument("--target", action="append", choices=FLAGS, help="default: both")
    return parser.parse_args()


def first_cases():
    """The first case of each family with weights that are not quantized."""
    from golden.cases import CASES

    cases = {}
    for case, spec in CASES.items():
        if "quantization" not in spec:
            cases.setdefault(spec["family"], (case, spec))
    return cases


def shift_biases(folder, offset):
    """Adds the offset to all correction biases of a checkpoint; returns the number of their tensors."""
    from golden.checkpoint import biases_choice
    from safetensors.torch import load_file, save_file

    count = 0
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        for name in filter(biases_choice, tensors):
            tensors[name] = tensors[name] + offset
            count += 1
        save_file(tensors, file, metadata={"format": "pt"})
    return count


def half_model(folder, family):
    """transformers' model in f16 with the hooks of the reference."""
    import torch
    from golden.capture import Capture
    from golden.checkpoint import auto_class
    from golden.reference import config_of, load_balancing_biases

    model = auto_class(family).from_pretrained(
        folder, config=config_of(folder), dtype=torch.float16, attn_implementation="eager")
    model.config._experts_implementation = "eager"
    if family == "zaya":
        load_balancing_biases(model, folder)
    model.moec_capture = Capture(model)
    return model.eval()


@contextlib.contextmanager
def in_double():
    """Context in which transformers casts to float64 instead of float32, in norms and scores."""
    import torch
    from torch.overrides import TorchFunctionMode

    def wide(value):
        return torch.float64 if value is torch.float32 else value

    class Double(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            func = torch.Tensor.double if func is torch.Tensor.float else func
            return func(*map(wide, args), **{name: wide(value) for name, value in (kwargs or {}).items()})

    with Double():
        yield


def choose(model, family, step):
    """The experts [T,k] that each MoE layer of a model picks from the hidden states of `step`, cast to the model's element
    type."""
    import torch
    from golden.capture import MOE_BLOCKS

    capture, chosen, state = model.moec_capture, {}, None
    for i in capture.moe_layers:
        layer = model.model.layers[i]
        block = next(getattr(layer, name) for name in MOE_BLOCKS if hasattr(layer, name))
        earlier = [None if state is None else state[None].to(model.dtype)] if family == "zaya" else []
        with torch.no_grad():
            block(layer.post_attention_layernorm(step[f"L{i:02}.attn_out"][None].to(model.dtype)), *earlier)
        state = step.get(f"L{i:02}.router_state")
        chosen[i] = capture.seen[f"L{i:02}.experts"].reshape(len(step["tokens"]), -1)
    return chosen


def count_wrong(got, exact):
    return sum(set(a) != set(b) for a, b in zip(got.tolist(), exact.tolist()))


def put_experts(golden, exact):
    """Replaces the picked experts of a golden."""
    import torch
    from safetensors.torch import load_file, save_file

    file = golden / "golden.safetensors"
    tensors = load_file(file)
    for layer, experts in exact.items():
        tensors[f"prefill.L{layer:02}.experts"] = experts.to(torch.int32)
    save_file(tensors, file)
    info = json.loads((golden / "golden.json").read_text())
    info["golden_sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (golden / "golden.json").write_text(json.dumps(info))


def wrong_in_moec(moec, folder, golden, out, target):
    """Returns (tokens whose experts differ from the golden's, all tokens) for the shards of an export, as counted by
    `moec validate`."""
    run = [moec, "export", folder, "--out", out, "--quiet", "--tokens", "1,96", "--context", "96", *FLAGS[target]]
    subprocess.run(run, check=True, stderr=subprocess.DEVNULL)
    told = subprocess.run([moec, "validate", out, "--golden", golden, "--json"], stdout=subprocess.PIPE, check=False)
    routers = [shard["router"] for shard in json.loads(told.stdout)["shards"] if shard.get("router")]
    return sum(router["tokens"] - router["same_experts"] for router in routers), sum(r["tokens"] for r in routers)


def measure(flags, case, spec, seed, offset, work):
    """Wrong tokens of one checkpoint per implementation, and "tokens". None if there is no bias to offset."""
    import torch
    from golden.checkpoint import write_checkpoint
    from golden.own import make_own
    from golden.reference import load, run_pass

    folder, golden, family = work / "checkpoint", work / "golden", spec["family"]
    folder.mkdir()
    write_checkpoint(f"{case}.{seed}", spec, folder)
    if shift_biases(folder, offset) == 0 and offset:
        return None
    rng = random.Random(seed)
    tokens = [rng.randrange(spec["args"]["vocab_size"]) for _ in range(90)]
    step = run_pass(load(folder), tokens, use_cache=False)
    double = load(folder).to(torch.float64)
    with in_double():
        exact = choose(double, family, step)
    with contextlib.redirect_stdout(sys.stderr):
        make_own(Request(folder, family, tokens, [], golden), whole=True)
    put_experts(golden, exact)
    half = choose(half_model(folder, family), family, step)
    found = {"transformers": sum(count_wrong(half[layer], exact[layer]) for layer in exact)}
    for target in flags.target:
        found[target], found["tokens"] = wrong_in_moec(flags.moec, folder, golden, work / target, target)
    return found


def chance_of_at_least(count, of):
    """Probability that a fair coin shows heads at least `count` times in `of` throws."""
    return sum(math.comb(of, i) for i in range(count, of + 1)) / 2 ** of


def compare_pairs(pairs):
    """Returns (better, worse, p worse, p better) of pairs (wrong tokens of transformers, wrong tokens of moec)."""
    better, worse = sum(b < a for a, b in pairs), sum(b > a for a, b in pairs)
    return better, worse, chance_of_at_least(worse, better + worse), chance_of_at_least(better, better + worse)


def judge(by_seed, targets):
    """Prints the second table of {family: {seed: counts}}. Returns True if all families pass."""
    print("\n| family | target | checkpoints | better | worse | p worse | p better | bar |\n" + "| --- " * 8 + "|")
    met, everything = True, defaultdict(list)
    for family, seeds in by_seed.items():
        for target in targets:
            pairs = [(found["transformers"], found[target]) for found in seeds.values()]
            everything[target] += pairs
            better, worse, p_worse, p_better = compare_pairs(pairs)
            passes = p_worse > LEVEL / (len(by_seed) * len(targets))
            met &= passes
            print(f"| {family} | {target} | {len(pairs)} | {better} | {worse} | {p_worse:.2g} | {p_better:.2g} |",
                  "met |" if passes else "FAILED |")
    for target, pairs in everything.items():
        better, worse, p_worse, p_better = compare_pairs(pairs)
        print(f"| all | {target} | {len(pairs)} | {better} | {worse} | {p_worse:.2g} | {p_better:.2g} | |")
    return met


def measure_family(flags, case, spec, by_seed, total):
    """Prints a row per offset. Adds the counts to the totals of each seed and of all seeds."""
    for offset in map(float, flags.offsets.split(",")):
        row = Counter()
        for seed in range(flags.first_seed, flags.first_seed + flags.seeds):
            with tempfile.TemporaryDirectory() as work:
                found = measure(flags, case, spec, seed, offset, Path(work))
            if found is None:
                break
            row.update(found)
            by_seed[spec["family"]][seed].update(found)
        if row["tokens"]:
            counts = [row[name] for name in ["tokens", "transformers", *flags.target]]
            print("|", " | ".join(map(str, [spec["family"], f"{offset:g}", *counts])), "|", flush=True)
            total += row


def main():
    flags = flags_of()
    flags.target = flags.target or list(FLAGS)
    quieten()
    print("| family | offset | tokens | transformers |", " | ".join(flags.target), "|")
    print("| --- " * (4 + len(flags.target)) + "|")
    total, by_seed = Counter(), defaultdict(lambda: defaultdict(Counter))
    for family, (case, spec) in first_cases().items():
        if not flags.family or family in flags.family:
            measure_family(flags, case, spec, by_seed, total)
    print("| all | |", " | ".join(str(total[name]) for name in ["tokens", "transformers", *flags.target]), "|")
    return 0 if judge(by_seed, flags.target) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures how often experts that are chosen in f16 are those that float32 chooses, by moec and by transformers.

    scripts/measure_routing.py MOEC [--family glm4_moe] [--seeds 20] [--offsets 0,7,35] [--target onnx --target ane]

MOEC is the program. For each family a tiny random checkpoint is made for each seed, as for the goldens
(scripts/golden/cases.py). Where the family has correction biases, the offset is added to all of them. transformers runs
a random text in float32. Then each router gets the hidden states of that run, rounded to f16: that of transformers'
model in f16, and those of the exports of moec in f16. Printed is how many tokens, summed up over the MoE layers and the
seeds, get other experts than in float32.

Needs what make_golden.py needs. The figures of passes/README.md are its.
"""

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from golden.request import Request
from make_golden import quieten

FLAGS = {"onnx": ["--target", "onnx", "--dtype", "f16"], "ane": ["--target", "ane"]}


def flags_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moec", type=Path)
    parser.add_argument("--family", action="append", help="only this family; may be given several times")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--offsets", default="0,7,35", help="of the correction biases")
    parser.add_argument("--target", action="append", choices=FLAGS, help="default: both")
    return parser.parse_args()


def first_cases():
    """The first case of each family whose weights are stored as plain numbers."""
    from golden.cases import CASES

    cases = {}
    for case, spec in CASES.items():
        if "quantization" not in spec:
            cases.setdefault(spec["family"], (case, spec))
    return cases


def shift_biases(folder, offset):
    """Adds the offset to all correction biases of a checkpoint; returns how many tensors there are of them."""
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
    """transformers' model in f16, with the hooks of the reference."""
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


def sets(experts):
    return [frozenset(row) for row in experts.tolist()]


def wrong_in_transformers(folder, family, step):
    """Tokens whose experts differ where transformers' f16 layers get the hidden states of the run in float32."""
    import torch
    from golden.capture import MOE_BLOCKS

    model = half_model(folder, family)
    capture, wrong, state = model.moec_capture, 0, None
    for i in capture.moe_layers:
        layer = model.model.layers[i]
        block = next(getattr(layer, name) for name in MOE_BLOCKS if hasattr(layer, name))
        x = layer.post_attention_layernorm(step[f"L{i:02}.attn_out"][None].half())
        earlier = [None if state is None else state[None].half()] if family == "zaya" else []
        with torch.no_grad():
            block(x, *earlier)
        state = step.get(f"L{i:02}.router_state")
        got = capture.seen[f"L{i:02}.experts"].reshape(len(step["tokens"]), -1)
        wrong += sum(a != b for a, b in zip(sets(got), sets(step[f"L{i:02}.experts"])))
    return wrong


def wrong_in_moec(moec, folder, golden, out, target):
    """The same for the shards of an export, by `moec validate`."""
    run = [moec, "export", folder, "--out", out, "--quiet", "--tokens", "1,96", "--context", "96", *FLAGS[target]]
    subprocess.run(run, check=True, stderr=subprocess.DEVNULL)
    told = subprocess.run([moec, "validate", out, "--golden", golden, "--json"], stdout=subprocess.PIPE, check=False)
    routers = [shard["router"] for shard in json.loads(told.stdout)["shards"] if shard.get("router")]
    return sum(router["tokens"] - router["same_experts"] for router in routers), sum(r["tokens"] for r in routers)


def measure(flags, case, spec, seed, offset, work, found):
    """Adds one checkpoint to `found`. Returns whether the family has correction biases."""
    from golden.checkpoint import write_checkpoint
    from golden.own import make_own
    from golden.reference import load, run_pass

    folder, golden = work / "checkpoint", work / "golden"
    folder.mkdir()
    write_checkpoint(f"{case}.{seed}", spec, folder)
    biased = shift_biases(folder, offset) > 0
    if offset and not biased:
        return False
    rng = random.Random(seed)
    tokens = [rng.randrange(spec["args"]["vocab_size"]) for _ in range(90)]
    step = run_pass(load(folder), tokens, use_cache=False)
    with contextlib.redirect_stdout(sys.stderr):
        make_own(Request(folder, spec["family"], tokens, [], golden), whole=True)
    found["transformers"] += wrong_in_transformers(folder, spec["family"], step)
    for target in flags.target or FLAGS:
        wrong, count = wrong_in_moec(flags.moec, folder, golden, work / target, target)
        found[target] += wrong
        found["tokens"] = found.get("tokens", 0) + (count if target == (flags.target or list(FLAGS))[0] else 0)
    return biased


def main():
    flags = flags_of()
    quieten()
    targets = flags.target or list(FLAGS)
    print("| family | offset | tokens | transformers |", " | ".join(targets), "|")
    print("| --- " * (4 + len(targets)) + "|")
    total = Counter()
    for family, (case, spec) in first_cases().items():
        if flags.family and family not in flags.family:
            continue
        for offset in map(float, flags.offsets.split(",")):
            found = Counter()
            for seed in range(flags.seeds):
                with tempfile.TemporaryDirectory() as work:
                    if not measure(flags, case, spec, seed, offset, Path(work), found) and offset:
                        break
            if found["tokens"]:
                row = [family, f"{offset:g}", *(found[name] for name in ["tokens", "transformers", *targets])]
                print("|", " | ".join(map(str, row)), "|", flush=True)
                total += found
    print("| all | |", " | ".join(str(total[name]) for name in ["tokens", "transformers", *targets]), "|")


if __name__ == "__main__":
    sys.exit(main())

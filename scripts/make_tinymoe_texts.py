#!/usr/bin/env python3
"""Writes the texts for calibrating and measuring compressed exports of tinymoe.

    scripts/make_tinymoe_texts.py --out tests/data

Each file has 128 windows of 256 bytes, 32 of each of tinymoe's four domains in turn: Python, English, arithmetic, JSON.
A window begins with 16 bytes of a document; tinymoe generates the other 240 by sampling (PyTorch, float32) at the
domain's temperature. The texts therefore follow the model's distribution, are as hard for the model as real texts, and
have no third-party content. The first 16 bytes come from this project's scripts and documents, on which tinymoe was not
trained, and from the training's generators, with seeds that the training did not use. The two files begin with
different documents. Do not replace the committed files: new ones would depend on today's documents, and figures of
different texts are not comparable. Requires PyTorch and transformers.
"""

import argparse
import random
from pathlib import Path

import torch
from training.tinymoe.generated import arithmetic, json_records
from transformers import AutoModelForCausalLM

REPO = Path(__file__).resolve().parents[1]
WINDOW, WINDOWS, OPENING = 256, 32, 16
FILES = {"tinymoe_calibration.bin": 0, "tinymoe_heldout.bin": 1}
# Temperatures of Python, English, arithmetic and JSON, by part. For the measured text: in steps of 0.05 and at most 1,
# the temperature at which the model needs as many bits per byte as on held-out files of the training (1.50, 1.92, 1.33
# and 0.41). At 1, Python needs 1.76 and arithmetic 1.42. Calibration uses arithmetic at 1, which has a wider
# distribution; tests/data/tinymoe_narrow.bin has part 0 at 0.9.
TEMPERATURES = ((0.9, 1, 1, 1), (0.9, 1, 0.9, 1))


def documents(pattern, part):
    """ASCII bytes of every second file of the project, starting with file `part`."""
    paths = sorted(path for path in REPO.rglob(pattern)
                   if not {"build", ".venv", ".git"} & set(path.relative_to(REPO).parts))
    return b"".join(path.read_text().encode("ascii", "ignore") for path in paths[part::2])


def openings(text, rng):
    """First bytes of windows that do not overlap, in text order."""
    starts = sorted(rng.sample(range(len(text) // WINDOW), WINDOWS))
    return [list(text[start * WINDOW:start * WINDOW + OPENING]) for start in starts]


def written_on(model, begun, temperature):
    """Returns the bytes of all windows: the given bytes, continued by sampling from the model."""
    tokens = new = torch.tensor(begun)
    cache = None
    with torch.no_grad():
        while tokens.shape[1] < WINDOW:
            result = model(new, past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            new = torch.multinomial((result.logits[:, -1].double() / temperature).softmax(-1), 1)
            tokens = torch.cat([tokens, new], 1)
    return bytes(tokens.flatten().tolist())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/data"), help="folder (default: tests/data)")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(REPO / "models/tinymoe", dtype=torch.float32).eval()
    for name, part in FILES.items():
        rng = random.Random(1000 + part)
        torch.manual_seed(part)
        texts = [documents("*.py", part), documents("*.md", part), bytes(arithmetic(rng, 1 << 16)),
                 bytes(json_records(rng, 1 << 17))]
        begun = [openings(text, rng) for text in texts]
        (out / name).write_bytes(b"".join(map(written_on, [model] * len(begun), begun, TEMPERATURES[part])))


if __name__ == "__main__":
    main()

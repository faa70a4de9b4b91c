#!/usr/bin/env python3
"""Writes the texts that compressed exports of tinymoe are calibrated with and measured on.

    scripts/make_tinymoe_texts.py --out tests/data

Each file holds 128 windows of 256 bytes, 32 of each of tinymoe's four domains in turn: Python, English, arithmetic,
JSON. A window begins with 16 bytes of a document, and tinymoe writes the other 240: each byte is drawn from the
probabilities that the model gives it (PyTorch, float32), at the temperature of its domain. So the texts are of the
distribution that the model knows, as hard for it as real ones, and nobody else's. The first 16 bytes are of the scripts and the documents of this project, which tinymoe was not trained on,
and of the generators of the training, with seeds that it did not use; the two files begin with different documents. The
committed files stay as they are: made again, they follow the documents of today, and figures of different texts cannot
be compared. Needs PyTorch and transformers.
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
# Of Python, English, arithmetic and JSON, by part. Of the text that is measured on: in steps of 0.05, the temperature at
# which a byte costs the model as many bits as one of files that the training held out (1.50, 1.92, 1.33 and 0.41; 1 at
# most). At 1, Python costs it 1.76, arithmetic 1.42. Arithmetic to calibrate with is drawn at 1, as it is wider then;
# tests/data/tinymoe_narrow.bin has that of part 0 at 0.9.
TEMPERATURES = ((0.9, 1, 1, 1), (0.9, 1, 0.9, 1))


def documents(pattern, part):
    """The ASCII bytes of every second file of the project, from the first or the second on."""
    paths = sorted(path for path in REPO.rglob(pattern)
                   if not {"build", ".venv", ".git"} & set(path.relative_to(REPO).parts))
    return b"".join(path.read_text().encode("ascii", "ignore") for path in paths[part::2])


def openings(text, rng):
    """The first bytes of windows that do not overlap, in the order of the text."""
    starts = sorted(rng.sample(range(len(text) // WINDOW), WINDOWS))
    return [list(text[start * WINDOW:start * WINDOW + OPENING]) for start in starts]


def written_on(model, begun, temperature):
    """The bytes of all windows: those that are given, and those that the model draws behind them."""
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

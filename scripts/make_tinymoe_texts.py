#!/usr/bin/env python3
"""Writes the texts that compressed exports of tinymoe are calibrated with and measured on.

    scripts/make_tinymoe_texts.py --out tests/data

Each file holds 128 windows of 256 bytes, 32 of each of tinymoe's four domains in turn: Python, English, arithmetic,
JSON. Python and English are the scripts and the documents of this project, which tinymoe was not trained on; the other
two come from the generators of the training, with seeds that it did not use. The windows of the two files are of
different documents. The committed files stay as they are: made again, they follow the scripts and documents of today, and
figures of different texts cannot be compared.
"""

import argparse
import random
from pathlib import Path

from training.tinymoe.generated import arithmetic, json_records

REPO = Path(__file__).resolve().parents[1]
WINDOW, WINDOWS = 256, 32
FILES = {"tinymoe_calibration.bin": 0, "tinymoe_heldout.bin": 1}


def documents(pattern, part):
    """The ASCII bytes of every second file of the project, from the first or the second on."""
    paths = sorted(path for path in REPO.rglob(pattern)
                   if not {"build", ".venv", ".git"} & set(path.relative_to(REPO).parts))
    return b"".join(path.read_text().encode("ascii", "ignore") for path in paths[part::2])


def windows(text, rng):
    """Windows that do not overlap, in the order of the text."""
    starts = sorted(rng.sample(range(len(text) // WINDOW), WINDOWS))
    return b"".join(text[start * WINDOW:(start + 1) * WINDOW] for start in starts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/data"), help="folder (default: tests/data)")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, part in FILES.items():
        rng = random.Random(1000 + part)
        texts = [documents("*.py", part), documents("*.md", part), bytes(arithmetic(rng, 1 << 16)),
                 bytes(json_records(rng, 1 << 17))]
        (out / name).write_bytes(b"".join(windows(text, rng) for text in texts))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the prompts that are bundled with `moec analyze`, for --prompts default.

    scripts/make_prompt_suite.py --out frontends/measure/prompts.jsonl

Twelve documents of about 256 bytes in each of four categories: code and prose are pieces of the scripts and documents of
this project, from the beginning of a line to its end; arithmetic and records are of the generators of tinymoe's
training, with a seed that the training did not use. The committed file stays as it is: made again, it follows the
documents of today, and figures of different suites cannot be compared.
"""

import argparse
import json
import random
from pathlib import Path

from training.tinymoe.generated import arithmetic, json_records

REPO = Path(__file__).resolve().parents[1]
SIZE, COUNT, SEED = 256, 12, 2200


def documents(pattern, left_out=()):
    """The ASCII text of the project's files of a kind, without the lines that begin with one of these."""
    paths = sorted(path for path in REPO.rglob(pattern)
                   if not {"build", ".venv", ".git"} & set(path.relative_to(REPO).parts))
    lines = "".join(path.read_text().encode("ascii", "ignore").decode() for path in paths).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(left_out))


def pieces(text, rng):
    """Whole lines of about SIZE bytes from COUNT places of the text."""
    lines = [line for line in text.splitlines(keepends=True) if line.strip() and len(line) <= SIZE]
    step = len(lines) // COUNT
    for part in range(COUNT):
        piece, at = "", part * step + rng.randrange(step // 2)
        while len(piece) + len(lines[at]) <= SIZE or not piece:
            piece, at = piece + lines[at], (at + 1) % len(lines)
        yield piece


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPO / "frontends/measure/prompts.jsonl", help="the file to write")
    out = parser.parse_args().out
    rng = random.Random(SEED)
    size = 4 * COUNT * SIZE
    texts = {"code": documents("*.py"), "prose": documents("*.md", (" ", "|", "#", "`", "!")), "arithmetic": arithmetic(rng, size).decode(),
             "records": json_records(rng, size).decode()}
    prompts = [{"category": name, "text": piece} for name, text in texts.items() for piece in pieces(text, rng)]
    out.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the prompts bundled with `moec analyze` (--prompts default).

    scripts/make_prompt_suite.py --out frontends/measure/prompts.jsonl

The suite has twelve documents of about 256 bytes in each of four categories. Code and prose are whole lines of this
project's scripts and documents. Arithmetic and records come from the generators of tinymoe's training, with a seed that
the training did not use. Do not replace the committed file: a new one would depend on today's documents, and figures of
different suites are not comparable.
"""

import argparse
import json
import random
from pathlib import Path

from training.tinymoe.generated import arithmetic, json_records

REPO = Path(__file__).resolve().parents[1]
SIZE, COUNT, SEED = 256, 12, 2200


def documents(pattern, left_out=()):
    """The ASCII text of the project's files that match `pattern`, without lines that begin with one of `left_out`."""
    paths = sorted(path for path in REPO.rglob(pattern)
                   if not {"build", ".venv", ".git"} & set(path.relative_to(REPO).parts))
    lines = "".join(path.read_text().encode("ascii", "ignore").decode() for path in paths).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(left_out))


def pieces(text, rng):
    """Returns COUNT pieces of about SIZE bytes from random positions of the text, in whole lines."""
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

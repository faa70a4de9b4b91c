#!/usr/bin/env python3
"""Draws the pictures of the documents from the sources and from moec's output.

    scripts/draw_pictures.py [--moec BINARY] [NAME…]   draws all pictures, or only the named ones
    scripts/draw_pictures.py --check                   compares, writes nothing, needs no binary

| name      | file                          | drawn from                                        |
|-----------|-------------------------------|---------------------------------------------------|
| pipeline  | scripts/pictures/pipeline.svg | ir/graph/ops.def, passes/pipeline.cc              |
| folders   | scripts/pictures/folders.svg  | scripts/arrows.json                               |
| moe_layer | passes/moe_layer.svg          | moec opt over scripts/pictures/moe_layer.ir       |
| budget    | models/plan/budget.svg        | moec plan --json of a published model             |

The same input produces the same bytes. --check compares the first two, which depend only on the sources, and exits with
1 if a file is out of date.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import check_includes
from pictures import budget, folders, moe_layer, pipeline

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGEST = 60_000  # maximum bytes of a file in the repository


class Moec:
    """Runs the binary and returns its output."""

    def __init__(self, binary):
        self.binary = binary

    def __call__(self, *words):
        run = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"moec {' '.join(map(str, words))}\n{run.stderr}")
        return run.stdout


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def draw_pipeline(_):
    return pipeline.draw(text_of("ir/graph/ops.def"), text_of("passes/pipeline.cc"))


def draw_folders(_):
    return folders.draw(check_includes.Table(check_includes.TABLE).arrows)


def draw_moe_layer(moec):
    return moe_layer.draw(lambda shard, passes: moec("opt", shard, "--passes", passes))


def draw_budget(moec):
    return budget.draw(lambda words: json.loads(moec(*words, "--json")))


# Name → (file, function that draws it, True if --check compares it).
PICTURES = {
    "pipeline": ("scripts/pictures/pipeline.svg", draw_pipeline, True),
    "folders": ("scripts/pictures/folders.svg", draw_folders, True),
    "moe_layer": ("passes/moe_layer.svg", draw_moe_layer, False),
    "budget": ("models/plan/budget.svg", draw_budget, False),
}


def check():
    """Yields an error for each picture that is out of date."""
    for name, (file, draw, checked) in PICTURES.items():
        if checked and (not (ROOT / file).is_file() or text_of(file) != str(draw(None))):
            yield f"{file}: the picture is out of date: run scripts/draw_pictures.py {name}"


def write(names, moec):
    for name in names:
        file, draw, _ = PICTURES[name]
        text = str(draw(moec))
        if len(text.encode()) > LARGEST:
            sys.exit(f"{file} has {len(text.encode())} bytes, more than the limit of {LARGEST}")
        (ROOT / file).write_text(text, encoding="utf-8")
        print(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--moec", default=str(ROOT / "build/release/frontends/moec"))
    parser.add_argument("--check", action="store_true", help="compare only; exit with 1 on a difference")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; default: all")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in PICTURES]:
        parser.error(f"there is no picture {unknown[0]}: choose from {', '.join(PICTURES)}")
    if options.check:
        errors = list(check())
        print("\n".join(errors) or "the checked pictures are up to date")
        return 1 if errors else 0
    write(options.names or list(PICTURES), Moec(options.moec))
    return 0


if __name__ == "__main__":
    sys.exit(main())

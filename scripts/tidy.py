#!/usr/bin/env python3
"""Runs clang-tidy over our sources, leaving out those that passed before and have not changed since.

    scripts/tidy.py BUILD_DIR [--jobs N] [PART…]

BUILD_DIR holds compile_commands.json and what the build generates. With PARTs, only sources whose path
contains one of them. A source counts as unchanged when its command, .clang-tidy, itself and every header
of ours that it reaches are the same; the record is BUILD_DIR/tidy/.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

from check_includes import ARROWS, includes_of

TIDY = "clang-tidy-14"
ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = tuple(sorted({name.split("/")[0] + "/" for name in ARROWS}))


def our_commands(build):
    """Source path from the root -> the command that compiles it."""
    entries = json.loads((build / "compile_commands.json").read_text())
    commands = {os.path.relpath(entry["file"], ROOT): entry["command"] for entry in entries}
    return {file: command for file, command in sorted(commands.items()) if file.startswith(OURS)}


class Closure:
    """Each file of ours with all that it includes of ours."""

    def __init__(self):
        self.direct = {}

    def of(self, file):
        reached, todo = set(), [file]
        while todo:
            current = todo.pop()
            if current in reached or not (ROOT / current).is_file():
                continue
            reached.add(current)
            if current not in self.direct:
                self.direct[current] = [path for _, _, path in includes_of(ROOT / current)]
            todo += self.direct[current]
        return sorted(reached)


def key_of(file, command, closure, version):
    digest = hashlib.sha256(f"{version}\n{command}\n".encode())
    for path in [".clang-tidy", *closure.of(file)]:
        digest.update(path.encode() + b"\n" + (ROOT / path).read_bytes())
    return digest.hexdigest()


def tidy(build, file):
    command = [TIDY, "-p", str(build), "--quiet", str(ROOT / file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    # On success the other stream holds only a count of suppressed warnings of system headers.
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    start = time.monotonic()
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    closure, stamps = Closure(), options.build / "tidy"
    stamps.mkdir(exist_ok=True)
    keys = {
        file: key_of(file, command, closure, version)
        for file, command in our_commands(options.build.resolve()).items()
        if not options.parts or any(part in file for part in options.parts)
    }
    todo = [file for file, key in keys.items() if not (stamps / key).exists()]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for file, output in zip(todo, pool.map(lambda f: tidy(options.build.resolve(), f), todo)):
            if output:
                failed += 1
                print(output, flush=True)
            else:
                (stamps / keys[file]).touch()
    seconds = time.monotonic() - start
    print(
        f"clang-tidy: {len(keys)} sources, {len(todo)} looked at in {seconds:.0f} s, {failed} with findings"
    )
    return 1 if failed or not keys else 0


if __name__ == "__main__":
    sys.exit(main())

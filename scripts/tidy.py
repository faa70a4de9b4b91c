#!/usr/bin/env python3
"""Runs clang-tidy on our sources, except sources that have not changed since they passed.

    scripts/tidy.py BUILD_DIR [--jobs N] [PART…]

BUILD_DIR has compile_commands.json and generated files. Sources that one command compiles together (a unity build) are
checked together, because most of the time is spent on headers of libraries. With PARTs, checks only sources whose path
contains one of them. A source counts as unchanged if the source, its command, .clang-tidy and all of our headers that
it includes are equal, in any clone; the record is moec/tidy/ in $XDG_CACHE_HOME or ~/.cache.

The check misc-unused-using-decls sees only the main file of clang-tidy. In a unity build, the script therefore requires
that the name of a using-declaration occurs once more in its source.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

from check_includes import TABLE, Table, includes_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = ROOT / ".venv/bin/clang-tidy"  # installed by scripts/install_python.sh
OURS = tuple(sorted({name.split("/")[0] + "/" for name in Table(TABLE).arrows}))


@dataclasses.dataclass
class Unit:
    """The sources of one compile command."""

    file: str
    flags: list
    sources: list  # our sources, relative to the root


def flags_of(command):
    """The flags of a command, without compiler, input and output."""
    words = shlex.split(command)
    output = words.index("-o")
    del words[output : output + 2]
    compiler = next(i for i, word in enumerate(words) if "ccache" not in word)
    # Compiler warnings are errors only in builds, not here.
    return [word for word in words[compiler + 1 : words.index("-c")] if word != "-Werror"]


def sources_of(file):
    """Our sources that a command compiles with this file: the file itself, or the sources that a unity build includes."""
    path = os.path.relpath(file, ROOT)
    if path.startswith(OURS):
        return [path]
    if "/Unity/" not in path:
        return []
    included = re.findall(r'^#include "(.*\.cc)"', pathlib.Path(file).read_text(), re.M)
    return [path for path in (os.path.relpath(source, ROOT) for source in included) if path.startswith(OURS)]


def units_of(build, parts):
    entries = json.loads((build / "compile_commands.json").read_text())
    units = [Unit(entry["file"], flags_of(entry["command"]), sources_of(entry["file"])) for entry in entries]
    wanted = lambda unit: not parts or any(part in source for part in parts for source in unit.sources)
    return sorted((unit for unit in units if unit.sources and wanted(unit)), key=lambda unit: unit.sources)


class Closure:
    """Maps each of our files to all of our files that it includes."""

    def __init__(self):
        self.direct = {}

    def of(self, files):
        reached, todo = set(), list(files)
        while todo:
            current = todo.pop()
            if current in reached or not (ROOT / current).is_file():
                continue
            reached.add(current)
            if current not in self.direct:
                self.direct[current] = [path for _, _, path in includes_of(ROOT / current)]
            todo += self.direct[current]
        return sorted(reached)


def key_of(unit, closure, version):
    digest = hashlib.sha256(f"{version}\n{' '.join(unit.flags).replace(str(ROOT), '.')}\n".encode())
    for path in [".clang-tidy", "scripts/tidy.py", *unit.sources, *closure.of(unit.sources)]:
        digest.update(path.encode() + b"\n" + (ROOT / path).read_bytes())
    return digest.hexdigest()


def run_tidy(unit):
    """Returns clang-tidy's findings in our files. Ignores stderr, which counts suppressed findings in third-party
    headers."""
    ours = f"^{re.escape(str(ROOT))}/({'|'.join(part[:-1] for part in OURS)})/"
    command = [TIDY, "--quiet", f"--header-filter={ours}", unit.file, "--", *unit.flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    findings = "" if done.returncode == 0 else done.stdout + done.stderr
    return findings + "".join(unused_usings(source) for source in unit.sources)


def unused_usings(source):
    """Findings for using-declarations whose names occur nowhere else in the source."""
    text = re.sub(r"//.*", "", (ROOT / source).read_text())
    return "".join(
        f"{source}: error: using decl '{name}' is unused [misc-unused-using-decls]\n"
        for name in re.findall(r"^\s*using [\w:]+::(\w+);", text, re.M)
        if len(re.findall(rf"\b{name}\b", text)) < 2
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_intermixed_args()

    start = time.monotonic()
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    stamps = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "moec/tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    units, closure = units_of(options.build.resolve(), options.parts), Closure()
    stamp_of = {unit.file: stamps / key_of(unit, closure, version) for unit in units}
    todo = [unit for unit in units if not stamp_of[unit.file].exists()]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for unit, findings in zip(todo, pool.map(run_tidy, todo)):
            print(findings, end="", flush=True)
            failed += bool(findings)
            if not findings:
                stamp_of[unit.file].touch()
    print(
        f"clang-tidy: {sum(len(unit.sources) for unit in units)} sources, "
        f"{sum(len(unit.sources) for unit in todo)} checked in {time.monotonic() - start:.0f} s, "
        + ("with findings" if failed else "no findings")
    )
    return 1 if failed or not units else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs clang-tidy over our sources, leaving out those that passed before and have not changed since.

    scripts/tidy.py BUILD_DIR [--jobs N] [--batch N] [PART…]

BUILD_DIR holds compile_commands.json and what the build generates. With PARTs, only sources whose path
contains one of them. A source counts as unchanged when its command, .clang-tidy, itself and every header
of ours that it reaches are the same, in whatever clone; the record is moec/tidy/ in $XDG_CACHE_HOME or ~/.cache.

Nearly all of clang-tidy's time goes into the headers of libraries, which it reads and searches again for
each source. So sources with the same flags are looked at in batches, one file that includes them all. Only
sources whose names with internal linkage differ can share a batch; what a batch cannot compile all the
same is looked at source by source. One check, misc-unused-using-decls, sees only the file that it is
started with: in a batch, the name of a using-declaration must occur once more in its source.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
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
    digest = hashlib.sha256(f"{version}\n{command.replace(str(ROOT), '.')}\n".encode())
    for path in [".clang-tidy", "scripts/tidy.py", *closure.of(file)]:
        digest.update(path.encode() + b"\n" + (ROOT / path).read_bytes())
    return digest.hexdigest()


class Source:
    """What decides which sources can share a batch: flags, names with internal linkage, all words."""

    def __init__(self, file, command):
        text = (ROOT / file).read_text()
        self.file = file
        self.flags = [word for word in shlex.split(command) if word != "-c" and not word.endswith("/" + file)]
        output = self.flags.index("-o")
        del self.flags[output : output + 2]
        self.words = set(re.findall(r"\w+", re.sub(r"//.*", "", text)))
        self.names = set(re.findall(r"^#define (\w+)", text, re.M))
        for block in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.M | re.S):
            for declared in re.findall(r"^(?!return|TEST)[A-Za-z][^({=;\n]*?(\w+)(?:\[\w*\]|\s)*[({=;]", block, re.M):
                self.names.add(declared)

    def clashes_with(self, other):
        return self.flags != other.flags or self.names & other.words or self.words & other.names


def batches_of(commands, size):
    """Lists of at most `size` sources that can be looked at together."""
    sources = [Source(file, command) for file, command in commands.items()]
    # Those that clash with many others come first, while there is still room for them.
    clashes = {one.file: sum(bool(one.clashes_with(other)) for other in sources) for one in sources}
    batches = []
    for source in sorted(sources, key=lambda source: -clashes[source.file]):
        for batch in batches:
            if len(batch) < size and not any(source.clashes_with(other) for other in batch):
                batch.append(source)
                break
        else:
            batches.append([source])
    return batches


def run_tidy(flags, path):
    """(whether it could be compiled, findings)"""
    filter = f"^{re.escape(str(ROOT))}/({'|'.join(part[:-1] for part in OURS)})/"
    command = [TIDY, "--quiet", f"--header-filter={filter}", str(path), "--", *flags[1:]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode == 0:
        return True, ""  # The other stream holds only a count of suppressed warnings of system headers.
    return "clang-diagnostic-error" not in done.stdout, done.stdout + done.stderr


def unused_usings(file):
    """Findings for using-declarations of a source whose names occur nowhere else in it."""
    text = re.sub(r"//.*", "", (ROOT / file).read_text())
    return "".join(
        f"{file}: error: using decl '{name}' is unused [misc-unused-using-decls]\n"
        for name in re.findall(r"^\s*using [\w:]+::(\w+);", text, re.M)
        if len(re.findall(rf"\b{name}\b", text)) < 2
    )


def tidy_batch(build, batch):
    """(files that passed, findings)"""
    files, flags = [source.file for source in batch], batch[0].flags
    if len(files) > 1:
        unity = build / ("tidy_" + hashlib.sha256("\n".join(files).encode()).hexdigest()[:16] + ".cc")
        unity.write_text("".join(f'#include "{ROOT / file}"  // NOLINT\n' for file in files))
        compiled, findings = run_tidy(flags, unity)
        unity.unlink()
        if compiled:
            findings += "".join(unused_usings(file) for file in files)
            return (files if not findings else []), findings
    results = {file: run_tidy(flags, ROOT / file)[1] for file in files}
    return [file for file in files if not results[file]], "".join(results.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--batch", type=int, default=12, help="most sources in a batch")
    options = parser.parse_intermixed_args()

    start = time.monotonic()
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    closure, build = Closure(), options.build.resolve()
    stamps = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "moec/tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    commands = {
        file: command
        for file, command in our_commands(build).items()
        if not options.parts or any(part in file for part in options.parts)
    }
    keys = {file: key_of(file, command, closure, version) for file, command in commands.items()}
    todo = {file: command for file, command in commands.items() if not (stamps / keys[file]).exists()}
    # A few sources are spread over the jobs rather than put into one batch.
    batches = batches_of(todo, min(options.batch, -(-len(todo) // options.jobs)))
    passed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for files, findings in pool.map(lambda batch: tidy_batch(build, batch), batches):
            passed += len(files)
            print(findings, end="", flush=True)
            for file in files:
                (stamps / keys[file]).touch()
    seconds = time.monotonic() - start
    print(
        f"clang-tidy: {len(keys)} sources, {len(todo)} looked at in {len(batches)} batches in {seconds:.0f} s, "
        + ("no findings" if passed == len(todo) else "with findings")
    )
    return 1 if passed < len(todo) or not keys else 0


if __name__ == "__main__":
    sys.exit(main())

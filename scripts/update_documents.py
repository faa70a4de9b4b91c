#!/usr/bin/env python3
"""Runs the commands whose output documents show, and rewrites or checks the output.

    scripts/update_documents.py [--check] [--program MOEC] [DOCUMENT…]

An indented block that begins with `$ ` shows a command and its output:

    $ moec plan qwen3-30b-a3b --target ane
    qwen3-30b-a3b (qwen3_moe): 30532122624 parameters, 48 layers
    …

A line `…` replaces omitted lines and is followed by the last lines of the output. The commands of a document run in
document order in one empty folder, which contains `models` and `tests` of the repository. An invisible line `<!-- run:
COMMAND -->` runs a command that the reader does not see. A command without output below it shows none, regardless of
its actual output. Exits with 1 if --check finds a difference or a command fails.
"""

import argparse
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent
ELLIPSIS = "…"
INDENT = "    "
SHOWN = re.compile(r"    \$ (.+)")
HIDDEN = re.compile(r"<!-- run: (.+) -->")
PROGRAMS = {"moec", "head"}  # programs that documents may run


class CommandFailed(Exception):
    pass


def shortened(output, shown):
    """Shortens the output like the shown lines: all lines, or the first and the last ones."""
    if not shown:
        return []
    if ELLIPSIS not in shown:
        return output
    first = shown.index(ELLIPSIS)
    last = len(shown) - first - 1
    if first + last >= len(output):
        return output
    return [*output[:first], ELLIPSIS, *output[len(output) - last :]]


def run(command, program, folder):
    """Runs a command; returns the lines of its standard output."""
    words = shlex.split(command)
    if words[0] not in PROGRAMS:
        raise CommandFailed(f"{command}: documents may run only {', '.join(sorted(PROGRAMS))}")
    if words[0] == "moec":
        words[0] = str(program)
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandFailed(f"{command}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout.splitlines()


def end_of_block(lines, at):
    """The end of the indented block, including its blank lines."""
    end = at
    while end < len(lines) and (lines[end].startswith(INDENT) or not lines[end]):
        if SHOWN.match(lines[end]):
            break
        end += 1
    while end > at and not lines[end - 1]:
        end -= 1
    return end


def updated(text, program, folder):
    """The document's text with the current output of its commands."""
    lines, out, at = text.split("\n"), [], 0
    while at < len(lines):
        out.append(lines[at])
        command = SHOWN.fullmatch(lines[at])
        hidden = HIDDEN.fullmatch(lines[at])
        at += 1
        if hidden:
            run(hidden[1], program, folder)
        if not command:
            continue
        end = end_of_block(lines, at)
        shown = [line.removeprefix(INDENT) for line in lines[at:end]]
        printed = shortened(run(command[1], program, folder), shown)
        out += [f"{INDENT}{line}".rstrip() for line in printed]
        at = end
    return "\n".join(out)


def has_commands(text):
    return any(SHOWN.fullmatch(line) for line in text.split("\n"))


def documents():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split()]


def update(document, program, check):
    """Rewrites or checks one document; returns True if it is up to date."""
    text = document.read_text(encoding="utf-8")
    if not has_commands(text):
        return True
    name = os.path.relpath(document, ROOT)
    with tempfile.TemporaryDirectory() as folder:
        for linked in ("models", "tests"):
            os.symlink(ROOT / linked, pathlib.Path(folder) / linked)
        try:
            new = updated(text, program, folder)
        except CommandFailed as error:
            print(f"{name}: {error}")
            return False
    if new == text:
        print(f"{name}: up to date")
    elif check:
        sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), new.splitlines(True), name, "printed now"))
    else:
        document.write_text(new, encoding="utf-8")
        print(f"{name}: rewritten")
    return new == text or not check


def main():
    parser = argparse.ArgumentParser(description="Runs the commands whose output documents show.")
    parser.add_argument("--check", action="store_true", help="print differences instead of rewriting")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/frontends/moec")
    parser.add_argument("documents", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    program = options.program.absolute()
    results = [update(path.absolute(), program, options.check) for path in options.documents or documents()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks size limits of our code: lines, parameters and branches of functions, members of structs.

    scripts/check_sizes.py [ROOT]

Prints the figures, and `file:line: what is too large` for each violation; exits with 1 if there are any. lizard
(tests/peers/requirements.txt) measures the functions. Counts only members that the struct itself declares; a nested
struct counts as one member. The structs of the manifest are exempt, because they mirror its schema.
"""

import pathlib
import re
import statistics
import sys

import lizard

FOLDERS = ("ir", "passes", "models", "backends", "frontends")

MEDIAN_LINES = 9
P90_LINES = 20
MOST_LINES = 60
MOST_PARAMETERS = 6
MOST_PATHS = 15  # cyclomatic complexity
MOST_MEMBERS = 15

# Structs that mirror the tables of the schema (backends/manifest/manifest.fbs) field by field.
SCHEMA = "backends/manifest/manifest.h"

COMMENTS_AND_STRINGS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.S)
STRUCT = re.compile(r"(?<!enum )\b(?:struct|class)\s+(?:\[\[\w+\]\]\s*)?(\w+)\b[^;{}()=]*\{")
NO_MEMBER = re.compile(
    r"\s*(using|friend|static|template|typedef|enum|struct|class|explicit|virtual|union)\b|.*\boperator\b", re.S
)
ACCESS = re.compile(r"\b(public|private|protected)\s*:")


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path


def blank(match):
    """Replaces text that is not code with spaces, to preserve offsets and line numbers."""
    return re.sub(r"[^\n]", " ", match[0])


def closing(text, at, opening="{", closed="}"):
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == opening) - (text[i] == closed)
        if depth == 0:
            return i
    return len(text)


def without_nested(text):
    """Returns a struct's body with each inner brace pair, of a function or an initializer, replaced with ";"."""
    out, i = [], 0
    while i < len(text):
        if text[i] == "{":
            i = closing(text, i)
            out.append(";" if re.match(r"\s*[^;,]", text[i + 1 :]) else "")
        else:
            out.append(text[i])
        i += 1
    return "".join(out)


def without_angles(text):
    while (shorter := re.sub(r"<[^<>;]*>", "", text)) != text:
        text = shorter
    return text


def members(body):
    count = 0
    for statement in without_nested(ACCESS.sub(";", body)).split(";"):
        declared = without_angles(statement.replace("->", "")).split("=")[0]
        if declared.strip() and not NO_MEMBER.match(declared) and "(" not in declared:
            names = without_angles(re.sub(r"\([^()]*\)", "", statement.replace("->", "")))
            count += len(re.findall(r"\w+\s*(?==|,|$)", names.strip())) and names.count(",") + 1
    return count


def large_structs(path, text):
    code = COMMENTS_AND_STRINGS.sub(blank, text)
    for found in STRUCT.finditer(code):
        body = code[found.end() : closing(code, found.end() - 1)]
        if (count := members(body)) > MOST_MEMBERS:
            line = code.count("\n", 0, found.start()) + 1
            yield f"{path}:{line}: {found[1]} has {count} members, at most {MOST_MEMBERS} are allowed"


def large_functions(path, functions):
    for function in functions:
        limits = [
            (function.length, MOST_LINES, "lines"),
            (len(function.parameters), MOST_PARAMETERS, "parameters"),
            (function.cyclomatic_complexity, MOST_PATHS, "ways through it"),
        ]
        for value, most, what in limits:
            if value > most:
                yield f"{path}:{function.start_line}: {function.name} has {value} {what}, at most {most}"


def figures(lengths):
    ordered = sorted(lengths)
    return statistics.median(ordered), ordered[len(ordered) * 9 // 10], ordered[-1]


def main(root):
    lengths, errors = [], []
    for path in sources(root):
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        functions = lizard.analyze_file.analyze_source_code(name, text).function_list
        lengths += [function.length for function in functions]
        errors += large_functions(name, functions)
        errors += [] if name == SCHEMA else large_structs(name, text)
    if not lengths:
        print(f"found no functions below {root}")
        return 1
    median, p90, most = figures(lengths)
    if median > MEDIAN_LINES or p90 > P90_LINES:
        errors.append(f"functions: median {median}, p90 {p90}; at most {MEDIAN_LINES} and {P90_LINES}")
    print("\n".join(errors))
    print(f"{len(lengths)} functions: median {median:g} lines, p90 {p90}, longest {most}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)))

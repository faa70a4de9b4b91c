#!/usr/bin/env python3
"""Checks that each numbered constraint occurs in ir/OPS.md, in the code, and in a failing test.

  code   a quoted id ("conv.c3") in ir/**/*.cc
  doc    the first cell of a table row in ir/OPS.md
  test   `// error: conv.c3` in a .ir file under tests/, or the id at the start of a quoted string in a
         tests/**_test.cc, for constraints that the text form cannot express

`--self-test` checks that each kind of gap is found.
"""

import argparse
import pathlib
import re
import sys
import tempfile

ID = r"[a-z][a-z0-9_]*\.[csp][0-9]+"
IN_CODE = re.compile(rf'"({ID})"')
IN_DOC = re.compile(rf"^\| ({ID}) \|", re.MULTILINE)
IN_IR_TEST = re.compile(r"// error:(.*)$", re.MULTILINE)
IN_UNIT_TEST = re.compile(rf'"({ID})[ ":]')


def ids_in(root, pattern, glob):
    found = set()
    for path in sorted(root.glob(glob)):
        found.update(pattern.findall(path.read_text(encoding="utf-8")))
    return found


def ids_in_ir_tests(root):
    found = set()
    for path in sorted(root.glob("tests/**/*.ir")):
        for codes in IN_IR_TEST.findall(path.read_text(encoding="utf-8")):
            found.update(code for code in codes.split() if re.fullmatch(ID, code))
    return found


def number(constraint):
    name, rest = constraint.split(".")
    return name, rest[0], int(rest[1:])


def holes(root):
    """One line per constraint that is missing in a place."""
    code = ids_in(root, IN_CODE, "ir/**/*.cc")
    doc = ids_in(root, IN_DOC, "ir/OPS.md")
    test = ids_in_ir_tests(root) | ids_in(root, IN_UNIT_TEST, "tests/**/*_test.cc")
    places = {"ir/OPS.md": doc, "the code (ir/**/*.cc)": code, "a failing test": test}
    lines = []
    for constraint in sorted(code | doc | test, key=number):
        missing = [place for place, ids in places.items() if constraint not in ids]
        if missing:
            lines.append(f"{constraint}: not in {', not in '.join(missing)}")
    return lines, len(code | doc | test)


def write_sample(root, code, doc, test):
    for folder in ("ir/graph", "tests/ir"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "ir/graph/infer.cc").write_text(f'check("{code}");\n')
    (root / "ir/OPS.md").write_text(f"| id | constraint |\n|---|---|\n| {doc} | text |\n")
    (root / "tests/ir/a.ir").write_text(f"%x = conv %y // error: {test}\n")


def self_test():
    cases = [
        (("conv.c1", "conv.c1", "conv.c1"), []),
        (("conv.c1", "conv.c1", "text.syntax"), ["conv.c1: not in a failing test"]),
        (
            ("conv.c1", "conv.c2", "conv.c1"),
            [
                "conv.c1: not in ir/OPS.md",
                "conv.c2: not in the code (ir/**/*.cc), not in a failing test",
            ],
        ),
    ]
    for sample, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write_sample(root, *sample)
            found, _ = holes(root)
            if found != expected:
                sys.exit(f"self-test: {sample} gave {found}, expected {expected}")
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return
    lines, count = holes(pathlib.Path(__file__).resolve().parent.parent)
    for line in lines:
        print(line)
    if count == 0:
        sys.exit("found no constraints")
    if lines:
        sys.exit(f"{len(lines)} of {count} constraints are incomplete")
    print(f"{count} constraints: each documented, checked and tested")


if __name__ == "__main__":
    main()

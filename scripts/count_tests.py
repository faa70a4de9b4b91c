#!/usr/bin/env python3
"""Counts the tests of GoogleTest executables.

    scripts/count_tests.py --least COUNT EXECUTABLE…

Prints the number of tests of each executable and of all. Exits with 1 if all have fewer than COUNT, or if one has
none: a build that lost test sources would pass otherwise.
"""

import argparse
import pathlib
import subprocess
import sys


def tests_of(executable):
    """The names of its tests: indented lines below the line of their suite."""
    listed = subprocess.run([executable, "--gtest_list_tests"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if line.startswith("  ")]


def main():
    parser = argparse.ArgumentParser(description="Counts the tests of GoogleTest executables.")
    parser.add_argument("--least", type=int, required=True, help="fewer tests in all are a failure")
    parser.add_argument("executables", nargs="+")
    options = parser.parse_args()
    counts = {path: len(tests_of(path)) for path in options.executables}
    for path, count in counts.items():
        print(f"{pathlib.Path(path).name}: {count} tests")
    total = sum(counts.values())
    print(f"{total} tests in all, at least {options.least} are expected")
    return 1 if total < options.least or 0 in counts.values() else 0


if __name__ == "__main__":
    sys.exit(main())

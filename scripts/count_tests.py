#!/usr/bin/env python3
"""Counts the GoogleTest tests in the log of a ctest run.

    scripts/count_tests.py --least COUNT LOG

LOG is Testing/Temporary/LastTest.log of a build folder. Prints the number of tests and exits with 1 if there are fewer than
COUNT. Without this check, test shards that lost their tests would pass.
"""

import argparse
import pathlib
import re
import sys

RAN = re.compile(r"^\[=+\] (\d+) tests? from \d+ test suites? ran\.", re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description="Counts the GoogleTest tests in the log of a ctest run.")
    parser.add_argument("--least", type=int, required=True, help="minimum number of tests")
    parser.add_argument("log", type=pathlib.Path)
    options = parser.parse_args()
    counts = [int(count) for count in RAN.findall(options.log.read_text(encoding="utf-8", errors="replace"))]
    print(f"{sum(counts)} tests ran in {len(counts)} processes, at least {options.least} are expected")
    return 1 if sum(counts) < options.least else 0


if __name__ == "__main__":
    sys.exit(main())

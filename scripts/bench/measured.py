#!/usr/bin/env python3
"""Runs a command and prints its wall time and its peak resident memory as JSON.

    scripts/bench/measured.py COMMAND [ARGUMENT…]

The peak memory of a child includes the memory of its parent at the fork, so a large parent would hide the command's
peak. This script is a small parent; measure() runs it as a separate process.
"""

import json
import os
import subprocess
import sys
import time


def measure(command):
    """Returns {"seconds", "peak_bytes"}. If the command fails, exits with its output."""
    words = [sys.executable, "-S", __file__, *map(str, command)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        os.execv(sys.argv[1], sys.argv[1:])
    _, status, usage = os.wait4(child, 0)
    print(json.dumps({"seconds": time.monotonic() - began, "peak_bytes": usage.ru_maxrss * 1024}))
    sys.exit(os.waitstatus_to_exitcode(status) != 0)


if __name__ == "__main__":
    main()

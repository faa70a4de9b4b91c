#!/bin/bash
# Builds release and measures, in one run: what the disk gives, what an export takes of it, the memory of plans and
# exports of any size, and planner, passes and kernels.
#
#   scripts/bench.sh [--gigabytes 4] [--rounds 3] [--folder DIR] [--out DIR] [--json] [--keep]
#
# The checkpoint and the exports lie under --folder (default: build/bench) and are removed at the end; it
# takes about three times --gigabytes. With --out, what is written lies there: on a second disk, or in memory,
# reading and writing do not share one. With --keep the result is added to scripts/bench/history/.
set -eu
cd "$(dirname "$0")/.."

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
scripts/install_packages.sh test >&2
{ cmake --preset release && cmake --build --preset release --target moec moec_benchmarks; } >&2
exec python3 scripts/bench/bench.py "$@"

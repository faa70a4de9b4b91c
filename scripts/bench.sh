#!/bin/bash
# Builds release and measures in one run: the speed of the disk, exports relative to it, the memory of plans and
# exports, and planner, passes and kernels. scripts/bench/README.md describes the measurements and their results.
#
#   scripts/bench.sh [--gigabytes 4] [--rounds 3] [--folder DIR] [--out DIR] [--json] [--keep]
#
# The checkpoint and the exports lie under --folder (default: build/bench), need about three times --gigabytes there, and
# are removed at the end. --out puts the exports elsewhere: on a second disk or in memory, so that reading and writing do
# not share one disk. --keep adds the result to scripts/bench/history/.
#
#   scripts/bench.sh runtime [--gigabytes 4] [--rounds 3] [--tokens 24] [--capacity 8] [--folder DIR] [--keep-export]
#
# measures instead a run with a part of the experts in memory, beside the disk (scripts/bench/runtime.py).
#
#   scripts/bench.sh engines [--experts 16] [--rounds 3] [--forms f32,f16] [--cores N] [--json]
#
# measures one layer in the reference executor, onnxruntime and OpenVINO, from the same files (scripts/bench/engines.py).
set -eu
cd "$(dirname "$0")/.."

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
scripts/install_packages.sh test >&2
if [ "${1:-}" = runtime ]; then
  shift
  { cmake --preset release && cmake --build --preset release --target moec; } >&2
  exec python3 scripts/bench/runtime.py "$@"
fi
if [ "${1:-}" = engines ]; then
  shift
  scripts/install_python.sh >&2
  { cmake --preset release -DMOEC_OPENVINO=ON && cmake --build --preset release --target moec; } >&2
  exec .venv/bin/python scripts/bench/engines.py "$@"
fi
{ cmake --preset release && cmake --build --preset release --target moec moec_benchmarks; } >&2
exec python3 scripts/bench/bench.py "$@"

#!/bin/bash
# Builds release and measures in one run: the disk, exports relative to the disk, memory of plans and exports, planner,
# passes and kernels. scripts/bench/README.md describes the measurements and their results.
#
#   scripts/bench.sh [--gigabytes 4] [--rounds 3] [--folder DIR] [--out DIR] [--json] [--keep]
#
# Checkpoint and exports are written to --folder (default: build/bench), need about three times --gigabytes, and are
# removed at the end. --out writes the exports to another disk or memory, so that reading and writing do not share a
# disk. --keep adds the result to scripts/bench/history/.
#
#   scripts/bench.sh runtime [--gigabytes 4] [--rounds 3] [--tokens 24] [--capacity 8] [--folder DIR] [--keep-export]
#
# measures a run with only some experts in memory, compared with the disk (scripts/bench/runtime.py).
#
#   scripts/bench.sh engines [--experts 16] [--rounds 3] [--forms f32,f16] [--cores N] [--json]
#
# measures one layer in the reference executor, onnxruntime and OpenVINO, from the same files (scripts/bench/engines.py).
#
#   scripts/bench.sh decode [MODEL…] [--rounds 3] [--prompt 128] [--tokens 64] [--threads N]
#
# measures prefill, decode and memory of moec, llama.cpp and onnxruntime-genai on the same weights
# (scripts/bench/decode.py).
#
#   scripts/bench.sh litert [--experts 16] [--rounds 3] [--threads 2]
#
# measures one layer in LiteRT, with and without its cache of packed weights, and whole models in LiteRT-LM
# (scripts/bench/litert.py).
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
if [ "${1:-}" = litert ]; then
  shift
  { scripts/install_python.sh && scripts/install_vendors.sh litertlm; } >&2
  { cmake --preset release && cmake --build --preset release --target moec; } >&2
  exec .venv/bin/python scripts/bench/litert.py "$@"
fi
if [ "${1:-}" = decode ]; then
  shift
  scripts/install_python.sh >&2
  { cmake --preset release && cmake --build --preset release --target moec; } >&2
  exec .venv/bin/python scripts/bench/decode.py "$@"
fi
{ cmake --preset release && cmake --build --preset release --target moec moec_benchmarks; } >&2
exec python3 scripts/bench/bench.py "$@"

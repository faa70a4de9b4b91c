#!/bin/sh
# Kills exports at random moments, 100 times by default, resumes them and compares their bytes with uninterrupted
# exports. Then tests full and failing disks, signals, two exports into one folder, closed streams, failing allocations
# of memory and threads, pipes, devices and links. If root can mount an ext4 file system, also tests losses of power.
#
#   scripts/fault_test.sh [KILLS [LOSSES]]
set -eu
cd "$(dirname "$0")/.."

scripts/install_python.sh
cmake --preset release
cmake --build --preset release --target moec
MOEC_KILLS=${1:-100} MOEC_POWER_LOSSES=${2:-20} .venv/bin/pytest -rPs \
  tests/peers/test_faults.py tests/peers/test_streams.py tests/peers/test_limits.py tests/peers/test_memory.py \
  tests/peers/test_odd_files.py \
  tests/peers/test_power_loss.py tests/peers/test_prepack.py

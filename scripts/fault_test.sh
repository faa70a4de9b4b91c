#!/bin/sh
# Kills exports at random moments, 100 times by default, resumes them and compares their bytes with those of
# undisturbed ones; then tests full and failing disks, signals, and two exports into one folder.
#
#   scripts/fault_test.sh [KILLS]
set -eu
cd "$(dirname "$0")/.."

scripts/install_python.sh
cmake --preset release
cmake --build --preset release --target moec
MOEC_KILLS=${1:-100} .venv/bin/pytest -p no:cacheprovider -rP tests/peers/test_faults.py

#!/bin/sh
# Makes the Python environment of the peers' tests, .venv, when it is missing or its lists of packages
# have changed.
set -eu
cd "$(dirname "$0")/.."

requirements=tests/peers/requirements.txt
engines=tests/peers/engines.txt
if cat "$requirements" "$engines" | cmp -s - .venv/requirements.txt; then
  echo ".venv is up to date"
  exit 0
fi
rm -rf .venv
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
# OpenVINO, which the build finds here (backends/openvino), without the package of telemetry that it names: only its
# tools in Python use that.
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps -r "$engines"
# Last, so that an interrupted installation is done again.
cat "$requirements" "$engines" > .venv/requirements.txt

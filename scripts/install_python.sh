#!/bin/sh
# Makes the Python environment of the peer tests, .venv, if it is missing or its package lists have changed.
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
# OpenVINO, which the build finds here (backends/openvino), without its telemetry dependency, which only its Python
# tools use.
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps -r "$engines"
# Written last, so that an interrupted installation is repeated.
cat "$requirements" "$engines" > .venv/requirements.txt

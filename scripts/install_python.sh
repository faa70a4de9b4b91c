#!/bin/sh
# Makes the Python environment of the peers' tests, .venv, when it is missing or its list of packages
# has changed.
set -eu
cd "$(dirname "$0")/.."

requirements=tests/peers/requirements.txt
if cmp -s "$requirements" .venv/requirements.txt; then
  echo ".venv is up to date"
  exit 0
fi
rm -rf .venv
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
# Last, so that an interrupted installation is done again.
cp "$requirements" .venv/requirements.txt

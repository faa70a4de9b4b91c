#!/bin/sh
# Installs OpenVINO's wheel from PyPI into .venv, where the build finds it (backends/openvino). The engine is optional:
# if the wheel cannot be installed, the script prints the reason and exits with 0.
#
#   scripts/install_openvino.sh
set -eu
cd "$(dirname "$0")/.."

found() {
  for folder in .venv/lib/python3*/site-packages/openvino/cmake; do
    [ -d "$folder" ] && return 0
  done
  return 1
}

# without REASON: ends the script if the wheel cannot be installed.
without() {
  echo "no OpenVINO: $1; moec is built without that engine"
  exit 0
}

if found; then
  echo "OpenVINO is in .venv"
  exit 0
fi
has_venv() {
  python3 -c "import ensurepip, venv" 2>/dev/null
}
has_venv || scripts/install_packages.sh venv || without "Debian's python3-venv is not installed"
has_venv || without "python3 has no module venv"
if [ ! -x .venv/bin/python ]; then
  python3 -m venv .venv || without "python3 -m venv .venv failed"
fi
# --no-deps omits packages that only its Python tools need. Few retries: a machine without network continues soon.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --retries 1 --timeout 20 \
  -r tests/peers/engines.txt || without "pip could not install $(cat tests/peers/engines.txt)"
echo "installed $(cat tests/peers/engines.txt) into .venv"

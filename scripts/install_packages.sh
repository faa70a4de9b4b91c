#!/bin/sh
# Installs the missing Debian packages that moec needs.
#
#   scripts/install_packages.sh build   to build moec
#   scripts/install_packages.sh test    the same, and the additional packages of scripts/test.sh
#   scripts/install_packages.sh venv    for scripts/install_openvino.sh
set -eu

build="
  ca-certificates g++ cmake ninja-build pkg-config
  libfmt-dev libexpected-dev nlohmann-json3-dev libxxhash-dev libhwy-dev libssl-dev libeigen3-dev libcli11-dev
  libcpp-httplib-dev libpcre2-dev libutf8proc-dev libonnx-dev libprotobuf-dev protobuf-compiler
  libflatbuffers-dev flatbuffers-compiler zlib1g-dev
"
test="
  libgtest-dev libgmock-dev libbenchmark-dev ccache clang-14 libclang-rt-14-dev clang-format-14 python3 python3-venv
  dpkg-dev file chromium slurmctld slurmd slurm-client munge
"

case "${1:-}" in
  build) wanted=$build ;;
  test) wanted="$build $test" ;;
  venv) wanted="ca-certificates python3 python3-venv" ;;
  *)
    echo "usage: $0 build|test|venv" >&2
    exit 2
    ;;
esac

missing=""
for package in $wanted; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "all Debian packages are installed"
  exit 0
fi

if [ "$(id -u)" != 0 ]; then
  echo "these Debian packages are missing, and only root can install them:" >&2
  echo "  sudo apt-get update && sudo apt-get install$missing" >&2
  exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086  # a list of words
apt-get install -q -y --no-install-recommends $missing

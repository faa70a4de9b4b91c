#!/bin/sh
# Formats our C++ according to .clang-format; with --check, only reports files that are not formatted.
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") mode="-i" ;;
  --check) mode="--dry-run --Werror" ;;
  *)
    echo "usage: $0 [--check]" >&2
    exit 2
    ;;
esac
# shellcheck disable=SC2086  # options are words
find ir passes models backends frontends tests \( -name '*.h' -o -name '*.cc' \) -print0 |
  sort -z | xargs -0 -P 2 -n 40 clang-format-14 $mode

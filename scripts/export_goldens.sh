#!/bin/bash
# Exports every golden checkpoint for every target, to compare the bytes of two programs.
#
#   scripts/export_goldens.sh MOEC OUT [TARGET…]
#
# Writes OUT/CASE.TARGET and OUT/CASE.TARGET.log. If a target rejects a case, the log ends with the exit code. Compare
# two such folders with `scripts/compare_exports.py A B` or `diff -r A B`.
set -eu
if [ $# -lt 2 ]; then
  echo "usage: scripts/export_goldens.sh MOEC OUT [TARGET…]" >&2
  exit 2
fi
moec=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- onnx ane qnn rknn openvino ort-genai litert litertlm litert-qnn litert-mediatek gguf
cd "$(dirname "$0")/.."
for config in tests/golden/*/config.json; do
  folder=$(dirname "$config")
  for target in "$@"; do
    name=$out/$(basename "$folder").$target
    "$moec" export "$folder" --target "$target" --tokens 1 --out "$name" -q > "$name.log" 2>&1 ||
      echo "exit code $?" >> "$name.log"
  done
done
echo "$(find "$out" -mindepth 1 -maxdepth 1 -type d | wc -l) exports in $out"

#!/bin/bash
# Builds the fuzz targets and runs each for a while, as many at once as there are cores, from seeds that the
# tree has and from what earlier runs found (build/fuzz/corpus). A crash fails, and leaves the input that
# repeats it in tests/reproducers, to be committed with its repair.
#
#   scripts/fuzz.sh [SECONDS EACH] [TARGET…]     10 seconds and all targets if not given
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-10}
[ $# -gt 0 ] && shift

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" .cc)"); done
fi

cmake --preset dev
cmake --build --preset dev --target "${targets[@]}"

# What `moec export` makes is a seed too, once there is a release build.
shards=build/fuzz/shards
if [ -x build/release/frontends/moec ]; then
  build/release/frontends/moec export models/tinymoe --out $shards/onnx --tokens 1 --force >/dev/null
  build/release/frontends/moec export models/tinymoe --out $shards/coreml --target ane --tokens 1,4 \
    --multi-function --force --quiet >/dev/null 2>&1
  build/release/frontends/moec export tests/golden/mixtral_a --out $shards/small --target ane --force \
    --quiet >/dev/null 2>&1
fi

# Links to the files that are seeds of a target, in a folder of its own.
gather_seeds() {
  local folder=build/fuzz/seeds/$1 pattern folders=("$PWD/tests" "$PWD/$shards")
  case $1 in
    config_fuzz) pattern=config.json ;;
    index_fuzz) pattern='*.index.json' ;;
    safetensors_fuzz) pattern='*.safetensors' ;;
    ir_text_fuzz) pattern='*.ir' ;;
    onnx_fuzz) pattern='*.onnx' ;;
    coreml_fuzz) pattern='*.mlmodel' ;;
    package_fuzz) pattern=Manifest.json ;;
    blob_fuzz) pattern=weight.bin folders=("$PWD/$shards/small") ;;
    manifest_fuzz) pattern='manifest.*' ;;
    descriptor_fuzz) pattern='*.json' folders=("$PWD/models/families") ;;
    target_fuzz) pattern='*.json' folders=("$PWD/backends/targets") ;;
    *) pattern='' ;;
  esac
  rm -rf "$folder"
  mkdir -p "$folder"
  [ -n "$pattern" ] || return 0
  local number=0 file
  while IFS= read -r file; do
    number=$((number + 1))
    ln -s "$file" "$folder/$number"
  done < <(find "${folders[@]}" -name "$pattern" -size -2048k 2>/dev/null | sort)
}

fuzz() {
  local target=$1 result=0
  local corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  local kept=tests/reproducers/$target # inputs that were found, and seeds that no other file is
  gather_seeds "$target"
  mkdir -p "$corpus" "$kept"
  if "build/dev/tests/fuzz/$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 \
    -artifact_prefix="$kept/" "$corpus" "build/fuzz/seeds/$target" "$kept" >"$log" 2>&1; then
    echo "$target: $(tail -n 1 "$log")"
  else
    result=1
    printf '%s: FAILED\n%s\n' "$target" "$(tail -n 60 "$log")"
  fi
  rmdir --ignore-fail-on-non-empty "$kept"
  return $result
}

export seconds shards
export -f fuzz gather_seeds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'

#!/bin/bash
# Builds the fuzz targets and runs each for some time, one per core. Starts from the seeds of the tree, the corpora of
# tests/reproducers/corpora, and inputs that earlier runs found (build/fuzz/corpus). Fails on a crash, and writes the
# input that reproduces it to tests/reproducers; commit it with the fix.
#
#   scripts/fuzz.sh [SECONDS EACH] [TARGET…]     10 seconds and all targets if not given
#   scripts/fuzz.sh keep [TARGET…]               adds found inputs to tests/reproducers/corpora: the fewest
#                                                and smallest inputs that add coverage to the seeds
set -eu
cd "$(dirname "$0")/.."
task=fuzz seconds=${1:-10}
[ "$seconds" = keep ] && task=keep
[ $# -gt 0 ] && shift

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" .cc)"); done
fi

cmake --preset dev
cmake --build --preset dev --target "${targets[@]}"

# Exports are also seeds, if there is a release build.
shards=build/fuzz/shards
if [ -x build/release/frontends/moec ]; then
  build/release/frontends/moec export models/tinymoe --out $shards/onnx --tokens 1 --force >/dev/null
  build/release/frontends/moec export models/tinymoe --out $shards/coreml --target ane --tokens 1,4 \
    --multi-function --force --quiet >/dev/null 2>&1
  build/release/frontends/moec export models/tinymoe --out $shards/tflite --target litert --tokens 1,4 --force \
    --quiet >/dev/null 2>&1
  build/release/frontends/moec export tests/golden/mixtral_a --out $shards/small --target ane --force \
    --quiet >/dev/null 2>&1
fi

# Links the seeds of a target into a separate folder.
gather_seeds() {
  local folder=build/fuzz/seeds/$1 pattern folders=("$PWD/tests" "$PWD/$shards")
  case $1 in
    config_fuzz) pattern=config.json ;;
    index_fuzz) pattern='*.index.json' ;;
    safetensors_fuzz) pattern='*.safetensors' ;;
    gguf_fuzz) pattern='*.gguf' ;;
    ir_text_fuzz) pattern='*.ir' ;;
    onnx_fuzz) pattern='*.onnx' ;;
    tflite_fuzz) pattern='*.tflite' ;;
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

# Adds the inputs of earlier runs to the corpus: those of the tree and those of this folder.
gather_corpus() {
  local archive=tests/reproducers/corpora/$1.tar.gz
  mkdir -p "build/fuzz/corpus/$1"
  if [ -f "$archive" ]; then tar -xzf "$archive" -C "build/fuzz/corpus/$1"; fi
}

fuzz() {
  local target=$1 result=0
  local corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  local kept=tests/reproducers/$target # inputs that were found, and seeds that no other file is
  local words=()
  [ ! -f "tests/fuzz/$target.dict" ] || words=("-dict=tests/fuzz/$target.dict")
  gather_seeds "$target"
  gather_corpus "$target"
  mkdir -p "$kept"
  if "build/dev/tests/fuzz/$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 "${words[@]}" \
    -artifact_prefix="$kept/" "$corpus" "build/fuzz/seeds/$target" "$kept" >"$log" 2>&1; then
    echo "$target: $(tail -n 1 "$log")"
  else
    result=1
    printf '%s: FAILED\n%s\n' "$target" "$(tail -n 60 "$log")"
  fi
  rmdir --ignore-fail-on-non-empty "$kept"
  return $result
}

# The archive is reproducible. libFuzzer names found inputs by 40 hexadecimal digits, unlike any seed. Coverage of the
# seeds counts as already reached.
keep() {
  local target=$1 merged=build/fuzz/merged/$1 found=build/fuzz/found/$1 log=build/fuzz/$1.keep.log
  gather_seeds "$target"
  gather_corpus "$target"
  rm -rf "$merged" "$found"
  mkdir -p "$merged" "$found" tests/reproducers/corpora
  find "build/fuzz/corpus/$target" -type f -size -"$largest_kept"c -exec cp -t "$found" {} +
  cp -L "build/fuzz/seeds/$target"/* "tests/reproducers/$target"/* "$merged" 2>/dev/null || true
  if ! "build/dev/tests/fuzz/$target" -merge=1 -timeout=30 -rss_limit_mb=2048 "$merged" "$found" >"$log" 2>&1; then
    printf '%s: FAILED\n%s\n' "$target" "$(tail -n 60 "$log")"
    return 1
  fi
  (cd "$merged" && find . -regextype posix-extended -regex './[0-9a-f]{40}' -printf '%f\n' | sort) |
    tar -c -C "$merged" -T - --owner=0 --group=0 --numeric-owner --mode=644 --mtime=@0 |
    gzip -9n >"tests/reproducers/corpora/$target.tar.gz"
  echo "$target: $(tar -tzf "tests/reproducers/corpora/$target.tar.gz" | wc -l) inputs kept"
}

largest_kept=8192 # bytes: larger inputs add little coverage
export seconds shards largest_kept
export -f fuzz keep gather_seeds gather_corpus
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c "$task {}"

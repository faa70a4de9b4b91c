#!/bin/sh
# Exports the whole ane-book variant of ZAYA from its config, with seeded weights: 28 attention, 28 MoE and 2 head
# shards, the embedding and the book's manifest. Prints counts, bytes, time, peak memory and the predicted placement.
# Needs 15 GB of disk in FOLDER, which is removed at the end.
#
#   scripts/bench_zaya_book.sh [FOLDER]      default: a folder under ${TMPDIR:-/tmp}
set -eu
cd "$(dirname "$0")/.."

moec=build/release/frontends/moec
[ -x "$moec" ] || {
  echo "$moec does not exist: run cmake --preset release && cmake --build --preset release --target moec" >&2
  exit 2
}
out=${1:-${TMPDIR:-/tmp}/moec-zaya-book}
[ ! -e "$out" ] || {
  echo "$out already exists: pass a folder that does not exist" >&2
  exit 2
}
trap 'rm -rf "$out"' EXIT

python3 - "$moec" "$out" <<'PY'
import resource, subprocess, sys, time

moec, out = sys.argv[1:]
began = time.monotonic()
subprocess.run([moec, "export", "models/published/zaya-book.json", "--out", out, "--target", "ane",
                "--seeded-weights", "7", "--compat", "ane-book", "--name", "zaya", "--context", "2048",
                "--jobs", "2", "--allow-over-budget", "--quiet"], check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(f"exported in {time.monotonic() - began:.1f} s, peak resident memory {peak:.0f} MiB")
PY

for kind in attn moe lm_head; do
  echo "$kind: $(find "$out/zaya_ane/$kind" -maxdepth 1 -name '*.mlpackage' | wc -l) packages"
done
du -sh --apparent-size "$out" | sed 's/\t.*//'
ls "$out"
"$moec" check "$out" --chip m1 --no-digests --allow-over-budget | tail -n 3

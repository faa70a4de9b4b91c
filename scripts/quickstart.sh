#!/bin/sh
# From an empty Debian 12, as root, to a Mixture-of-Experts model that writes text: installs packages,
# builds moec, exports the bundled model into out/tinymoe, checks it, validates it against its goldens,
# runs it. Says each step before it takes it. Some ten minutes on two cores, seconds with a warm ccache.
set -eu
cd "$(dirname "$0")/.."

# ccache, if there is one, finds objects again whatever folder the clone is in.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

moec=build/release/frontends/moec
out=out/tinymoe
began=$(date +%s)
count=0

step() {
  count=$((count + 1))
  title=$1
  shift
  printf '\n[%d/7] %s\n' "$count" "$title"
  printf '      $'
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9_./,=:+-]*) printf " '%s'" "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n'
  "$@" || {
    code=$?
    printf '\nStep %d (%s) failed with exit code %d; what it said stands above.\n' \
      "$count" "$title" "$code" >&2
    exit "$code"
  }
}

step "Debian packages" scripts/install_packages.sh build
step "Configure the release build" cmake --preset release -DMOEC_TESTS=OFF
step "Build" cmake --build --preset release --target moec
step "Export: checkpoint to ONNX shards and a manifest" \
  "$moec" export models/tinymoe --out "$out" --tokens 1,16 --force
step "Check: every file, every shard, by the target's rules" "$moec" check "$out"
step "Validate: the emitted files against PyTorch's results" \
  "$moec" validate "$out" --golden tests/golden/tinymoe
step "Run: write some text" "$moec" run "$out" --prompt "def " --max-tokens 120

seconds=$(($(date +%s) - began))
cat <<END

Done in $((seconds / 60)) min $((seconds % 60)) s.
  the compiler    $moec    ($moec --help)
  the shards      $out/    (attn/, moe/, lm_head/: ONNX files with their weights)
  the manifest    $out/manifest.json    (the schedule that a runtime follows)
  all tests       ./scripts/test.sh
END

#!/bin/sh
# Starts from an empty Debian 12, as root, and ends with a Mixture-of-Experts model that generates text: installs
# packages, builds moec, exports the bundled model into out/tinymoe, checks it, validates it against its goldens, and
# runs it. Prints each step first. Takes about ten minutes on two cores, or seconds with a warm ccache.
# If PyPI's wheel of OpenVINO can be installed, builds moec with that engine and validates the model in it too.
set -eu
cd "$(dirname "$0")/.."

# Lets ccache, if present, reuse objects from clones in other folders.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

moec=build/release/frontends/moec
out=out/tinymoe
began=$(date +%s)
count=0

step() {
  count=$((count + 1))
  title=$1
  shift
  printf '\n[%d/9] %s\n' "$count" "$title"
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
    printf '\nStep %d (%s) failed with exit code %d; see its output above.\n' \
      "$count" "$title" "$code" >&2
    exit "$code"
  }
}

# True if this build has the engine, and the OpenVINO that it was built with is still there.
has_engine() {
  [ -f build/release/frontends/libmoec_openvino.so ] &&
    grep -q '^OpenVINO_DIR:PATH=/' build/release/CMakeCache.txt
}

step "Debian packages" scripts/install_packages.sh build
step "OpenVINO's wheel, an optional engine" scripts/install_openvino.sh
step "Configure the release build" cmake --preset release -DMOEC_TESTS=OFF
step "Build" cmake --build --preset release --target moec
step "Export: checkpoint to ONNX shards and a manifest" \
  "$moec" export models/tinymoe --out "$out" --tokens 1,16 --force
step "Check: every file, every shard, by the target's rules" "$moec" check "$out"
step "Validate: the emitted files against PyTorch's results" \
  "$moec" validate "$out" --golden tests/golden/tinymoe
if has_engine; then
  step "Validate in OpenVINO: the same files, compiled for this CPU" \
    "$moec" validate "$out" --golden tests/golden/tinymoe --engine openvino
else
  step "Validate in OpenVINO: left out" echo "this build has no OpenVINO (backends/openvino/README.md)"
fi
step "Run: write some text" "$moec" run "$out" --prompt "def " --max-tokens 120

seconds=$(($(date +%s) - began))
cat <<END

Done in $((seconds / 60)) min $((seconds % 60)) s.
  the compiler    $moec    ($moec --help)
  the shards      $out/    (attn/, moe/, lm_head/: ONNX files with their weights)
  the manifest    $out/manifest.json    (the schedule that a runtime follows)
  all tests       ./scripts/test.sh
END

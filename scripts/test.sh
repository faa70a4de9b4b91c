#!/bin/bash
# Everything that has to hold: installs what the tests need, builds, runs all checks and tests, and ends
# with one line a step and the summaries of ctest and pytest. Exits with 1 when any step failed. Steps
# that do not build on a failed one go on, so that one run shows all that is wrong.
#
#   scripts/test.sh [--vendors]
#
# --vendors also installs Qualcomm's compiler and emulator, under its licence, and Apple's Linux runtime of
# Core AI, and runs golden cases through them (tests/peers/test_qnn.py, tests/peers/test_coreai.py).
set -u
vendors=${1:-}
if [ $# -gt 1 ] || { [ -n "$vendors" ] && [ "$vendors" != --vendors ]; }; then
  echo "usage: scripts/test.sh [--vendors]" >&2
  exit 2
fi
cd "$(dirname "$0")/.."

# ccache finds objects again whatever folder the clone is in.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

logs=build/test-logs
mkdir -p $logs
lines=() failed=()

# step NAME COMMAND…: runs the command, keeps what it says in the log of that name.
step() {
  local name=$1 began=$SECONDS result=passed
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee "$logs/$name.log"
  if [ "${PIPESTATUS[0]}" -ne 0 ]; then
    result=FAILED
    failed+=("$name")
  fi
  lines+=("$(printf '%-10s %-7s %4d s' "$name" $result $((SECONDS - began)))")
}

# after NAME…: whether none of these steps failed; says so for the step that is left out.
after() {
  local step=$1 needed
  shift
  for needed in "$@"; do
    if [[ " ${failed[*]} " == *" $needed "* ]]; then
      lines+=("$(printf '%-10s left out, for it needs %s' "$step" "$needed")")
      failed+=("$step")
      return 1
    fi
  done
}

build() {
  local preset=$1
  shift
  cmake --preset "$preset" && cmake --build --preset "$preset" "$@"
}

step packages scripts/install_packages.sh test
after python packages && step python scripts/install_python.sh
after format packages && step format scripts/format.sh --check
after includes packages && step includes scripts/check_includes.py
after sizes python && step sizes .venv/bin/python scripts/check_sizes.py
after dev packages && step dev build dev
after tidy dev python && step tidy scripts/tidy.py build/dev
after release packages && step release build release --target moec
after fuzz dev && step fuzz scripts/fuzz.sh 5
after ctest dev && step ctest ctest --preset dev -j "$(nproc)" &&
  step count scripts/count_tests.py --least 5340 build/dev/Testing/Temporary/LastTest.log
after pytest python release &&
  step pytest .venv/bin/pytest -p no:cacheprovider --timeout 300 -n "$(nproc)" --dist loadfile \
    tests/scripts tests/peers
if [ -n "$vendors" ]; then
  for vendor in qnn coreai; do
    step $vendor-pip scripts/install_vendors.sh $vendor
    after $vendor $vendor-pip release &&
      step $vendor build/vendors/$vendor/bin/pytest -p no:cacheprovider --timeout 600 -n 2 \
        tests/peers/test_$vendor.py
  done
fi

printf '\n== Summary\n'
printf '%s\n' "${lines[@]}"
[ -f $logs/ctest.log ] && printf '\nctest:\n' && sed -n '/tests passed/,$p' $logs/ctest.log
[ -f $logs/pytest.log ] && printf '\npytest:\n' && tail -n 1 $logs/pytest.log
for vendor in ${vendors:+qnn coreai}; do
  [ -f $logs/$vendor.log ] && printf '\n%s:\n' $vendor && tail -n 1 $logs/$vendor.log
done
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFAILED: %s (logs are in %s/)\n' "${failed[*]}" $logs
  exit 1
fi
printf '\nAll steps passed in %d min %d s.\n' $((SECONDS / 60)) $((SECONDS % 60))

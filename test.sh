#!/usr/bin/env bash
# Set-up, build, and every test that needs no accelerator.
#   ./test.sh [ctest options]      for example ./test.sh -LE slow (without the long ones), ./test.sh -R checkpoint
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
begin=$SECONDS
trap 'code=$?; [ $code = 0 ] || printf "test.sh: FAILED (exit code %d) after %d s\n" "$code" $((SECONDS - begin)) >&2' EXIT
printf '== set-up\n'
tools/setup.sh --tests --npu
printf '== build\n'
build_begin=$SECONDS
tools/build.sh
printf '   built in %d s\n== tests\n' $((SECONDS - build_begin))
mkdir -p build/Testing
# By command only: tests that need the whole PyTorch package (./test.sh -L torch) and hour-long ones (./test.sh -L full).
[ $# -gt 0 ] || set -- -LE 'torch|full'
ctest --test-dir build --output-on-failure "$@" 2>&1 | tee build/Testing/last_run.log
printf 'test.sh: OK in %d s\n' $((SECONDS - begin))
# The last line is the test runner's own.
grep -E 'tests passed, [0-9]+ tests failed out of' build/Testing/last_run.log

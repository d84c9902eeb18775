#!/usr/bin/env bash
# Builds and runs unit tests under the compilers' sanitizers.
#   tools/sanitize.sh [address|thread|all] [--jobs N] [AREA…]
# address: AddressSanitizer + UndefinedBehaviourSanitizer over base, config, data, checkpoint (default areas)
# thread:  ThreadSanitizer over data and checkpoint
# The first report fails the run. Known reports from inside libraries that are not built with the sanitizer are listed in
# tools/sanitizers/*.supp, each with its reason.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=1 kind=all areas=()
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=$2; shift ;;
    address|thread|all) kind=$1 ;;
    -*) echo "[sanitize] error: unknown option $1" >&2; exit 2 ;;
    *) areas+=("$1") ;;
  esac
  shift
done
supp=$root/tools/sanitizers
export OMP_NUM_THREADS=1 UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
# detect_leaks: libtorch keeps its registries for the life of the process; the suppressions name them.
export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
export LSAN_OPTIONS="suppressions=$supp/leak.supp:print_suppressions=0"
export TSAN_OPTIONS="halt_on_error=1:suppressions=$supp/thread.supp"
failed=()

run() {  # run PRESET AREA…
  local preset=$1 area
  shift
  echo "[sanitize] $preset: building $*"
  nice cmake --preset "$preset" >/dev/null
  nice cmake --build --preset "$preset" -j "$jobs" --target "${@/%/_test}" | tail -1
  for area in "$@"; do
    echo "[sanitize] $preset: $area"
    # Sanitizers need their shadow memory where address space randomisation may put something else.
    nice setarch "$(uname -m)" -R "build-$preset/${area}_test" --gtest_brief=1 || failed+=("$preset/$area")
  done
}

present() {  # the areas of the arguments that have tests
  local area
  for area in "$@"; do [ -f "tests/$area/CMakeLists.txt" ] && echo "$area"; done
}

if [ $kind != thread ]; then
  mapfile -t list < <(if [ ${#areas[@]} -gt 0 ]; then printf '%s\n' "${areas[@]}"; else present base config data checkpoint; fi)
  run asan-ubsan "${list[@]}"
fi
if [ $kind != address ]; then
  mapfile -t list < <(if [ ${#areas[@]} -gt 0 ]; then printf '%s\n' "${areas[@]}"; else present data checkpoint; fi)
  run tsan "${list[@]}"
fi
if [ ${#failed[@]} = 0 ]; then echo "[sanitize] no report"; else echo "[sanitize] failed: ${failed[*]}"; exit 1; fi

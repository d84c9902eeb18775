#!/usr/bin/env bash
# Configures and builds with the release preset: tools/build.sh [TARGET…] (default: everything). Does nothing when nothing
# changed. Compiles with as many jobs as cores and memory allow (2 GiB a job).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
cores=$(nproc)
memory_jobs=$(($(awk '/MemAvailable/{print $2}' /proc/meminfo) / 1024 / 2048))
jobs=$((cores < memory_jobs ? cores : memory_jobs))
[ "$jobs" -ge 1 ] || jobs=1
mkdir -p build
if ! cmake --preset release >build/configure.log 2>&1; then
  cat build/configure.log >&2
  exit 1
fi
targets=()
[ $# = 0 ] || targets=(--target "$@")
# One line in ten is progress enough in a log; everything else the build says is shown. (awk would hold lines back.)
cmake --build build -j "$jobs" ${targets[@]+"${targets[@]}"} | while IFS= read -r line; do
  if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
    done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    if ((done % 10 == 0 || done == all)); then printf '   %s\n' "$line"; fi
  else
    printf '%s\n' "$line"
  fi
done

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
# Progress a reader can follow in a log: a line in ten on a terminal's behalf is not worth hiding errors for.
cmake --build build -j "$jobs" ${targets[@]+"${targets[@]}"} | awk '
  /^\[[0-9]+\/[0-9]+\]/ { split(substr($1, 2), n, /[\/\]]/); if (n[1] == n[2] || n[1] % 10 == 0) { print "   " $0; fflush() } next }
  { print; fflush() }'

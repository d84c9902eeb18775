#!/usr/bin/env bash
# Builds titan against the other supported versions of libtorch and runs the quick tests on each (of parallelism: ranks as threads).
#   tools/check_torch_versions.sh [--jobs N] [VERSION…]      default: 2.9 2.10
# Wheels (about 0.9 GB each, pinned in tools/requirements-<version>.txt) and build go to build-torch-<version>/; the rest
# is what tools/setup.sh installed. Prints one line for each version and exits 1 when one fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=1 versions=()
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=$2; shift ;;
    -*) echo "[torch] error: unknown option $1" >&2; exit 2 ;;
    *) versions+=("$1") ;;
  esac
  shift
done
[ ${#versions[@]} -gt 0 ] || versions=(2.9 2.10)
say() { printf '[torch] %s\n' "$*"; }

install_wheels() {  # VERSION FOLDER
  local requirements=tools/requirements-$1.txt site=$2/site machine n tags=() want wheel
  [ -f "$requirements" ] || { say "error: no $requirements — versions that can be checked: 2.9 2.10" >&2; exit 2; }
  want=$(sha256sum <"$requirements")
  [ -f "$site/.stamp" ] && [ "$(cat "$site/.stamp")" = "$want" ] && return
  machine=$(uname -m)
  for n in 12 17 24 25 27 28; do tags+=(--platform "manylinux_2_${n}_$machine"); done
  say "$1: downloading its wheels"
  rm -rf "$2/wheels" "$site"
  mkdir -p "$2/wheels" "$site"
  python3 -m pip download -q --no-deps --require-hashes --only-binary=:all: --python-version 3.11 --implementation cp \
    "${tags[@]}" --platform "manylinux2014_$machine" --platform "manylinux2010_$machine" -d "$2/wheels" -r "$requirements"
  for wheel in "$2"/wheels/*.whl; do unzip -q -o "$wheel" -d "$site"; done
  rm -rf "$2/wheels"
  echo "$want" >"$site/.stamp"
}

check() {  # VERSION
  local folder=$root/build-torch-$1 begin=$SECONDS
  mkdir -p "$folder"
  install_wheels "$1" "$folder"
  nice -n 19 cmake -S . -B "$folder/build" -G Ninja -DTITAN_TORCH="$folder/site/torch" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=4 \
    >"$folder/configure.log" 2>&1 || { tail -20 "$folder/configure.log"; return 1; }
  nice -n 19 cmake --build "$folder/build" -j "$jobs" >"$folder/build.log" 2>&1 \
    || { grep -E "error|FAILED" "$folder/build.log" | head -20; return 1; }
  "$folder/build/titan" --version
  nice ctest --test-dir "$folder/build" -LE 'slow|python|browser|multi|full|torch|npu' --output-on-failure >"$folder/test.log" 2>&1 \
    || { tail -40 "$folder/test.log"; return 1; }
  say "$1: $(grep 'tests passed' "$folder/test.log"), $((SECONDS - begin)) s"
}

failed=()
for version in "${versions[@]}"; do check "$version" || failed+=("$version"); done
if [ ${#failed[@]} = 0 ]; then say "all of ${versions[*]} passed"; else say "failed: ${failed[*]}"; exit 1; fi

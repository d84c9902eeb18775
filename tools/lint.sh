#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy over sources.
#   tools/lint.sh [--all | --against COMMIT | FILE…]     [--jobs N]
# Default: the .cpp files that differ from main (or are not committed). A file that includes ATen takes about a minute
# and 1.5 GB; what passed is remembered in the build folder by content, so a second run is quick.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v clang-tidy >/dev/null || { echo "[lint] error: no clang-tidy — apt-get install clang-tidy" >&2; exit 3; }
build=build-dev jobs=1 against=main mode=changed files=()
while [ $# -gt 0 ]; do
  case $1 in
    --all) mode=all ;;
    --against) against=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    -*) echo "[lint] error: unknown option $1" >&2; exit 2 ;;
    *) mode=given; files+=("$1") ;;
  esac
  shift
done
case $mode in
  all) mapfile -t files < <(git ls-files 'src/*.cpp') ;;
  changed) mapfile -t files < <({ git diff --name-only --diff-filter=d "$(git merge-base HEAD "$against")" -- 'src/*.cpp'
                                 git ls-files --others --exclude-standard -- 'src/*.cpp'; } | sort -u) ;;
esac
[ ${#files[@]} -gt 0 ] || { echo "[lint] no changed sources"; exit 0; }
[ -f $build/compile_commands.json ] || cmake --preset dev >/dev/null
passed=$build/lint
mkdir -p $passed

# One file. Its stamp covers the file, the settings and our headers, so that any of them changing lints it again.
lint_one() {
  local file=$1 stamp
  stamp=$passed/$(cat "$file" .clang-tidy <(git ls-files 'src/*.h' | xargs cat) | sha256sum | cut -c1-32)
  [ -e "$stamp" ] && return 0
  if clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error "$file" 2>"$stamp.log"; then
    : >"$stamp"
    rm -f "$stamp.log"
  else
    grep -E "error:" "$stamp.log" | head -5 || true
    rm -f "$stamp.log"
    echo "[lint] failed: $file"
    return 1
  fi
}
export -f lint_one
export passed build
failed=0
printf '%s\0' "${files[@]}" | nice xargs -0 -n 1 -P "$jobs" bash -c 'lint_one "$1"' lint || failed=1
echo "[lint] ${#files[@]} files, $([ $failed = 0 ] && echo all clean || echo 'some failed')"
exit $failed

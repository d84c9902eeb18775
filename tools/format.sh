#!/usr/bin/env bash
# Brings the C++ sources into the form of .clang-format, or checks that they are in it.
#   tools/format.sh            rewrites what differs and names it
#   tools/format.sh --check    changes nothing; exit code 1 when something differs
# Files may follow; default: every C++ file that git tracks. The clang-format is the one pinned in tests/requirements/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(tools/test_venv.sh format)
clang_format=$("$python" -c 'import clang_format, os; print(os.path.join(os.path.dirname(clang_format.__file__), "data/bin/clang-format"))' || true)
[ -x "$clang_format" ] || clang_format=clang-format
command -v "$clang_format" >/dev/null || { echo "[format] error: no clang-format — apt-get install clang-format" >&2; exit 3; }
check=0
if [ "${1:-}" = --check ]; then check=1; shift; fi
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh'); fi
differing=0
for file in "${files[@]}"; do
  "$clang_format" "$file" | cmp -s - "$file" && continue
  differing=$((differing + 1))
  if [ $check = 1 ]; then echo "[format] differs: $file"; else "$clang_format" -i "$file"; echo "[format] rewrote $file"; fi
done
echo "[format] $differing of ${#files[@]} files differed"
[ $check = 0 ] || [ $differing = 0 ]

#!/usr/bin/env bash
# Checks that every source, in the units of the release build, also compiles, with its warnings as errors, under another compiler.
#   tools/check_compiler.sh [COMPILER [EXTRA_FLAG…]]     default: g++-11, the compiler of Ubuntu 22.04
# Only the front end runs (-fsyntax-only): nothing is linked. At low priority, one file at a time.
# Example for other library headers first: tools/check_compiler.sh g++-12 -isystem /path/of/older/fmt/include
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compiler=${1:-g++-11}
[ $# -gt 0 ] && shift
command -v "$compiler" >/dev/null || { echo "[compiler] error: no $compiler — apt-get install $compiler" >&2; exit 3; }
cmake --preset release >/dev/null
exec nice -n 19 python3 - "$compiler" "$@" <<'PYTHON'
import json
import re
import shlex
import subprocess
import sys

compiler, extra = sys.argv[1], sys.argv[2:]
entries = json.load(open("build/compile_commands.json"))
failed = []
for entry in entries:
    words = shlex.split(entry["command"])
    words = [w for i, w in enumerate(words) if w != "-o" and words[i - 1] != "-o" and not re.match(r"-O\d", w)]
    command = [compiler, *extra, *words[1:], "-O0", "-fsyntax-only"]
    run = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    if run.returncode != 0:
        failed.append(entry["file"])
        print(f"[compiler] {entry['file']}")
        print("\n".join([line for line in run.stderr.splitlines() if "error" in line][:4]), flush=True)
print(f"[compiler] {compiler}: {len(entries) - len(failed)} of {len(entries)} units compile")
sys.exit(1 if failed or not entries else 0)
PYTHON

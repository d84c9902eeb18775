#!/usr/bin/env bash
# Gives tests the Python packages they compare titan with, each set pinned in tests/requirements/<set>.txt, in a virtual
# environment below .deps/. Installs what is missing and prints the path of the interpreter; nothing else goes to stdout.
#   tools/test_venv.sh SET...      (a package that is in several sets has the same pin in each)
# TITAN_TEST_PYTHON=<interpreter that has the packages> is used as it is instead. Exit code 3: they cannot be had.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${TITAN_DEPS:-$root/.deps}/test_venv

say() { printf '[test_venv] %s\n' "$*" >&2; }
die() { printf '[test_venv] error: %s\n' "$*" >&2; exit 3; }

[ $# -gt 0 ] || { say "usage: tools/test_venv.sh SET... with sets of tests/requirements/"; exit 2; }
if [ -n "${TITAN_TEST_PYTHON:-}" ]; then echo "$TITAN_TEST_PYTHON"; exit 0; fi

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9  # tests run side by side
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  python3 -m venv --clear "$venv" >&2 || die "python3 -m venv failed: install python3-venv (tools/setup.sh --tests does)"
fi
for set in "$@"; do
  file=$root/tests/requirements/$set.txt
  [ -f "$file" ] || die "no set '$set' in tests/requirements/"
  stamp=$venv/$set.stamp
  want=$(sha256sum "$file" | cut -c1-64)
  [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && continue
  say "installing $set"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --only-binary=:all: -r "$file" >&2 \
    || die "pip could not install $set — check the network or pip's index settings"
  echo "$want" >"$stamp"
done
echo "$venv/bin/python"

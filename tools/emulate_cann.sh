#!/usr/bin/env bash
# Runs a command that uses torch_npu on emulated Ascend chips: emulator/README.md.
#   tools/emulate_cann.sh COMMAND…
# TITAN_BUILD=<folder> is the build folder that holds emulator/ (default: build). CANNEMU_… variables choose the chip, its memory,
# how many there are, faults and traces.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${TITAN_BUILD:-$root/build}/emulator
[ $# -gt 0 ] || { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
[ -f "$folder/libascendcl.so" ] || {
  echo "[emulate_cann] error: no $folder/libascendcl.so — run tools/setup.sh --npu, then cmake --build build --target emulator" >&2
  exit 3
}
# In front of everything, so that an installed CANN does not win.
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Python's torch would import torch_npu by itself, before the program has said so.
export TORCH_DEVICE_BACKEND_AUTOLOAD=${TORCH_DEVICE_BACKEND_AUTOLOAD:-0}
exec "$@"

#!/usr/bin/env bash
# Trains on this host, with the variables of TorchTitan's run_train.sh:
#   NGPU=4 CONFIG_FILE=configs/llama3/debug_model.toml LOG_RANK=0,1 ./run_train.sh --training.steps 20
# NGPU         processes; default: one for each GPU or NPU that may be used, 1 where there is none (the CPU)
# CONFIG_FILE  default configs/llama3/debug_model.toml
# LOG_RANK     ranks shown on the terminal: 0 (default), 0,2 or all; every rank has a log file
# COMM_MODE    fake_backend: one process is rank 0 of NGPU, the others do not exist; local_tensor: NGPU ranks on the CPU;
#              both for one step, without needing the devices
# TITAN        the binary; default build/titan
# All words are passed on to titan train.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
titan=${TITAN:-$root/build/titan}
[ -x "$titan" ] || { echo "run_train: no $titan — build it: cmake --preset release && cmake --build --preset release --target titan" >&2; exit 3; }

listed() { local IFS=,; set -- $1; echo $#; }  # how many parts a list with commas has

# Devices that this build can use and that this process may see.
count_devices() {
  local modules
  modules=${TITAN_MODULES:-$(dirname "$(readlink -f "$titan")")}
  if [ -e "$modules/libtitan_npu.so" ] && compgen -G '/dev/davinci[0-9]*' >/dev/null; then
    if [ -n "${ASCEND_RT_VISIBLE_DEVICES+set}" ]; then listed "$ASCEND_RT_VISIBLE_DEVICES"
    else compgen -G '/dev/davinci[0-9]*' | wc -l; fi
  elif [ -e "$modules/libtitan_cuda.so" ] && nvidia-smi -L >/dev/null 2>&1; then
    if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then listed "$CUDA_VISIBLE_DEVICES"
    else nvidia-smi -L | grep -c '^GPU'; fi
  else
    echo 0
  fi
}

config=${CONFIG_FILE:-$root/configs/llama3/debug_model.toml}
log_rank=${LOG_RANK:-0}
if [ -n "${NGPU:-}" ]; then
  processes=$NGPU
else
  devices=$(count_devices)
  processes=$((devices > 0 ? devices : 1))
  echo "run_train: NGPU is not set, using $processes process(es) for $devices device(s)" >&2
fi
[ -z "${TRAIN_FILE:-}" ] || echo "run_train: TRAIN_FILE=$TRAIN_FILE is ignored: titan trains by itself, without Python" >&2

case ${COMM_MODE:-} in
  "") ;;
  fake_backend)
    echo "run_train: comm.mode fake_backend: this process is rank 0 of $processes, for 1 step" >&2
    exec "$titan" train --job.config_file "$config" "$@" --comm.mode=fake_backend --comm.world_size="$processes" --training.steps=1 ;;
  local_tensor)
    echo "run_train: comm.mode local_tensor: all $processes rank(s) run on this host's CPU, for 1 step" >&2
    set -- "$@" --device.name=cpu --training.steps=1 ;;
  *) echo "run_train: COMM_MODE=$COMM_MODE is not one of fake_backend, local_tensor" >&2; exit 2 ;;
esac
exec "$titan" launch --nproc "$processes" --log-ranks "$log_rank" -- train --job.config_file "$config" "$@"

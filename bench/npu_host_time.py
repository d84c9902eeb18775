"""What a launched operator costs the host, titan in C++ against torch_npu from Python: training steps of the same Llama on the
emulated CANN with operators that do nothing (CANNEMU_COMPUTE=0), in turn in one run. Prints CPU time of the launching threads
(the main one and autograd's) for each operator and for each step, and their ratios.

    tools/setup.sh --npu; cmake --build build --target titan_npu emulator npu_host_time
    "$(tools/test_venv.sh torch_npu)" bench/npu_host_time.py [--rounds 5] [--layers 6] [--queue 2]

Runs with the Python that has torch and torch_npu. CPU time, so that other processes on the machine matter little; torch_npu's own
second thread (TASK_QUEUE_ENABLE) is not in it, and neither is the emulator's.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DISCARD = 5  # steps at the start of each run: first calls look up and allocate


def run(words, environment):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])["steps"][DISCARD:]


def spread(values, form="{:.2f}"):
    return " / ".join(form.format(v) for v in (min(values), statistics.median(values), max(values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--queue", default="2", help="TASK_QUEUE_ENABLE; 0 puts all of torch_npu's work into the measured threads")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    a = parser.parse_args()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(a.build / "emulator"), "OMP_NUM_THREADS": "1", "CANNEMU_COMPUTE": "0",
                   "CANNEMU_POISON": "0", "TASK_QUEUE_ENABLE": a.queue, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
                   "MULTI_STREAM_MEMORY_REUSE": "1"}
    sizes = [a.layers, a.tokens, a.steps + DISCARD]
    sides = {"titan": [a.build / "npu_host_time", *sizes],
             "Python": [sys.executable, ROOT / "bench/peers/npu_llama.py", *sizes]}
    per_op, per_step, launches = ({side: [] for side in sides} for _ in range(3))
    for _ in range(a.rounds):
        for side, words in sides.items():
            steps = run(words, environment)
            per_step[side].append(statistics.median(ns / 1000 for ns, _ in steps))
            launches[side].append(statistics.median(count for _, count in steps))
            per_op[side].append(per_step[side][-1] / launches[side][-1])
    print(f"{a.layers} layers, TASK_QUEUE_ENABLE={a.queue}, {a.rounds} rounds of {a.steps} steps (min / median / max of the rounds)")
    for side in sides:
        print(f"{side:7} us/operator {spread(per_op[side])}   us/step {spread(per_step[side], '{:.0f}')}   "
              f"operators/step {statistics.median(launches[side]):.0f}")
    for name, values in (("operator", per_op), ("step", per_step)):
        print(f"titan : Python, host time for each {name}: "
              f"{spread([t / p for t, p in zip(values['titan'], values['Python'])])}")


if __name__ == "__main__":
    main()

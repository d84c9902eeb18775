"""What parallelism.enable_async_tensor_parallel changes for processes that talk over Gloo on this machine: training tokens/s of
the Llama 3 debug model with and without it, in turn in one run. On one machine messages cost the processors' own time, so there
is little to hide; bench/tensor_overlap.cpp measures a link that does not.

    python3 bench/tensor_overlap.py [--titan build/titan] [--ranks 2] [--rounds 7] [--steps 20] [--seq_len 512]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DISCARD = 5  # steps at the start of each run that are not counted


def rows_of(arguments, folder, overlap):
    words = [arguments.titan, "launch", "--nproc", arguments.ranks, "--", "train", ROOT / "configs/llama3/debug_model.toml",
             "--job.dump_folder", folder, "--device.name", "cpu", "--device.threads", 1,
             "--model.hf_assets_path", ROOT / "tests/assets/tokenizer", "--training.dataset_path", ROOT / "tests/assets/c4_test",
             "--training.mixed_precision_param", "float32", "--training.local_batch_size", 1, "--training.seq_len",
             arguments.seq_len, "--training.steps", arguments.steps, "--activation_checkpoint.mode", "none",
             "--parallelism.tensor_parallel_degree", arguments.ranks, "--metrics.log_freq", 1, "--debug.seed", 7]
    words += ["--parallelism.enable_async_tensor_parallel"] if overlap else []
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--titan", type=pathlib.Path, default=ROOT / "build/titan")
    for name, default in (("ranks", 2), ("rounds", 7), ("steps", 20), ("seq_len", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    speeds, ratios, apart = {True: [], False: []}, [], 0
    with tempfile.TemporaryDirectory() as root:
        for number in range(arguments.rounds):
            losses = {}
            for overlap in (False, True):
                rows = rows_of(arguments, pathlib.Path(root) / f"{number}_{overlap}", overlap)
                losses[overlap] = [row["loss"] for row in rows]
                speeds[overlap].append(statistics.median(row["tokens_per_second"] for row in rows[DISCARD:]))
            ratios.append(speeds[True][-1] / speeds[False][-1])
            apart = max(apart, *(abs(a - b) for a, b in zip(losses[True], losses[False])))
    print(f"{arguments.ranks} Gloo processes, {arguments.seq_len} tokens: plain {statistics.median(speeds[False]):,.0f} tokens/s, "
          f"taken apart {statistics.median(speeds[True]):,.0f}; ratio min {min(ratios):.3f}, median {statistics.median(ratios):.3f}, "
          f"max {max(ratios):.3f} over {len(ratios)} pairs; losses differ by at most {apart:.1e}")


if __name__ == "__main__":
    main()

"""Training speed on this CPU, titan against eager PyTorch: same model (Llama 3 debugmodel), samples, initial weights, threads
and dtype, in turn in one run. Prints tokens/s of both, their ratio pair by pair, the largest difference of the losses, and the
time from the start of `titan train` to the end of its first step.

    python3 bench/train_cpu.py [--rounds 5] [--steps 25] [--seq_len 256] [--compile]

Needs torch, tokenizers and safetensors in the running Python (the environment of tools/test_venv.sh plus torch).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"dim": 256, "layers": 6, "heads": 16, "hidden": 768, "vocab": 2048}
BATCH, WARMUP, LR = 8, 2, 8e-4
DISCARD = 5  # steps at the start of each run that are not counted


def train_words(titan, folder, steps, seq_len, output, *more):
    return [titan, "train", "--model.name", "llama3", "--model.flavor", "debugmodel", "--model.hf_assets_path",
            str(folder / "tokenizer"), "--training.dataset", "local", "--training.dataset_path", str(folder / "text.txt"),
            "--training.local_batch_size", str(BATCH), "--training.seq_len", str(seq_len), "--training.steps", str(steps),
            "--training.mixed_precision_param", "float32", "--activation_checkpoint.mode", "none", "--optimizer.lr", str(LR),
            "--lr_scheduler.warmup_steps", str(WARMUP), "--lr_scheduler.decay_ratio", "0", "--metrics.log_freq", "1",
            "--debug.seed", "7", "--device.name", "cpu", "--job.dump_folder", str(output), *more]


def run(words):
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return result.stdout


def prepare(titan, folder, steps, seq_len):
    """Text, tokenizer, initial weights, and the samples that titan's loader will make of the text."""
    import torch
    from tokenizers import Tokenizer
    words = [f"w{i % 977} {chr(97 + i % 26) * (i % 7 + 1)} the {i % 53} of" for i in range(400)]
    lines = [" ".join(words[(i * j) % 400] for j in range(1, 30 + i % 40)) for i in range(4000)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    run([titan, "tokenizer", "train", "--vocab-size", "2048", "--output", folder / "tokenizer", folder / "text.txt"])
    run(train_words(titan, folder, steps, seq_len, folder / "seed", "--checkpoint.enable", "--checkpoint.create_seed_checkpoint"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer/tokenizer.json"))
    names = json.loads((folder / "tokenizer/tokenizer_config.json").read_text())
    bos, eos = (tokenizer.token_to_id(names[key]) if names.get(key) else None for key in ("bos_token", "eos_token"))
    streams = [[] for _ in range(BATCH)]
    for number, line in enumerate(lines):
        ids = tokenizer.encode(line, add_special_tokens=False).ids
        streams[number % BATCH] += ([bos] if bos is not None else []) + ids + ([eos] if eos is not None else [])
    width = seq_len + 1
    samples = torch.tensor([[s[i * width:(i + 1) * width] for s in streams] for i in range(steps)])
    torch.save(samples, folder / "samples.pt")
    return next((folder / "seed/checkpoint/step-0").glob("model*.safetensors"))


def rate(ends, seq_len):
    return (len(ends) - DISCARD) * BATCH * seq_len / (ends[-1] - ends[DISCARD - 1])


def titan_run(titan, folder, steps, seq_len, number):
    output = folder / f"run{number}"
    begin = time.monotonic()
    process = subprocess.Popen(train_words(titan, folder, steps, seq_len, output), stdout=subprocess.PIPE, text=True)
    ends = []
    for line in process.stdout:
        if re.search(r" step: +\d+ ", line):
            ends.append(time.monotonic())
    if process.wait():
        sys.exit("titan train failed")
    losses = [json.loads(line)["loss"] for line in (output / "metrics.jsonl").read_text().splitlines()]
    return rate(ends, seq_len), losses, ends[0] - begin


def peer_run(weights, folder, seq_len, threads, compiled):
    words = [sys.executable, ROOT / "bench/peers/eager_llama.py", "--weights", weights, "--samples", folder / "samples.pt",
             "--warmup", WARMUP, "--lr", LR, "--threads", threads] + (["--compile"] if compiled else [])
    for name, value in SIZES.items():
        words += [f"--{name}", value]
    result = json.loads(run(list(map(str, words))))
    return rate(result["ends"], seq_len), result["losses"]


def spread(values, form="{:,.0f}"):
    return " / ".join(form.format(v) for v in (min(values), statistics.median(values), max(values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--seq_len", type=int, default=256)
    parser.add_argument("--compile", action="store_true", help="torch.compile of the peer")
    parser.add_argument("--titan", default=str(ROOT / "build/titan"))
    a = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights = prepare(a.titan, folder, a.steps, a.seq_len)
        ours, peers, firsts, difference = [], [], [], 0.0
        for number in range(a.rounds):
            speed, losses, first = titan_run(a.titan, folder, a.steps, a.seq_len, number)
            peer_speed, peer_losses = peer_run(weights, folder, a.seq_len, threads, a.compile)
            ours.append(speed)
            peers.append(peer_speed)
            firsts.append(first)
            difference = max(difference, max(abs(x - y) for x, y in zip(losses, peer_losses)))
    peer = "torch.compile" if a.compile else "eager PyTorch"
    print(f"debugmodel {BATCH} x {a.seq_len}, float32, {threads} threads, {a.rounds} rounds of {a.steps} steps (min / median / max)")
    print(f"titan          tokens/s  {spread(ours)}")
    print(f"{peer:14} tokens/s  {spread(peers)}")
    print(f"ratio          {spread([x / y for x, y in zip(ours, peers)], '{:.3f}')}")
    print(f"largest difference of a step's loss: {difference:.2e}")
    print(f"start of titan train to the end of step 1, s: {spread(firsts, '{:.2f}')}")
    return 0 if difference < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())

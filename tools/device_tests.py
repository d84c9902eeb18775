"""What tools/device_tests.sh runs: claims about training on a device, then a short benchmark. Standard library only.

A claim is a function check_<name>(session). It starts titan as a user would, reads metrics.jsonl and the checkpoint, and
raises Failure with the numbers when they are not as they should be. One failing claim does not stop the others.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS = 10


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


class Run:
    """One finished `titan train`: exit code, output, rows of metrics.jsonl by step, seconds until the line of step 1."""

    def __init__(self, folder, code, output, first_step_s, seconds):
        self.folder, self.code, self.output = folder, code, output
        self.first_step_s, self.seconds = first_step_s, seconds
        self.rows = {}
        metrics = folder / "metrics.jsonl"
        if metrics.exists():
            for line in metrics.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["step"]] = row

    def column(self, key):
        return [self.rows[step][key] for step in sorted(self.rows)]

    def tail(self, lines=12):
        return "\n".join(self.output.splitlines()[-lines:])


class Session:
    def __init__(self, arguments):
        self.device = arguments.device
        self.out = pathlib.Path(arguments.out).resolve()
        self.deadline = time.monotonic() + arguments.budget
        self.titan = arguments.titan or find_titan()
        self.cache = {}
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        self.text = self.out / "text.jsonl"
        self.tokenizer = self.out / "tokenizer"

    def command(self, name, words, timeout=120, environment=None, on_line=None):
        """Runs titan with these words; its output goes to <name>.log. Returns (exit code, output, seconds)."""
        begin = time.monotonic()
        env = {**os.environ, "NO_COLOR": "1", **(environment or {})}
        process = subprocess.Popen([str(self.titan), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", env=env, cwd=ROOT, start_new_session=True)
        timer_hit = []

        def stop(*_):
            timer_hit.append(True)
            os.killpg(process.pid, signal.SIGKILL)

        signal.signal(signal.SIGALRM, stop)
        signal.alarm(timeout)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if on_line:
                on_line(line, time.monotonic() - begin, process)
        code = process.wait()
        signal.alarm(0)
        output = "".join(lines)
        if timer_hit:
            output += f"\n[device_tests] killed after {timeout} s\n"
            code = 124
        log = f"$ titan {' '.join(map(str, words))}\n{output}\n[exit code {code}, {time.monotonic() - begin:.1f} s]\n"
        (self.out / f"{name}.log").write_text(log)
        return code, output, time.monotonic() - begin

    def train(self, name, *words, device=None, config="configs/llama3/debug_model.toml", steps=STEPS, log_freq=1,
              timeout=150, expect_code=0, environment=None, stop_after_first_step=False):
        folder = self.out / name
        first = []

        def on_line(line, seconds, process):
            if not first and re.search(r"step:\s*\d+ ", line):
                first.append(seconds)
                if stop_after_first_step:
                    os.kill(process.pid, signal.SIGTERM)

        arguments = ["train", config, "--job.dump_folder", folder, "--device.name", device or self.device,
                     "--model.hf_assets_path", self.tokenizer, "--training.dataset", "c4_test",
                     "--training.dataset_path", self.text, "--training.steps", steps, "--metrics.log_freq", log_freq,
                     "--debug.seed", 42, *words]
        code, output, seconds = self.command(name, arguments, timeout, environment, on_line)
        run = Run(folder, code, output, first[0] if first else None, seconds)
        if expect_code is not None and code != expect_code:
            raise Failure(f"{name}: exit code {code} instead of {expect_code}:\n{run.tail()}")
        return run

    def small(self, name, *words, **options):
        """The debug model at 4 x 128 tokens, without recomputation unless the words say otherwise."""
        if self.device == "cpu" and not any("precision" in str(w) or "dtype" in str(w) for w in words):
            words = (*FP32, *words)  # most CPUs have no fast bf16 product
        return self.train(name, "--training.local_batch_size", 4, "--training.seq_len", 128,
                          "--activation_checkpoint.mode", "none", *words, **options)

    def cached(self, name, *words, **options):
        if name not in self.cache:
            self.cache[name] = self.small(name, *words, **options)
        return self.cache[name]


FP32 = ("--training.mixed_precision_param", "float32")
FP64 = ("--training.dtype", "float64")


def find_titan():
    for candidate in (ROOT / "titan", ROOT / "build" / "titan", ROOT / "build-dev" / "titan"):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    sys.exit(f"[device_tests] no titan in {ROOT}: build it or give --titan")


def compare(what, mine, reference, tolerance):
    expect(len(mine) == len(reference) and mine, f"{what}: {len(mine)} values against {len(reference)}")
    worst = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(mine, reference))
    expect(worst <= tolerance, f"{what}: relative difference {worst:.3g} > {tolerance:g}\n  {mine}\n  {reference}")
    return worst


def write_text(path, documents=2500, seed=1):
    """Documents of made-up words with a Zipf-like frequency and a little grammar, the same on every machine."""
    rng = random.Random(seed)
    syllables = [a + b for a in "b d f g k l m n p r s t v".split() for b in "a e i o u".split()]
    words = ["".join(rng.choice(syllables) for _ in range(rng.randint(1, 4))) for _ in range(3000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    with open(path, "w") as out, open(path.with_suffix(".txt"), "w") as plain:
        for _ in range(documents):
            sentences = []
            for _ in range(rng.randint(8, 24)):
                chosen = rng.choices(words, weights, k=rng.randint(4, 18))
                sentences.append(chosen[0].capitalize() + " " + " ".join(chosen[1:]) + ".")
            text = " ".join(sentences)
            out.write(json.dumps({"text": text}) + "\n")
            plain.write(text + "\n")


# ---- claims ---------------------------------------------------------------------------------------------------------


def check_the_device_is_healthy(session):
    code, output, _ = session.command("doctor", ["doctor", "--device", session.device])
    expect(code == 0, output)
    return next((line.strip() for line in output.splitlines() if line.strip().startswith("device ")), "")


def check_float64_losses_equal_the_cpu(session):
    ours, cpu = session.small("fp64", *FP64), session.small("fp64_cpu", *FP64, device="cpu")
    worst = compare("loss", ours.column("loss"), cpu.column("loss"), 1e-9)
    norm = compare("grad_norm", ours.column("grad_norm"), cpu.column("grad_norm"), 1e-7)
    return f"loss {worst:.1e}, grad_norm {norm:.1e}"


def check_float32_losses_equal_the_cpu(session):
    ours, cpu = session.cached("fp32", *FP32), session.small("fp32_cpu", *FP32, device="cpu")
    worst = compare("loss", ours.column("loss"), cpu.column("loss"), 1e-4)
    norm = compare("grad_norm", ours.column("grad_norm"), cpu.column("grad_norm"), 5e-3)
    return f"loss {worst:.1e}, grad_norm {norm:.1e}"


def check_the_loss_falls(session):
    losses = session.cached("fp32", *FP32).column("loss")
    expect(losses[-1] < losses[0] - 0.5, f"{losses}")
    return f"{losses[0]:.3f} -> {losses[-1]:.3f}"


def check_lower_precisions_follow_float32(session):
    reference = session.cached("fp32", *FP32).column("loss")
    result = []
    for name, words, tolerance in (("bf16", ["--training.mixed_precision_param", "bfloat16"], 0.01),
                                   ("fp16", ["--training.mixed_precision_param", "float16"], 0.01),
                                   ("pure_bf16", ["--training.dtype", "bfloat16"], 0.03)):
        # A loss scale that starts too high skips steps; such a run is behind the reference by as many.
        losses = session.small(name, *words).column("loss")
        skipped = sum(1 for a, b in zip(losses, losses[1:]) if a == b)
        result.append(f"{name} {compare(name, losses[:1], reference[:1], tolerance):.1e} (step 1)"
                      f" {abs(losses[-1] - reference[-1]) / reference[-1]:.1e} (step {STEPS}, {skipped} skipped)")
        expect(losses[-1] < losses[0] - 0.3, f"{name}: the loss does not fall: {losses}")
        if name != "fp16":
            compare(name, losses, reference, tolerance)
    return ", ".join(result)


def check_recomputation_changes_nothing(session):
    reference = session.cached("fp32", *FP32)
    result = []
    for name, words in (("full", ["--activation_checkpoint.mode", "full"]),
                        ("selective_2", ["--activation_checkpoint.mode", "selective"]),
                        ("selective_op", ["--activation_checkpoint.mode", "selective",
                                          "--activation_checkpoint.selective_ac_option", "op"])):
        run = session.small(f"recompute_{name}", *FP32, *words)
        worst = compare(name, run.column("loss"), reference.column("loss"), 1e-4)
        result.append(f"{name} {worst:.1e}")
    return ", ".join(result)


def check_captured_steps_equal_uncaptured_ones(session):
    """compile.enable: equal losses bit for bit, and what it costs and brings."""
    compiled = ("--compile.enable", "--compile.require")
    if session.device == "cpu":
        run = session.small("captured_refused", *FP32, *compiled, expect_code=2)
        expect("the step cannot be captured: a cpu has no graphs" in run.output, run.tail())
        return "refused on a CPU"
    # An NPU's captured step has an optimizer of its own, whose sums round differently.
    tolerance = 1e-5 if session.device == "npu" else 0
    result = []
    for name, words in (("plain", ()), ("accumulated", ("--training.global_batch_size", 8)),
                        ("recomputed", ("--activation_checkpoint.mode", "full")),
                        ("fp16", ("--training.mixed_precision_param", "float16")),
                        ("sharded", ("--debug.shard_one_process", "--activation_checkpoint.mode", "full"))):
        words = words if name == "fp16" else (*FP32, *words)
        words = ("--debug.deterministic", *words)
        eager, captured = session.small(f"eager_{name}", *words), session.small(f"captured_{name}", *words, *compiled)
        took = re.search(r"The step is captured: ([\d.]+) s, (.*?) of memory", captured.output)
        expect(took, f"{name}: nothing was captured: {captured.tail()}")
        for key in ("loss", "grad_norm"):
            compare(f"{name}: {key}", captured.column(key), eager.column(key), tolerance)
        peaks = [max(run.column("memory_gib")) for run in (eager, captured)]
        result.append(f"{name} captured in {took[1]} s, peak {peaks[1]:.2f} GiB instead of {peaks[0]:.2f}")
    speeds = []
    for name, words in (("eager", ()), ("captured", compiled)):
        run = session.small(f"speed_{name}", *words, steps=300, log_freq=50)
        speeds.append(run.rows[300]["tokens_per_second"])
    return ", ".join(result) + f"; debug model: {speeds[1]:.0f} tokens/s instead of {speeds[0]:.0f}, {speeds[1] / speeds[0]:.2f} times"


def check_a_sharded_group_of_one_changes_nothing(session):
    reference = session.cached("fp32", *FP32)
    run = session.small("sharded_one", *FP32, "--debug.shard_one_process", "--comm-report",
                        "--activation_checkpoint.mode", "full")
    calls = re.findall(r"fsdp +(\S+) +([\d.]+) calls", run.output)
    expect({kind for kind, count in calls if float(count) > 0} >= {"all-gather", "reduce-scatter"},
           f"no collectives were counted: {run.tail(12)}")
    worst = compare("loss", run.column("loss"), reference.column("loss"), 1e-4)
    return f"{worst:.1e}, calls a step: " + ", ".join(f"{kind} {count}" for kind, count in calls)


def check_offload_changes_nothing_but_the_memory(session):
    reference = session.cached("fp32", *FP32)
    offload = ("--training.enable_cpu_offload", "--comm-report")
    result = []
    for name, words in (("alone", ()), ("sharded", ("--debug.shard_one_process",)),
                        ("recomputed", ("--debug.shard_one_process", "--activation_checkpoint.mode", "full"))):
        run = session.small(f"offload_{name}", *FP32, *offload, *words)
        copies = re.findall(r"host +copy to (\S+) +([\d.]+) calls", run.output)
        expect({kind for kind, count in copies if float(count) > 0} == {"device", "host"}, f"no copies were counted: {run.tail(12)}")
        worst = compare("loss", run.column("loss"), reference.column("loss"), 1e-4)
        compare("gradient norm", run.column("grad_norm"), reference.column("grad_norm"), 1e-3)
        result.append(f"{name} {worst:.1e}")
    early = session.small("offload_early_step", *FP32, *offload, "--optimizer.early_step_in_backward")
    expect(all(math.isfinite(loss) for loss in early.column("loss")) and early.column("loss")[-1] < early.column("loss")[0],
           f"updates in the backward pass: losses {early.column('loss')}")
    if session.device == "cpu":
        return ", ".join(result)
    large = ("--model.flavor", "1B", "--training.local_batch_size", 1, "--training.seq_len", 256, "--activation_checkpoint.mode", "full")
    peak = {name: max(session.train(f"offload_memory_{name}", *large, *words, steps=2, timeout=300).column("memory_gib"))
            for name, words in (("off", ()), ("on", offload))}
    expect(peak["on"] < 0.5 * peak["off"], f"peak memory {peak['on']:.2f} GiB with offload, {peak['off']:.2f} GiB without")
    return ", ".join(result) + f"; 1B: peak {peak['on']:.2f} GiB instead of {peak['off']:.2f}"


def check_accumulation_equals_one_batch(session):
    reference = session.cached("fp32", *FP32)
    run = session.small("accumulation", *FP32, "--training.local_batch_size", 1, "--training.global_batch_size", 4)
    return f"{compare('loss', run.column('loss'), reference.column('loss'), 1e-4):.1e}"


def check_document_masks_equal_the_cpu(session):
    words = ("--model.args.attn_mask_type", "block_causal", "--data.reset_positions")
    result = []
    for name, precision, tolerance in (("fp64", FP64, 1e-9), ("fp32", FP32, 1e-4)):
        ours = session.small(f"documents_{name}", *precision, *words).column("loss")
        cpu = session.small(f"documents_{name}_cpu", *precision, *words, device="cpu").column("loss")
        result.append(f"{name} {compare(name, ours, cpu, tolerance):.1e}")
    causal = session.cached("fp32", *FP32).column("loss")
    expect(ours != causal, f"the mask changes nothing: {ours}")
    bf16 = session.small("documents_bf16", *words).column("loss")
    result.append(f"bf16 {compare('bf16', bf16, ours, 0.01):.1e}")
    return ", ".join(result)


def check_deterministic_runs_are_bit_equal(session):
    first = session.small("deterministic_1", "--debug.deterministic")
    second = session.small("deterministic_2", "--debug.deterministic")
    for key in ("loss", "grad_norm"):
        expect(first.column(key) == second.column(key), f"{key}: {first.column(key)} {second.column(key)}")
    return f"{len(first.rows)} steps"


def step_digest(folder):
    files = sorted(p for p in folder.rglob("*") if p.suffix == ".safetensors")
    expect(files, f"no .safetensors in {folder}: {sorted(p.name for p in folder.rglob('*'))}")
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def check_a_resumed_run_is_bit_equal(session):
    words = ("--debug.deterministic", "--checkpoint.enable", "--checkpoint.interval", 5, "--checkpoint.keep_latest_k", 0)
    whole = session.small("resume_whole", *words)
    steps = whole.folder / "checkpoint"
    expect((steps / "step-5").is_dir() and (steps / "step-10").is_dir(), f"{sorted(p.name for p in steps.iterdir())}")
    shutil.copytree(whole.folder, session.out / "resume_rest")
    shutil.rmtree(session.out / "resume_rest" / "checkpoint" / "step-10")
    rest = session.small("resume_rest", *words)
    expect(rest.column("loss")[-5:] == whole.column("loss")[-5:], f"{rest.column('loss')} {whole.column('loss')}")
    expect(step_digest(rest.folder / "checkpoint" / "step-10") == step_digest(steps / "step-10"), "checkpoints differ")
    return "losses 6-10 and every byte of the last checkpoint"


def check_generation_equals_the_cpu(session):
    checkpoint = session.out / "resume_whole" / "checkpoint" / "step-10"
    expect(checkpoint.is_dir(), "needs the checkpoint of check_a_resumed_run_is_bit_equal")
    texts = {}
    for device in (session.device, "cpu"):
        code, output, _ = session.command(f"generate_{device}", [
            "generate", "--checkpoint", checkpoint, "--prompt", "Ba de fi", "--max_new_tokens", 24, "--temperature", 0,
            "--device", device, "--dtype", "float32", "--tokenizer", session.tokenizer])
        expect(code == 0, output)
        texts[device] = [l for l in output.splitlines() if not re.search(r"\[titan\]|tokens/s|seconds", l)]
    expect(texts["cpu"] == texts[session.device] and any(texts["cpu"]), f"{texts}")
    return " ".join(texts["cpu"])[:60]


def check_a_signal_ends_the_run_cleanly(session):
    run = session.small("sigterm", "--checkpoint.enable", steps=100000, expect_code=143, stop_after_first_step=True)
    saved = sorted(p.name for p in (run.folder / "checkpoint").iterdir())
    expect(any(name.startswith("step-") for name in saved), f"nothing was saved: {saved}")
    return f"exit code 143, saved {saved}"


def check_memory_running_out_is_one_line(session):
    run = session.small("out_of_memory", *FP32, "--training.local_batch_size", 2048, "--training.seq_len", 2048, steps=1,
                        expect_code=None, timeout=120)
    expect(run.code == 3, f"exit code {run.code}:\n{run.tail()}")
    error = [line for line in run.output.splitlines() if line.startswith("titan: ")]
    expect(len(error) == 1 and "memory" in error[0], f"{run.tail()}")
    expect("frame #" not in run.output, "the message shows C++ frames")
    return error[0][:160]


def check_a_hidden_device_is_named(session):
    variable = {"cuda": "CUDA_VISIBLE_DEVICES", "npu": "ASCEND_RT_VISIBLE_DEVICES"}.get(session.device)
    if variable is None:
        return "skipped: the CPU cannot be hidden"
    run = session.small("hidden_device", expect_code=3, environment={variable: ""}, steps=1)
    return run.tail(1)[:160]


CLAIMS = [check_the_device_is_healthy, check_float32_losses_equal_the_cpu, check_the_loss_falls,
          check_float64_losses_equal_the_cpu, check_lower_precisions_follow_float32, check_recomputation_changes_nothing,
          check_captured_steps_equal_uncaptured_ones, check_a_sharded_group_of_one_changes_nothing,
          check_offload_changes_nothing_but_the_memory, check_accumulation_equals_one_batch, check_document_masks_equal_the_cpu, check_deterministic_runs_are_bit_equal,
          check_a_resumed_run_is_bit_equal,
          check_generation_equals_the_cpu, check_a_signal_ends_the_run_cleanly, check_a_hidden_device_is_named,
          check_memory_running_out_is_one_line]

# ---- benchmark ------------------------------------------------------------------------------------------------------

BENCHES = [
    ("debug 8x2048 bf16", 60, ["--training.local_batch_size", 8, "--training.seq_len", 2048]),
    ("debug 1x256 bf16", 200, ["--training.local_batch_size", 1, "--training.seq_len", 256]),
    ("1B 4x4096 bf16", 25, ["--model.flavor", "1B", "--training.local_batch_size", 4, "--training.seq_len", 4096]),
    ("1B 4x4096 pure bf16", 25, ["--model.flavor", "1B", "--training.local_batch_size", 4, "--training.seq_len", 4096,
                                 "--training.dtype", "bfloat16"]),
    ("1B 4x4096 bf16, full recompute", 15, ["--model.flavor", "1B", "--training.local_batch_size", 4,
                                            "--training.seq_len", 4096, "--activation_checkpoint.mode", "full"]),
    ("the same, FSDP of one rank", 15, ["--model.flavor", "1B", "--training.local_batch_size", 4, "--training.seq_len", 4096,
                                        "--activation_checkpoint.mode", "full", "--debug.shard_one_process"]),
    ("1B full recompute again", 15, ["--model.flavor", "1B", "--training.local_batch_size", 4,
                                     "--training.seq_len", 4096, "--activation_checkpoint.mode", "full"]),
    ("FSDP of one rank again", 15, ["--model.flavor", "1B", "--training.local_batch_size", 4, "--training.seq_len", 4096,
                                    "--activation_checkpoint.mode", "full", "--debug.shard_one_process"]),
]


def bench(session, name, steps, words):
    mode = [] if "--activation_checkpoint.mode" in words else ["--activation_checkpoint.mode", "none"]
    run = session.train("bench_" + re.sub(r"\W+", "_", name), *mode, *words, steps=steps, log_freq=5, timeout=170,
                        expect_code=None)
    if run.code != 0:
        return {"name": name, "error": f"exit code {run.code}: {run.tail(3)}"}
    settled = [row for step, row in run.rows.items() if step > steps // 3]
    rates = sorted(row["tokens_per_second"] for row in settled)
    return {"name": name, "tokens_per_second": rates[len(rates) // 2], "spread": [rates[0], rates[-1]],
            "mfu": max(row["mfu"] or 0 for row in settled), "memory_gib": max(row["memory_gib"] for row in run.rows.values()),
            "first_step_s": run.first_step_s, "loss": settled[-1]["loss"], "seconds": run.seconds}


def print_machine(session):
    print(f"[device_tests] {platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
    for command in (["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader"],
                    [str(session.titan), "--version"]):
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=60)
            print("  " + (run.stdout + run.stderr).strip().replace("\n", "\n  "))
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"  {command[0]}: {error}")


def run_claims(session, only):
    results = []
    for claim in CLAIMS:
        name = claim.__name__.removeprefix("check_").replace("_", " ")
        if only and not any(word in name for word in only.split(",")):
            continue
        begin = time.monotonic()
        if time.monotonic() > session.deadline:
            results.append({"name": name, "result": "skipped", "detail": "no time left"})
        else:
            try:
                results.append({"name": name, "result": "passed", "detail": claim(session) or ""})
            except Failure as failure:
                results.append({"name": name, "result": "failed", "detail": str(failure)})
            except Exception:  # a mistake of this script must not hide the other claims
                results.append({"name": name, "result": "failed", "detail": traceback.format_exc()})
        last = results[-1]
        print(f"{last['result']:8} {time.monotonic() - begin:5.1f} s  {name}: {last['detail']}", flush=True)
    return results


def run_benches(session):
    rows = []
    for name, steps, words in BENCHES:
        if time.monotonic() > session.deadline:
            print(f"{name}: skipped, no time left")
            continue
        row = bench(session, name, steps, words)
        rows.append(row)
        if "error" in row:
            print(f"{name}: {row['error']}", flush=True)
            continue
        if len(rows) == 1:
            print(f"{'model':32} {'tokens/s':>10} {'min..max':>19} {'MFU %':>6} {'GiB':>7} {'step 1 s':>8} {'loss':>8}")
        print(f"{name:32} {row['tokens_per_second']:10,.0f} {row['spread'][0]:9,.0f}..{row['spread'][1]:8,.0f} {row['mfu']:6.2f} "
              f"{row['memory_gib']:7.2f} {row['first_step_s'] or 0:8.2f} {row['loss']:8.4f}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description="Tests titan on this machine's accelerator.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", default="device_tests_out")
    parser.add_argument("--titan")
    parser.add_argument("--budget", type=float, default=480, help="seconds after which nothing new is started")
    parser.add_argument("--only", help="claims whose name holds one of these words, separated by commas")
    parser.add_argument("--no-bench", action="store_true")
    parser.add_argument("--bench-only", action="store_true")
    arguments = parser.parse_args()
    session = Session(arguments)
    begin = time.monotonic()
    print_machine(session)
    write_text(session.text)
    code, output, seconds = session.command("tokenizer", ["tokenizer", "train", "--vocab-size", 1800, "--output",
                                                          session.tokenizer, session.text.with_suffix(".txt")])
    if code != 0:
        sys.exit(f"[device_tests] tokenizer train failed:\n{output}")
    print(f"[device_tests] text and tokenizer made in {seconds:.1f} s", flush=True)
    claims = [] if arguments.bench_only else run_claims(session, arguments.only)
    benches = [] if arguments.no_bench else run_benches(session)
    (session.out / "results.json").write_text(json.dumps({"claims": claims, "benches": benches}, indent=1))
    count = {kind: sum(1 for claim in claims if claim["result"] == kind) for kind in ("passed", "failed", "skipped")}
    print(f"[device_tests] {time.monotonic() - begin:.0f} s, results and logs in {session.out}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    broken = [row for row in benches if "error" in row]
    sys.exit(1 if count["failed"] or broken else 0)


if __name__ == "__main__":
    main()

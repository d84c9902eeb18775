#!/usr/bin/env python3
"""TorchTitan's integration list (features and dense models) through run_train.sh, on the CPU.

    integration_test.py PATH_OF_TITAN [--subset | --only NAME,NAME] [--keep FOLDER]

A run must end with exit code 0 and a finite loss at its last step; a second run of a case goes on from the first one's
checkpoint where the case says so. What this version has not built must be refused by the key's name; what it accepts
without effect must say so in a warning. Nothing is skipped. Only Python's standard library.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASE = ["--training.seq_len 128", "--device.name cpu"]
TIMEOUT_S = 300
TP, PP, CP = (f"--parallelism.{axis}_parallel_degree " for axis in ("tensor", "pipeline", "context"))
SHARD, REPLICATE = "--parallelism.data_parallel_shard_degree ", "--parallelism.data_parallel_replicate_degree "
SCHEDULE, LAYERS = "--parallelism.pipeline_parallel_schedule ", "--parallelism.pipeline_parallel_layers_per_stage "
EP, ETP = "--parallelism.expert_parallel_degree ", "--parallelism.expert_tensor_parallel_degree "
ROTATE = "--parallelism.context_parallel_rotate_method "
COMPILE, SAVE = "--compile.enable", "--checkpoint.enable"
SAC_OP = ["--activation_checkpoint.mode selective", "--activation_checkpoint.selective_ac_option op"]
OFFLOAD = ["--training.enable_cpu_offload", "--optimizer.early_step_in_backward"]
THREE_AXES = [PP + "2", SHARD + "2", TP + "2"]
HF_FOLDER = "{dump}/hf_checkpoint/step-10"


@dataclass
class Case:
    name: str
    runs: list
    ranks: int = 4
    resumes_at: int = 0  # first step of the second run; 0: it starts anew
    accepted: list = field(default_factory=list)  # keys without effect, each named by a warning
    refused: list = field(default_factory=list)  # keys that the refusal names; every run is refused
    reason: str = ""  # why it is refused or runs otherwise than there
    files: list = field(default_factory=list)  # globs in the dump folder that the case must have written
    generate: bool = False  # then text is generated from the checkpoint


CASES = [
    Case("default", [["--profiling.enable_profiling", "--metrics.enable_tensorboard"]],
         files=["profile_trace/**/*.json*", "tb/**/*tfevents*"]),
    Case("1d_compile", [[COMPILE]], accepted=["compile.enable"]),
    Case("1d_compile_sac_op", [[COMPILE, *SAC_OP]], accepted=["compile.enable"]),
    Case("2d_eager", [[TP + "2"]]),
    Case("2d_compile", [[COMPILE, TP + "2"]], accepted=["compile.enable"]),
    Case("2d_asynctp_compile", [[COMPILE, TP + "2", "--parallelism.enable_async_tensor_parallel"]],
         accepted=["compile.enable"], reason="switched off in TorchTitan's list"),
    Case("full_checkpoint", [[SAVE], [SAVE, "--training.steps 20"]], resumes_at=11),
    Case("model_only_hf_checkpoint",
         [[SAVE, "--checkpoint.folder hf_checkpoint", "--checkpoint.last_save_model_only", "--checkpoint.last_save_in_hf"],
          [SAVE, f"--checkpoint.initial_load_path {HF_FOLDER}", "--checkpoint.initial_load_model_only",
           "--checkpoint.initial_load_in_hf"]], files=["hf_checkpoint/step-10/*.safetensors"]),
    Case("last_save_model_only_fp32", [[SAVE, "--checkpoint.last_save_model_only"]], files=["checkpoint/step-10/*"]),
    Case("last_save_model_only_bf16", [[SAVE, "--checkpoint.last_save_model_only", "--checkpoint.export_dtype bfloat16"]],
         files=["checkpoint/step-10/*"]),
    Case("pp_looped_zero_bubble", [[PP + "4", SCHEDULE + "InterleavedZeroBubble"]]),
    Case("pp_zbv", [[PP + "2", SCHEDULE + "ZBVZeroBubble"]], ranks=2),
    Case("pp_1f1b", [[PP + "2", SCHEDULE + "1F1B", SHARD + "1"]], ranks=2),
    Case("pp_gpipe", [[PP + "2", SCHEDULE + "GPipe", SHARD + "1"]], ranks=2),
    Case("pp_dp_1f1b", [[PP + "2", SCHEDULE + "1F1B", SHARD + "2"], [PP + "2", SCHEDULE + "1F1B", LAYERS + "4", SHARD + "2"]]),
    Case("pp_dp_gpipe", [[PP + "2", SCHEDULE + "GPipe", SHARD + "2"]]),
    Case("pp_tp", [[PP + "2", TP + "2"]]),
    Case("pp_dp_tp", [[SAVE, *THREE_AXES], ["--training.steps 20", SAVE, *THREE_AXES]], ranks=8, resumes_at=11),
    Case("3d_compile", [[*THREE_AXES, COMPILE]], ranks=8, accepted=["compile.enable"]),
    Case("pp_looped_1f1b", [[PP + "4", SCHEDULE + "Interleaved1F1B"], [PP + "4", SCHEDULE + "Interleaved1F1B", LAYERS + "1"]]),
    Case("pp_custom_csv", [[PP + "2", SCHEDULE + "PipelineScheduleMulti",
                            "--parallelism.pipeline_parallel_schedule_csv ./tests/assets/custom_schedule.csv"]], ranks=2),
    Case("optimizer_foreach", [["--optimizer.name AdamW --optimizer.implementation foreach"]], ranks=2),
    Case("ddp", [[SHARD + "1", REPLICATE + "4"]]),
    Case("hsdp", [[SHARD + "2", REPLICATE + "2"]]),
    Case("fsdp+flex_attn", [[SHARD + "4", "--activation_checkpoint.mode full", "--model.flavor debugmodel_flex_attn"]]),
    Case("fsdp+flex_attn+per_op_sac", [[SHARD + "4", *SAC_OP, "--model.flavor debugmodel_flex_attn"]]),
    Case("fsdp+varlen_attn+per_op_sac", [[SHARD + "4", *SAC_OP, "--model.flavor debugmodel_varlen_attn"]]),
    Case("cp_allgather", [[CP + "4", ROTATE + "allgather"]]),
    Case("cp_alltoall", [[CP + "4", ROTATE + "alltoall"]]),
    Case("hsdp+tp", [[SHARD + "2", REPLICATE + "2", TP + "2"]], ranks=8),
    Case("fsdp+cp", [[SHARD + "2", CP + "2"]]),
    Case("hsdp+cp_without_dp_shard", [[SHARD + "1", REPLICATE + "2", CP + "2"]]),
    Case("hsdp+cp_with_dp_shard", [[SHARD + "2", REPLICATE + "2", CP + "2"]], ranks=8),
    Case("fsdp+tp+cp", [[SHARD + "2", TP + "2", CP + "2"]], ranks=8),
    Case("cpu_offload+opt_in_bwd+TP+DP+CP", [[SAVE, TP + "2", CP + "2", *OFFLOAD], [TP + "2", CP + "2", REPLICATE + "2", *OFFLOAD]],
         ranks=8, accepted=["optimizer.early_step_in_backward"]),
    Case("fsdp2_memory_estimation", [["--memory_estimation.enable"]], ranks=2, refused=["memory_estimation.enable"],
         reason="the start-up summary forecasts the memory; switched off in TorchTitan's list"),
    Case("test_generate", [[SAVE]], ranks=2, generate=True,
         reason="the second part is a Python script there; titan generate takes its place"),
    Case("fsdp_reshard_always", [["--parallelism.fsdp_reshard_after_forward always"]], ranks=2),
    Case("optional_checkpoint",
         [[SAVE, "--training.steps 10"],
          [SAVE, "--checkpoint.exclude_from_loading lr_scheduler,dataloader,optimizer", TP + "2", "--training.steps 20"]],
         resumes_at=11),
    Case("float8_emulation", [["--model.converters quantize.linear.float8", "--quantize.linear.float8.enable_fsdp_float8_all_gather",
                               "--quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
                               "--quantize.linear.float8.emulate"]]),
    Case("gradient_accumulation", [["--training.local_batch_size 8", "--training.global_batch_size 32"]], ranks=2),
    Case("validation_tp_cp_pp", [["--validation.enable", "--validation.dataset c4_test", TP + "2", CP + "2", PP + "2",
                                  SCHEDULE + "Interleaved1F1B"]], ranks=8),
    Case("dataloader_kwargs", [["--training.dataloader.num_workers 2", "--training.dataloader.pin_memory",
                                "--training.dataloader.persistent_workers", "--training.dataloader.prefetch_factor 4"]], ranks=2),
    Case("deepseek_v3_fsdp+ep+compile", [["--model.name deepseek_v3", SHARD + "4", EP + "2", COMPILE]],
         refused=["model.name"], reason="mixture of experts is not built"),
    Case("pp_dualpipev", [["--model.name deepseek_v3", PP + "2", EP + "2", SCHEDULE + "DualPipeV", "--activation_checkpoint.mode none"]],
         refused=["model.name"], reason="mixture of experts is not built"),
    Case("deepseek_v3_pp+fsdp+tp+ep",
         [["--model.name deepseek_v3", *THREE_AXES, SCHEDULE + "Interleaved1F1B", EP + "4", ETP + "1"]], ranks=8,
         refused=["model.name"], reason="mixture of experts is not built"),
    Case("deepseek_v3_pp+fsdp+tp+ep+etp",
         [["--model.name deepseek_v3", *THREE_AXES, SCHEDULE + "Interleaved1F1B", EP + "2", ETP + "2"]], ranks=8,
         refused=["model.name"], reason="mixture of experts is not built"),
    Case("deepseek_v3_flex+pp+fsdp+ep+sacop",
         [["--model.name deepseek_v3", "--model.flavor debugmodel_flex_attn", SHARD + "4", PP + "2", SCHEDULE + "Interleaved1F1B",
           EP + "4", *SAC_OP]], ranks=8, refused=["model.name"], reason="mixture of experts is not built"),
    Case("qwen3_fsdp+tp", [["--model.name qwen3", SHARD + "2", TP + "2"]]),
    Case("qwen3_fsdp+tp+ep+etp", [["--model.name qwen3", "--model.flavor debugmodel_moe", SHARD + "2", TP + "2", EP + "2", ETP + "2"]],
         refused=["model.flavor"], reason="mixture of experts is not built"),
    Case("llama4_pp+fsdp+tp+ep+compile",
         [["--model.name llama4", *THREE_AXES, SCHEDULE + "Interleaved1F1B", EP + "4", ETP + "1", COMPILE]], ranks=8,
         refused=["model.name"], reason="mixture of experts is not built"),
    Case("gpt_oss_fsdp+tp+ep+compile", [["--model.name gpt_oss", SHARD + "4", TP + "2", EP + "4", ETP + "1", COMPILE]], ranks=8,
         refused=["model.name"], reason="mixture of experts is not built"),
]
SUBSET = ["full_checkpoint", "pp_zbv", "pp_custom_csv", "hsdp", "cp_allgather", "optional_checkpoint", "qwen3_fsdp+tp",
          "float8_emulation"]


class Failed(Exception):
    pass


def need(held, what, output=""):
    if not held:
        raise Failed(what + ("\n" + output[-3000:] if output else ""))


def step_losses(dump):
    rows = [json.loads(line) for line in (dump / "metrics.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows if "loss" in row]


def train(case, words, dump, titan):
    words = " ".join([f"--job.dump_folder {dump}", *BASE, *words]).replace("{dump}", str(dump)).split()
    environment = dict(os.environ, OMP_NUM_THREADS="1", NGPU=str(case.ranks), LOG_RANK="all", TITAN=str(titan),
                       CONFIG_FILE=str(ROOT / "tests" / "runs" / "base_config.toml"))
    try:
        done = subprocess.run(["./run_train.sh", *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"not done after {TIMEOUT_S} s: {' '.join(words)}\n{(late.stdout or b'')[-3000:]}") from late
    return done.returncode, done.stdout


def check_trained(case, number, words, dump, seen, code, output):
    need(code == 0, f"exit code {code}", output)
    steps = next((int(word.split()[1]) for word in words if word.startswith("--training.steps ")), 10)
    first = case.resumes_at if number == 1 and case.resumes_at else 1
    rows = step_losses(dump)[seen if first > 1 else 0:]  # a run that starts anew writes a file of its own
    need([step for step, _ in rows] == list(range(first, steps + 1)),
         f"steps {[step for step, _ in rows]} instead of {first} to {steps}", output)
    need(all(math.isfinite(loss) for _, loss in rows), f"losses {rows}", output)
    need(any(f"step: {steps}" in line and f"loss:" in line for line in output.splitlines()), "no line of the last step", output)
    for key in case.accepted:
        need(any("WARNING" in line and key in line for line in output.splitlines()), f"no warning names {key}", output)
    return rows[-1][1], len(rows)


def run_case(case, root, titan):
    dump = root / case.name
    seen, losses = 0, []
    for number, words in enumerate(case.runs):
        if not case.resumes_at:
            seen = 0  # a run that starts anew sets the metrics of the one before aside
        code, output = train(case, words, dump, titan)
        if case.refused:
            need(code == 2, f"exit code {code} instead of 2", output)
            need("not built yet" in output, "no refusal", output)
            for key in case.refused:
                need(f"{key} = " in output, f"the refusal does not name {key}", output)
            need(not (dump / "metrics.jsonl").exists(), "a refused run wrote metrics")
            continue
        loss, rows = check_trained(case, number, words, dump, seen, code, output)
        seen += rows
        losses.append(f"{loss:.4f}")
    for pattern in case.files:
        need(any(dump.glob(pattern)), f"nothing matches {pattern} in {dump}")
    if case.generate:
        done = subprocess.run([titan, "generate", "--checkpoint", dump / "checkpoint" / "step-10", "--tokenizer",
                               ROOT / "tests" / "assets" / "tokenizer", "--prompt", "What is the meaning of life?",
                               "--max_new_tokens", "8", "--device", "cpu", "--json"], capture_output=True, text=True)
        need(done.returncode == 0 and json.loads(done.stdout)["ids"], f"titan generate: exit code {done.returncode}",
             done.stderr)
    return "refused" if case.refused else "passed", f"loss {', '.join(losses)}" if losses else case.reason


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("titan", type=pathlib.Path)
    parser.add_argument("--subset", action="store_true", help="the cases of the default test run")
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--keep", type=pathlib.Path, help="dump folders stay below this one")
    arguments = parser.parse_args()
    names = SUBSET if arguments.subset else [name for name in arguments.only.split(",") if name]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"integration_test: no such case: {', '.join(sorted(unknown))}")
    root = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="titan_integration_"))
    failed, begin = [], time.monotonic()
    for case in [case for case in CASES if not names or case.name in names]:
        start = time.monotonic()
        try:
            state, note = run_case(case, root.resolve(), arguments.titan.resolve())
        except Failed as error:
            failed.append(case.name)
            state, note = "FAILED", str(error)
        print(f"{state:8} {case.name:36} {time.monotonic() - start:6.1f} s  {note}", flush=True)
    if not arguments.keep:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{len(failed)} failed, {time.monotonic() - begin:.0f} s" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

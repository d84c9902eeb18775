#!/usr/bin/env python3
"""titan train on device npu: every layout equals one process on the CPU, in loss and gradient norm.

    runs_test.py PATH_OF_TITAN [unittest arguments]

Runs on the real torch_npu over the emulated CANN that LD_LIBRARY_PATH names.
"""
import json
import os
import subprocess
import unittest
import unittest.mock

from emulated import CHECKPOINT, NPU, NpuJobs, ONE, TITAN, TOLERANCE, environment, gap, layout, stats

QWEN3 = {"model.name": "qwen3", "model.args.head_dim": 6, "model.args.tied": True}
RECOMPUTED = {"activation_checkpoint.mode": "full"}
PIPELINE = {"training.local_batch_size": 4, "parallelism.pipeline_parallel_schedule": "1F1B"}


class Runs(NpuJobs):
    def equal(self, mesh, keys=None, own=None):
        one, other = self.reference(keys), self.npu(mesh, {**(keys or {}), **(own or {})})
        self.assert_equal_runs(one, other, f"of {mesh} {own}")

    def test_fsdp_with_recomputation(self):
        # First of all: the engine's hooks must be titan's after torch_npu is loaded.
        self.equal(layout(shard=2), {}, RECOMPUTED)

    def test_one_process(self):
        self.equal(ONE)

    def test_one_process_on_a_950(self):
        with unittest.mock.patch.dict(os.environ, CANNEMU_SOC="Ascend950PR_9579"):
            self.equal(ONE)

    def test_one_process_qwen3_selective(self):
        self.equal(ONE, QWEN3, {"activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "op"})

    def test_tensor_parallel(self):
        self.equal(layout(tp=2))

    def test_pipeline(self):
        self.equal(layout(pp=2), {}, PIPELINE)

    def test_context_parallel(self):
        for method in ("allgather", "alltoall", "ulysses"):
            self.equal(layout(cp=2), {}, {"parallelism.context_parallel_rotate_method": method})

    def test_hsdp_of_four(self):
        self.equal(layout(replicate=2, shard=2), QWEN3, RECOMPUTED)

    def test_tp_and_pp_of_four(self):
        self.equal(layout(tp=2, pp=2), {}, PIPELINE)

    def test_another_seed_is_noticed(self):
        other = self.npu(ONE, {"debug.seed": 8})
        self.assertGreater(gap(self.series(self.reference()), self.series(other)), TOLERANCE)

    def test_deterministic_runs_are_equal(self):
        keys = {"debug.deterministic": True}
        one, other = self.npu(layout(shard=2), keys), self.npu(layout(shard=2), keys)
        for key in ("loss", "grad_norm"):
            self.assertEqual(self.series(one, key), self.series(other, key))


def waits(calls):
    """How often the host waited for the device."""
    names = ("aclrtSynchronize", "aclrtMemcpy")
    return sum(count for name, count in calls.items() if name.startswith(names) and name != "aclrtMemcpyAsync")


class Counters(NpuJobs):
    """What a step without metrics asks of the device, by the emulator's counts: longer runs less shorter ones."""

    def calls(self, mesh, steps, keys):
        pattern = self.root / f"{self.id()}.{steps}.%r.json"
        done = subprocess.run(
            self.job_words(self.folder(), mesh, {"training.steps": steps, "lr_scheduler.total_steps": 100,
                                                 "metrics.log_freq": 100, "training.global_batch_size": None,
                                                 **(keys or {}), **NPU}),
            capture_output=True, text=True, timeout=120, env=environment(CANNEMU_STATS=pattern))
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return [stats(str(pattern).replace("%r", str(rank))) for rank in range(mesh[0])]

    def per_step(self, mesh, keys=None, extra=4):
        few, many = self.calls(mesh, 3, keys), self.calls(mesh, 3 + extra, keys)
        return [{name: (b[name] - a.get(name, 0)) / extra for name in b} for a, b in zip(few, many)]

    def assert_no_wait(self, mesh, keys=None):
        for step in self.per_step(mesh, keys):
            self.assertEqual(waits(step), 0, step)
            # An operator that falls back to the CPU copies its inputs there. Two: the ids and the labels of the batch.
            self.assertEqual(step["aclrtMemcpyAsync"], 2, step)
            self.assertGreater(step["aclnnMm"], 0)

    def test_one_process_never_waits(self):
        for keys in ({}, {**QWEN3, **RECOMPUTED}, {"training.mixed_precision_param": "bfloat16"}):
            self.assert_no_wait(ONE, keys)

    def test_two_processes_never_wait(self):
        self.assert_no_wait(layout(shard=2), RECOMPUTED)
        self.assert_no_wait(layout(tp=2))

    def test_a_wait_is_noticed(self):
        # Logged steps read their loss.
        for step in self.per_step(ONE, {"metrics.log_freq": 1}):
            self.assertGreater(waits(step), 0)

    def test_fused_operators_run(self):
        (step,) = self.per_step(ONE)
        layers = 4
        expected = {"aclnnRmsNorm": 2 * layers + 1, "aclnnRmsNormGrad": 2 * layers + 1, "aclnnSwiGlu": layers,
                    "aclnnSwiGluGrad": layers, "aclnnFlashAttentionScoreV2": layers, "aclnnFlashAttentionScoreGradV2": layers,
                    "aclnnRotaryPositionEmbeddingV2": 2 * layers, "aclnnCrossEntropyLoss": 1, "aclnnCrossEntropyLossGrad": 1,
                    "aclnnApplyAdamWV2": 9 * layers + 3}
        self.assertEqual({name: step.get(name) for name in expected}, expected)


class Profiling(NpuJobs):
    """[profiling] on an NPU: libtorch's trace, and beside it what CANN's profiler has written."""

    KEYS = {"profiling.enable_profiling": True, "profiling.profile_freq": 4, "profiling.profiler_active": 2,
            "profiling.profiler_warmup": 1, "training.steps": 8, "lr_scheduler.total_steps": 8}

    def test_ranges_of_the_step_reach_the_profiler_of_the_device(self):
        folder = self.npu(layout(shard=2), {**self.KEYS, **RECOMPUTED})
        for step in (4, 8):
            for rank in (0, 1):
                place = folder / f"profile_traces/iteration_{step}"
                trace = json.loads((place / f"rank{rank}_trace.json").read_text())
                self.assertEqual(sum(event.get("name") == "forward" for event in trace["traceEvents"]), 4)
                (session,) = (place / f"rank{rank}_trace").iterdir()
                recorded = json.loads((session / "emulated_ranges.json").read_text())
                names = [row["name"] for row in recorded["ranges"]]
                # Two steps of two micro-batches.
                for name, count in {"data": 2, "forward": 4, "backward": 4, "gradient reduction": 2, "optimizer": 2}.items():
                    self.assertEqual(names.count(name), count, f"{name} in {names}")
                self.assertTrue(all(row["begin_ms"] <= row["end_ms"] for row in recorded["ranges"]))
                self.assertEqual(recorded["unfinished"], 0)
        self.assertFalse(list((folder / "profile_traces").glob("*_under_way")))

    def test_without_profiling_nothing_is_asked_of_it(self):
        pattern = self.root / "unprofiled.%r.json"
        with unittest.mock.patch.dict(os.environ, CANNEMU_STATS=str(pattern)):
            self.npu(ONE)
        self.assertFalse([name for name in stats(str(pattern).replace("%r", "0")) if name.startswith("aclprofRange")])

    def test_training_is_the_same(self):
        self.assert_equal_runs(self.npu(ONE, {"training.steps": 8, "lr_scheduler.total_steps": 8}), self.npu(ONE, self.KEYS))


class Resume(NpuJobs):
    def test_across_devices(self):
        keys = {**CHECKPOINT, "lr_scheduler.total_steps": 10}
        whole = self.reference({"training.steps": 10, "lr_scheduler.total_steps": 10})
        for first, second in ((NPU, {}), ({}, NPU)):
            folder = self.train(layout(shard=2), {**keys, **first})
            self.train(ONE, {**keys, **second, "training.steps": 10, "training.local_batch_size": 8}, folder)
            self.assert_equal_runs(whole, folder, f"from {first} to {second}")


class Generate(NpuJobs):
    def test_equals_the_cpus(self):
        folder = self.npu(ONE, CHECKPOINT)

        def text(device):
            done = subprocess.run([TITAN, "generate", "--checkpoint", folder, "--prompt", "abc", "--max-new-tokens", "12", "--temperature", "0",
                                   "--device", device], capture_output=True, text=True, timeout=120, env=environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        self.assertEqual(text("npu"), text("cpu"))


class EmulateCann(NpuJobs):
    def run_titan(self, *words):
        plain = {k: v for k, v in environment().items() if k != "LD_LIBRARY_PATH"}
        return subprocess.run([TITAN, "emulate-cann", *words], capture_output=True, text=True, timeout=120, env=plain)

    def test_doctor_finds_the_emulated_device_beside_other_modules(self):
        done = self.run_titan("doctor", "--device", "npu", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        npu = next(device for device in json.loads(done.stdout)["devices"] if device["name"] == "npu")
        self.assertEqual(npu["health"], "good")
        self.assertIn("910B2", npu["device_name"])

    def test_runs_any_command_and_hands_its_exit_code_on(self):
        self.assertEqual(self.run_titan("--", "sh", "-c", "exit 7").returncode, 7)
        refused = self.run_titan("no_such_program")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("no_such_program", refused.stderr)
        self.assertEqual(self.run_titan().returncode, 2)


if __name__ == "__main__":
    unittest.main()

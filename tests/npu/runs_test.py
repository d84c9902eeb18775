#!/usr/bin/env python3
"""titan train on device npu: every layout equals one process on the CPU, in loss and gradient norm.

    runs_test.py PATH_OF_TITAN [unittest arguments]

Runs on the real torch_npu over the emulated CANN that LD_LIBRARY_PATH names.
"""
import os
import subprocess
import unittest

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

    def test_one_process_qwen3_selective(self):
        self.equal(ONE, QWEN3, {"activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "op"})

    def test_tensor_parallel(self):
        self.equal(layout(tp=2))

    def test_pipeline(self):
        self.equal(layout(pp=2), {}, PIPELINE)

    def test_context_parallel(self):
        for method in ("allgather", "alltoall"):
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
            done = subprocess.run([TITAN, "generate", folder, "--prompt", "abc", "--max-new-tokens", "12", "--temperature", "0",
                                   "--device", device], capture_output=True, text=True, timeout=120, env=environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        self.assertEqual(text("npu"), text("cpu"))


if __name__ == "__main__":
    unittest.main()

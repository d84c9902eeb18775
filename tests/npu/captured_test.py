#!/usr/bin/env python3
"""titan train with compile.enable on device npu: the step as a graph, recorded once and replayed.

    captured_test.py PATH_OF_TITAN [unittest arguments]

Runs on the real torch_npu over the emulated CANN that LD_LIBRARY_PATH names.
"""
import re
import subprocess
import unittest

from captured import CAPTURED, CHECKPOINT, COMPILE, CapturedJobs, LONG, WARM_UP
from emulated import NPU, NpuJobs, ONE, TITAN, environment, layout, stats


def waits(calls):
    """How often the host waited for the device."""
    names = ("aclrtSynchronize", "aclrtMemcpy")
    return sum(count for name, count in calls.items() if name.startswith(names) and name != "aclrtMemcpyAsync")


class Captured(CapturedJobs):
    def equal(self, mesh=ONE, keys=None, **variables):
        captured, eager, text = self.pair(mesh, keys, **variables)
        self.assertEqual(CAPTURED.findall(text), [str(WARM_UP + 1)], text)
        self.assert_same(captured, eager)
        losses = self.series(captured)
        self.assertEqual(len(losses), 9)
        self.assertEqual(len(set(losses)), 9)  # every replay trains, on its own batch
        return captured

    def test_accumulation(self):
        # Eight samples a step, two a micro-batch: four of them; then two.
        captured = self.equal()
        self.assert_equal_runs(self.npu(ONE, {**LONG, "compile.enable": None}), captured, "with the fused optimizer")
        self.equal(keys={"training.global_batch_size": 4})

    def test_recomputation(self):
        self.equal(keys={"activation_checkpoint.mode": "full"})
        self.equal(keys={"activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "op"})

    def test_fsdp_of_two(self):
        # Every task sleeps first: a wait that is missing, in a step or before the first one, gives other numbers.
        self.equal(layout(shard=2), {"activation_checkpoint.mode": "full"}, CANNEMU_JITTER_US=200)

    def test_tensor_parallel(self):
        self.equal(layout(tp=2))

    def test_validation_between_steps(self):
        keys = {"validation.enable": True, "validation.dataset": "local", "validation.dataset_path": self.root / "val.txt",
                "validation.freq": 3, "validation.steps": 2, "validation.local_batch_size": 2, "validation.seq_len": 24}
        captured, eager, _ = self.pair(keys=keys)
        self.assert_same(captured, eager)
        self.assertEqual(self.series(captured, "val_loss"), self.series(eager, "val_loss"))
        self.assertGreater(len(self.series(captured, "val_loss")), 2)

    def test_resume(self):
        whole = self.folder()
        self.output(whole, keys={**LONG, "training.steps": 12})
        parts = self.folder()
        for steps in (6, 12):
            text = self.output(parts, keys={**LONG, **CHECKPOINT, "checkpoint.interval": 6, "training.steps": steps})
            self.assertEqual(len(CAPTURED.findall(text)), 1)
        self.assert_same(whole, parts)

    def test_fallback_has_a_reason(self):
        for keys, reason in (({"training.local_batch_size": 4, "parallelism.pipeline_parallel_schedule": "1F1B"}, "pipeline"),):
            text = self.output(self.folder(), layout(pp=2), {**COMPILE, **keys})
            self.assertEqual(text.count("the step runs uncaptured"), 1, text)
            self.assertIn(reason, text)
        text = self.output(self.folder(), ONE, {**COMPILE, "training.enable_cpu_offload": True})
        self.assertIn("training.enable_cpu_offload", text)

    def test_require_stops(self):
        done = subprocess.run(self.job_words(self.folder(), ONE, {**COMPILE, "compile.require": True, "device.name": "cpu"}),
                              capture_output=True, text=True, timeout=120, env=environment())
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("a cpu has no graphs", done.stderr)

    def test_the_cpu_falls_back(self):
        plain = self.train(ONE, {"training.steps": 5})
        folder = self.folder()
        done = self.run_job(folder, ONE, COMPILE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((done.stdout + done.stderr).count("the step runs uncaptured"), 1)
        self.assert_same(plain, folder)


class Counters(NpuJobs):
    """What a replayed step asks of the device, by the emulator's counts: longer runs less shorter ones."""

    def calls(self, steps, keys):
        file = self.root / f"{self.id()}.{self.folder().name}.json"
        done = subprocess.run(
            self.job_words(self.folder(), ONE, {"training.steps": steps, "lr_scheduler.total_steps": 100,
                                                "metrics.log_freq": 100, "training.global_batch_size": 4,
                                                **keys, **NPU}),
            capture_output=True, text=True, timeout=120, env=environment(CANNEMU_STATS=file))
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return stats(file)

    def per_step(self, keys, extra=4):
        few, many = self.calls(WARM_UP + 2, keys), self.calls(WARM_UP + 2 + extra, keys)
        return {name: (many[name] - few.get(name, 0)) / extra for name in many
                if many[name] != few.get(name, 0)
                and name not in ("aclrtQueryEventStatus", "aclrtMallocHost", "aclrtFreeHost", "aclrtCreateEventExWithFlag")}  # as busy as the host is

    def test_a_replayed_step_is_as_many_calls_whatever_the_depth(self):
        shallow, deep = (self.per_step({**COMPILE, "model.args.n_layers": layers}) for layers in (2, 6))
        print("calls per replayed step:", sum(shallow.values()), shallow)
        self.assertEqual(shallow, deep)
        self.assertEqual(shallow["aclmdlRIExecuteAsync"], 1)
        self.assertEqual(waits(shallow), 0)
        self.assertNotIn("aclnnMm", shallow)
        plain = [self.per_step({"model.args.n_layers": layers}) for layers in (2, 6)]
        print("calls per step without capture, 2 and 6 layers:", *(sum(calls.values()) for calls in plain))
        self.assertGreater(sum(plain[1].values()), sum(plain[0].values()))
        self.assertGreater(sum(plain[0].values()), sum(shallow.values()))

    def launches(self, calls):
        return sum(count for name, count in calls.items()
                   if name.startswith("aclnn") and not name.startswith(("aclnnApplyAdam", "aclnnForeach")))

    def test_a_layer_takes_at_most_half_the_launches_of_unfused_operators(self):
        # One micro-batch a step; what a layer adds to a step, without the optimizer.
        shallow, deep = (self.per_step({"training.global_batch_size": 2, "model.args.n_layers": layers})
                         for layers in (2, 6))
        fused = (self.launches(deep) - self.launches(shallow)) / 4

        def unfused(times):
            done = subprocess.run([TITAN.parent / "npu_test", "--gtest_filter=NpuLayer.Unfused", f"--gtest_repeat={times}"],
                                  capture_output=True, text=True, timeout=120, env=environment(CANNEMU_TRACE=1))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return len(re.findall(r"^\[cannemu\] aclnn(?!\w*GetWorkspaceSize)", done.stderr, re.MULTILINE))

        reference = (unfused(3) - unfused(1)) / 2
        print(f"launches per layer and step: {fused} fused, {reference} unfused")
        self.assertGreater(fused, 10)
        self.assertLessEqual(2 * fused, reference)


if __name__ == "__main__":
    assert TITAN
    unittest.main()

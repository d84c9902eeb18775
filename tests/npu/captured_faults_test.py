#!/usr/bin/env python3
"""Captured steps when something goes wrong, ends or overflows: never other than the same run without capture.

    captured_faults_test.py PATH_OF_TITAN [unittest arguments]

What fails is ordered from the emulated CANN (CANNEMU_FAULT, emulator/README.md).
"""
import json
import re
import signal
import unittest

from captured import CAPTURED, CHECKPOINT, CapturedJobs, LONG, WARM_UP
from emulated import NPU, ONE, layout

SMALL = {**LONG, "model.args.n_layers": 2, "training.global_batch_size": 4}
UNCAPTURED = re.compile(r"The step runs uncaptured: it could not be recorded: (.*)")
REFUSED = "capture-refuse:{}@{}"
# In the forward pass, in its middle, in the backward pass, in the update, and of the graph as a whole.
FAULTS = {"capture-begin@1": "capture", REFUSED.format("aclnnRmsNorm", 1): "aclnnRmsNorm",
          REFUSED.format("aclnnSwiGluGrad", 1): "aclnnSwiGluGrad",
          REFUSED.format("aclnnForeachSqrt", 1): "aclnnForeachSqrt", "capture-oom@1": "memory"}


def order(fault):
    return {"CANNEMU_FAULT": fault}


class Recording(CapturedJobs):
    """A step that cannot be recorded."""

    def memory(self, folder):
        """Reserved at most in each logged step."""
        return self.series(folder, "memory_gib")

    def assert_trained_on(self, folder, text, eager, reason):
        self.assertEqual(CAPTURED.findall(text), [])
        said = UNCAPTURED.findall(text)
        self.assertEqual(len(said), 1, text)
        self.assertIn(reason, said[0])
        self.assert_same(folder, eager)
        self.assertEqual(self.saved(folder, 9), self.saved(eager, 9))

    def test_training_goes_on_without_a_trace_of_it(self):
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": 9}
        eager = self.eager(keys=keys)
        for fault, reason in FAULTS.items():
            with self.subTest(fault):
                folder = self.folder()
                self.assert_trained_on(folder, self.output(folder, ONE, keys, **order(fault)), eager, reason)

    def test_a_task_queue_that_is_lost_with_it_ends_the_run(self):
        # In torch_npu's own thread an error leaves a queue that drops what it is given.
        done = self.job(self.folder(), ONE, {**SMALL, "npu.task_queue": 1}, **order(REFUSED.format("aclnnSwiGluGrad", 1)))
        self.assertEqual(done.returncode, 3, done.stdout[-2000:] + done.stderr[-3000:])
        self.assertRegex(done.stderr, r"titan: \[compile\] the step could not be recorded: .*aclnnSwiGluGrad.*npu.task_queue")

    def test_no_rank_captures_when_one_cannot(self):
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": 9, "activation_checkpoint.mode": "full", "comm.report": True}
        for mesh in (layout(shard=2), layout(tp=2)):
            eager = self.eager(mesh, keys)
            for fault in (REFUSED.format("aclnnSwiGluGrad", 2),):
                for rank, reason in ((0, fault.split(":")[1].split("@")[0]), (1, "another rank could not")):
                    with self.subTest(fault, rank=rank, mesh=mesh):
                        folder = self.folder()
                        text = self.output(folder, mesh, keys, **order(f"{fault}/rank{rank}"))
                        self.assert_trained_on(folder, text, eager, reason)

    def test_require_stops_before_anything_of_the_step_is_done(self):
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": WARM_UP, "compile.require": True}
        for mesh in (ONE, layout(shard=2)):
            whole = self.eager(mesh, {**keys, "compile.require": None, "checkpoint.interval": 9})
            folder = self.folder()
            done = self.job(folder, mesh, keys, **order(REFUSED.format("aclnnSwiGluGrad", 1)))
            self.assertEqual(done.returncode, 3, done.stdout[-2000:] + done.stderr[-3000:])
            told = [line for line in done.stderr.splitlines() if "titan: " in line and "[compile]" in line]
            self.assertTrue(told, done.stderr)
            for line in told:
                self.assertRegex(line, r"\[compile\] the step could not be recorded: .*aclnnSwiGluGrad.* unset compile.require")
            self.assertEqual(self.series(folder), self.series(whole)[:WARM_UP])
            self.assertEqual(self.saved_steps(folder), [WARM_UP])
            # What was saved before it goes on, captured, to the same end.
            text = self.output(folder, mesh, {**keys, "checkpoint.interval": 9})
            self.assertEqual(CAPTURED.findall(text), [str(2 * WARM_UP + 1)])
            self.assert_same(folder, whole)
            self.assertEqual(self.saved(folder, 9), self.saved(whole, 9))

    def test_the_log_says_what_was_captured(self):
        text = self.output(self.folder(), layout(shard=2), SMALL)
        line = next(line for line in text.splitlines() if CAPTURED.search(line))
        found = re.search(r"captured: (\d+) micro-batches of (\d+) tokens, (\d+) collectives, ([\d.]+) s, ([\d.]+ \w+) of memory "
                          r"for its pool; a replay is one launch and (\d+) copies of batches", line)
        self.assertTrue(found, line)
        self.assertEqual(found.group(1, 2, 6), ("1", "48", "2"))
        self.assertGreater(int(found[3]), 4)
        self.assertNotEqual(found[5], "0 B")

    def test_memory_of_a_graph_counts_and_that_of_a_failed_one_is_given_back(self):
        keys = {**LONG, "training.seq_len": 128, "model.args.dim": 64, "model.args.hidden_dim": 256}
        for segments in (True, False):
            keys["npu.expandable_segments"] = segments
            eager, captured = self.eager(keys=keys), self.folder()
            self.output(captured, keys=keys)
            self.assert_same(captured, eager)
            theirs, ours = (max(self.memory(folder)[WARM_UP + 1:]) for folder in (eager, captured))
            failed = []
            for fault in (REFUSED.format("aclnnForeachSqrt", 1), "capture-oom@2"):
                folder = self.folder()
                self.assertEqual(len(UNCAPTURED.findall(self.output(folder, keys=keys, **order(fault)))), 1)
                self.assert_same(folder, eager)
                failed.append(max(self.memory(folder)[WARM_UP + 1:]))
            print(f"reserved GiB, expandable={segments}: uncaptured {theirs}, captured {ours}, after a recording that failed {failed}")
            self.assertLessEqual(ours, 1.1 * theirs)
            self.assertGreater(ours, 0.5 * theirs)
            self.assertLessEqual(max(failed), 1.05 * theirs)


class Replaying(CapturedJobs):
    """What happens between and within replays."""

    def test_a_failing_kernel_ends_the_run_as_it_does_without_capture(self):
        # One run of it for each of 2 layers in a micro-batch: in step 6, which is a replay.
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": 5}
        folder = self.folder()
        done = self.job(folder, ONE, keys, **order("kernel:aclnnSwiGluGrad@23"))
        self.assertEqual(len(CAPTURED.findall(done.stdout + done.stderr)), 1)
        self.assertEqual(done.returncode, 3, done.stdout[-2000:] + done.stderr[-3000:])
        self.assertIn("507015", done.stderr)
        self.assertEqual(done.stderr.count("titan: "), 1, done.stderr)
        self.assertEqual(self.saved_steps(folder), [5])
        whole = self.eager(keys=keys)
        self.output(folder, keys=keys)
        self.assert_same(folder, whole)

    def test_the_data_ends(self):
        (self.root / "short.txt").write_text((self.root / "train.txt").read_text()[:3000])
        keys = {"training.dataset_path": self.root / "short.txt", "training.num_epochs": 1, "training.steps": 1000,
                **CHECKPOINT, "checkpoint.interval": 1000}
        for mesh in (ONE, layout(shard=2)):
            captured, eager, text = self.pair(mesh, keys)
            self.assertEqual(CAPTURED.findall(text), [str(WARM_UP + 1)])
            ended = re.search(r"The training set ended after (\d+) steps", text)
            self.assertTrue(ended, text)
            last = int(ended[1])
            self.assertGreater(last, WARM_UP + 2)
            self.assert_same(captured, eager)
            self.assertEqual(self.series(captured, "tokens_seen"), self.series(eager, "tokens_seen"))
            tokens = [b - a for a, b in zip(self.series(captured, "tokens_seen"), self.series(captured, "tokens_seen")[1:])]
            self.assertLess(tokens[-1], tokens[0])  # the last step is a smaller one
            self.assertEqual(self.saved(captured, last), self.saved(eager, last))

    def test_sigterm_in_a_replay_and_a_resume_are_as_if_nothing_had_been(self):
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": 1000, "lr_scheduler.total_steps": 2000, "training.steps": 100000}
        for mesh in (ONE, layout(shard=2)):
            folder = self.folder()
            job = self.start(self.job_words(folder, mesh, {**keys, **NPU}))
            self.await_step(folder, WARM_UP + 4, job)
            job.send_signal(signal.SIGTERM)
            out, err = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 143, out[-1500:] + err[-3000:])
            self.assertEqual(len(CAPTURED.findall(out + err)), 1)
            [stopped] = self.saved_steps(folder)
            self.assertEqual(stopped, len(self.series(folder)))
            steps = {**keys, "training.steps": stopped + 6}
            self.assertEqual(len(CAPTURED.findall(self.output(folder, mesh, steps))), 1)
            whole = self.folder()
            self.output(whole, mesh, steps)
            self.assert_same(folder, whole)
            self.assertEqual(self.saved(folder, stopped + 6), self.saved(whole, stopped + 6))

    def small_state(self, folder, step):
        state = json.loads((folder / "checkpoint" / f"step-{step}" / "index.json").read_text())["state"]
        return {key: state[key] for key in ("step", "tokens_seen", "loss_scale", "loss_scale_good_steps", "rng_cpu")}

    def test_a_loss_scale_falls_under_replay(self):
        # Steps of float16 that overflow as the rate rises: skipped, each with half the scale of the one before.
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": 4, "training.steps": 14, "training.mixed_precision_param": "float16",
                "training.dtype": "float32", "optimizer.lr": 40.0, "lr_scheduler.warmup_steps": 8}
        captured, eager, text = self.pair(keys=keys)
        self.assertEqual(CAPTURED.findall(text), [str(WARM_UP + 1)])
        self.assertEqual([str(x) for x in self.series(captured, "grad_norm")], [str(x) for x in self.series(eager, "grad_norm")])
        self.assertEqual(self.series(captured), self.series(eager))
        for step in self.saved_steps(eager):
            self.assertEqual(self.small_state(captured, step), self.small_state(eager, step))
            self.assertEqual(self.saved(captured, step), self.saved(eager, step))
        scales = [self.small_state(captured, step)["loss_scale"] for step in self.saved_steps(captured)]
        print("loss scales:", scales)
        self.assertLess(scales[-1], scales[0])

    def test_divergence_is_refused_at_the_same_step(self):
        # Not finite from step 2 on, looked at in step 6: the steps between are recorded and replayed with it.
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": 1000, "training.steps": 30, "optimizer.lr": 1e30, "metrics.log_freq": 6}
        told = []
        for variables in ({}, {"TASK_QUEUE_ENABLE": 2}):
            folder = self.folder()
            done = self.job(folder, ONE, keys, **variables)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            [line] = [line for line in done.stderr.splitlines() if line.startswith("titan: ")]
            self.assertRegex(line, r"\[train\] the (loss|gradient norm) is \S*(nan|inf) at step 6")
            self.assertFalse((folder / "checkpoint").exists() and self.saved_steps(folder))
            told.append((done.returncode, line))
            self.assertEqual(bool(CAPTURED.search(done.stdout + done.stderr)), not variables)
        self.assertEqual(*told)

    def test_a_resumed_run_equals_one_that_never_stopped_to_the_bit(self):
        keys = {**SMALL, **CHECKPOINT, "checkpoint.interval": 6}
        whole = self.eager(keys={**keys, "training.steps": 12})
        parts = self.folder()
        for steps in (6, 12):
            text = self.output(parts, keys={**keys, "training.steps": steps})
            self.assertEqual(len(CAPTURED.findall(text)), 1)
        self.assert_same(whole, parts)
        for step in (6, 12):
            self.assertEqual(self.saved(whole, step), self.saved(parts, step))
            self.assertEqual(self.small_state(whole, step), self.small_state(parts, step))



if __name__ == "__main__":
    unittest.main()

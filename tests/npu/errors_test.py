#!/usr/bin/env python3
"""Every way a run on an NPU can end: well, by a signal, by a fault of the device or of another rank. Never a hang or a crash.

    errors_test.py PATH_OF_TITAN [unittest arguments]
"""
import os
import signal
import subprocess
import time
import unittest

from emulated import NPU, NpuJobs, ONE, TITAN, environment, free_port, layout


class Errors(NpuJobs):
    def run_with(self, mesh, keys=None, timeout=90, **variables):
        return subprocess.run(self.job_words(self.folder(), mesh, {**NPU, **(keys or {})}), capture_output=True, text=True,
                              timeout=timeout, env=environment(**variables))

    def assert_fails(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stdout[-1500:] + done.stderr[-3000:])
        for word in words:
            self.assertIn(word, done.stderr)

    def test_without_cann(self):
        done = self.run_with(ONE, LD_LIBRARY_PATH="")
        self.assert_fails(done, 3, "device 'npu' cannot be used", "set_env.sh")

    def test_no_such_device(self):
        self.assert_fails(self.run_with(ONE, LOCAL_RANK=9), 2, "npu:9 does not exist", "ASCEND_RT_VISIBLE_DEVICES")

    def test_no_device(self):
        self.assert_fails(self.run_with(ONE, CANNEMU_DEVICES=0), 3, "no Ascend NPU")

    def test_contradicting_settings(self):
        keys = {"npu.expandable_segments": True, "npu.max_split_size_mb": 128}
        self.assert_fails(self.run_with(ONE, keys), 2, "max_split_size_mb", "expandable")
        exported = "expandable_segments:True,garbage_collection_threshold:0.8"
        self.assert_fails(self.run_with(ONE, PYTORCH_NPU_ALLOC_CONF=exported), 2, "garbage_collection_threshold", "exported")

    def test_out_of_memory(self):
        done = self.run_with(ONE, {"training.seq_len": 512, "model.args.dim": 512, "model.args.n_layers": 8,
                                   "npu.expandable_segments": False}, CANNEMU_HBM_MB=64)
        self.assert_fails(done, 3, "[memory]", "local_batch_size")

    def test_memory_fraction(self):
        done = self.run_with(ONE, {"training.seq_len": 512, "model.args.dim": 512, "model.args.n_layers": 8,
                                   "npu.memory_fraction": 0.001})
        self.assert_fails(done, 3, "[memory]")

    def test_failing_kernel(self):
        done = self.run_with(ONE, CANNEMU_FAULT="kernel:aclnnMm@30")
        self.assertIn(done.returncode, (1, 3), done.stderr[-3000:])
        self.assertIn("507015", done.stderr)
        self.assertIn("AI core", done.stderr)

    def test_failing_collective(self):
        done = self.run_with(layout(shard=2), CANNEMU_FAULT="collective-fail@9/rank1")
        self.assertNotEqual(done.returncode, 0)
        self.assertGreater(done.returncode, 0, done.stderr[-3000:])

    def test_a_collective_that_never_ends_is_named_by_both_ranks_and_in_their_records(self):
        folder, port, begun = self.folder(), free_port(), time.monotonic()
        keys = {**layout(shard=2)[1], **NPU, "training.steps": 100000, "comm.train_timeout_seconds": 4}
        ranks = [self.start_rank(folder, rank, 2, port, keys, CANNEMU_FAULT="collective-stuck:HcclAllReduce@9/rank1")
                 for rank in range(2)]
        self.await_step(folder, 8, ranks[0])
        begun = time.monotonic()
        for number, rank in enumerate(ranks):
            _, errors = rank.communicate(timeout=40)
            self.assertEqual(rank.returncode, 3, errors)
            messages = [line for line in errors.splitlines() if line.startswith("titan: ")]
            self.assertEqual(len(messages), 1, errors)
            self.assertRegex(messages[0], rf"rank {number}, step 9, [a-z ]+: all-reduce over axis all \(2 ranks\) failed: "
                             r"number 8 of this axis, among ranks 0(,| and) 1, did not end within 4")
        self.assertLess(time.monotonic() - begun, 4 + 2 + 4)  # time for busy cores
        told = subprocess.run([TITAN, "comm-trace", folder / "comm_traces"], capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertRegex(told.stdout, r"(?m)^ +0 .* all +all-reduce +8 .*waited for since")
        self.assertRegex(told.stdout, r"(?m)^ +1 .* all +all-reduce +8 .*waited for since")
        self.assertIn("all have come to it", told.stdout)

    def test_a_rank_that_stands_still_is_missing_in_the_others_record(self):
        folder, port = self.folder(), free_port()
        keys = {**layout(shard=2)[1], **NPU, "training.steps": 100000, "comm.train_timeout_seconds": 4}
        ranks = [self.start_rank(folder, rank, 2, port, keys) for rank in range(2)]
        self.await_step(folder, 5, ranks[0])
        ranks[1].send_signal(signal.SIGSTOP)
        _, errors = ranks[0].communicate(timeout=40)
        self.assertEqual(ranks[0].returncode, 3, errors)
        self.assertEqual(errors.count("titan: "), 1, errors)
        self.assertRegex(errors, r"rank 0, step \d+, [a-z ]+: [a-z-]+ over axis [a-z_]+ \(2 ranks\) failed: ")
        told = subprocess.run([TITAN, "comm-trace", folder / "comm_traces"], capture_output=True, text=True)
        self.assertIn("rank 1 left no record", told.stdout)

    def test_lost_device(self):
        done = self.run_with(ONE, CANNEMU_FAULT="device-lost@400")
        self.assertIn(done.returncode, (1, 3), done.stderr[-3000:])
        self.assertIn("507901", done.stderr)

    def test_a_rank_that_is_killed_ends_the_job(self):
        folder = self.folder()
        job = self.start(self.job_words(folder, layout(shard=2), {**NPU, "training.steps": 100000}))
        self.await_step(folder, 2, job)
        pids = self.ranks_of(job)
        os.kill(pids[1], signal.SIGKILL)
        began = time.monotonic()
        job.communicate(timeout=60)
        self.assertGreater(job.returncode, 0)
        self.assertLess(time.monotonic() - began, 45)
        self.assert_gone(pids)

    def test_sigterm_ends_after_a_step(self):
        for mesh in (ONE, layout(shard=2)):
            folder = self.folder()
            job = self.start(self.job_words(folder, mesh, {**NPU, "training.steps": 100000}))
            self.await_step(folder, 2, job)
            job.send_signal(signal.SIGTERM)
            out, err = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 143, out[-1500:] + err[-3000:])


if __name__ == "__main__":
    unittest.main()

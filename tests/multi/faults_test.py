#!/usr/bin/env python3
"""What the ranks of a job say and do when one of them dies, hangs, never comes, or is not what it should be.

    faults_test.py PATH_OF_TITAN [unittest arguments]

The rule: every other rank ends within the timeout with one message and exit code 3, and nothing is left behind.
"""
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time
import unittest

from jobs import CHECKPOINT, TITAN, Jobs, free_port, layout

TP2 = layout(tp=2)
# As long as a fault needs to happen.
LONG = {"training.steps": 100000, "comm.train_timeout_seconds": 5, "comm.init_timeout_seconds": 20}
PIPELINE = {"training.local_batch_size": 4, "parallelism.pipeline_parallel_schedule": "1F1B"}


class Faults(Jobs):
    def start_ranks(self, folder, mesh, keys=None, port=None):
        world, degrees = mesh
        port = port or free_port()
        return [self.start_rank(folder, rank, world, port, {**degrees, **LONG, **(keys or {})}) for rank in range(world)]

    def ends(self, rank, code, within):
        """What the process says on its way out: its standard error."""
        begun = time.monotonic()
        _, errors = rank.communicate(timeout=within)
        self.assertLess(time.monotonic() - begun, within)
        self.assertEqual(rank.returncode, code, errors)
        return errors

    def one_message(self, errors, *parts):
        self.assertEqual(errors.count("titan: "), 1, errors)
        self.assertEqual(len(errors.strip().splitlines()), 1, errors)
        self.assertNotIn("frame #", errors)
        for part in parts:
            self.assertRegex(errors, part)

    def no_half_files(self, folder):
        names = [p.name for p in folder.rglob("*") if p.is_file()]
        self.assertEqual([n for n in names if ".partial" in n or n.endswith(".tmp")], [])

    # What every message about a collective holds.
    COLLECTIVE = (r"rank {rank}, step \d+, [a-z ]+: (all-reduce|all-gather|reduce-scatter|all-to-all|send|receive|broadcast) "
                  r"over axis [a-z_ ]+ \(\d+ ranks\) failed: ")

    # ---- ranks that go

    def test_a_killed_rank_is_noticed_by_every_other_one(self):
        for mesh, keys, victim in ((layout(shard=2, tp=2), {}, 3), (layout(pp=2, shard=2), PIPELINE, 1)):
            folder = self.folder()
            ranks = self.start_ranks(folder, mesh, keys)
            self.await_step(folder, 3, ranks[0])
            ranks[victim].kill()
            for number, rank in enumerate(ranks):
                if number == victim:
                    continue
                self.one_message(self.ends(rank, 3, 20), self.COLLECTIVE.format(rank=number))
            self.no_half_files(folder)

    def test_the_launcher_names_the_killed_rank_and_ends_the_others(self):
        folder = self.folder()
        job = self.start(self.job_words(folder, layout(shard=2, tp=2), {**CHECKPOINT, **LONG}))
        self.await_step(folder, 3, job)
        ranks = self.ranks_of(job)
        self.assertEqual(len(ranks), 4)
        os.kill(ranks[2], signal.SIGKILL)
        _, errors = job.communicate(timeout=15)
        self.assertEqual(job.returncode, 137, errors)
        self.assertIn("rank 2 failed first", errors)
        self.assert_gone(ranks)
        self.no_half_files(folder)

    def test_a_stopped_rank_is_a_timeout_of_the_others(self):
        folder = self.folder()
        ranks = self.start_ranks(folder, layout(shard=2, tp=2), {"comm.train_timeout_seconds": 2})
        self.await_step(folder, 3, ranks[0])
        # Else a rank that writes to one that has gone ends without a word, now and then.
        for rank in ranks:
            ignored = int(re.search(r"SigIgn:\s*([0-9a-f]+)", pathlib.Path(f"/proc/{rank.pid}/status").read_text())[1], 16)
            self.assertTrue(ignored >> (signal.SIGPIPE - 1) & 1, f"SIGPIPE of process {rank.pid}")
        ranks[1].send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        for number in (0, 2, 3):
            self.one_message(self.ends(ranks[number], 3, 20), self.COLLECTIVE.format(rank=number))
        self.assertGreater(time.monotonic() - begun, 1)
        # What they wrote tells who is missing, and what each waited for.
        told = subprocess.run([TITAN, "comm-trace", folder / "comm_traces"], capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("No record of rank 1", told.stdout)
        for number in (0, 2, 3):
            self.assertRegex(told.stdout, rf"(?m)^ +{number} +\d+ .*waited for since")
        # Once it goes on, it ends by itself too.
        ranks[1].send_signal(signal.SIGCONT)
        self.one_message(self.ends(ranks[1], 3, 20), self.COLLECTIVE.format(rank=1))

    # ---- ranks that never meet

    def test_a_taken_port(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            port = listener.getsockname()[1]
            ranks = self.start_ranks(self.folder(), TP2, {"comm.init_timeout_seconds": 3}, port)
            self.one_message(self.ends(ranks[0], 3, 20), "rank 0 cannot listen", f"127.0.0.1:{port}", "MASTER_PORT")
            # Something listens there, but not rank 0.
            self.one_message(self.ends(ranks[1], 3, 20), "rank 1", f"127.0.0.1:{port}")

    def test_a_missing_rank_is_named(self):
        port, folder = free_port(), self.folder()
        keys = {**layout(shard=2, tp=2)[1], "comm.init_timeout_seconds": 2}
        ranks = {number: self.start_rank(folder, number, 4, port, keys) for number in (0, 1, 3)}
        for number, rank in ranks.items():
            self.one_message(self.ends(rank, 3, 20), f"rank {number}: ", f"of 4 ranks at 127.0.0.1:{port}, 1 did not come",
                             r"within 2 s: 2\b", "init_timeout_seconds")
        self.no_half_files(folder)

    def test_without_rank_0_the_others_name_its_address(self):
        port = free_port()
        rank = self.start_rank(self.folder(), 1, 2, port, {**TP2[1], "comm.init_timeout_seconds": 2})
        self.one_message(self.ends(rank, 3, 20), "rank 1 of 2 cannot reach rank 0", f"127.0.0.1:{port}", "within 2 s")

    def test_a_rank_that_is_there_twice(self):
        port, folder = free_port(), self.folder()
        keys = {**TP2[1], **LONG, "comm.init_timeout_seconds": 3}
        ranks = [self.start_rank(folder, number, 2, port, keys) for number in (0, 0)]
        said = [self.ends(rank, 3, 20) for rank in ranks]
        for errors in said:
            self.one_message(errors, r"rank 0|RANK")
        self.assertTrue(any("two processes" in e or "cannot listen" in e for e in said), said)
        # Two processes that do not listen.
        port = free_port()
        ranks = [self.start_rank(folder, number, 3, port, {**layout(tp=3)[1], "comm.init_timeout_seconds": 3})
                 for number in (0, 1, 1)]
        said = [self.ends(rank, 3, 20) for rank in ranks]
        for errors in said:
            self.one_message(errors)
        self.assertTrue(any(f"two processes at 127.0.0.1:{port} are rank 1 of 3" in errors for errors in said), said)

    def test_ranks_that_disagree_about_the_number_of_processes(self):
        port, folder = free_port(), self.folder()
        first = self.start_rank(folder, 0, 2, port, {**TP2[1], "comm.init_timeout_seconds": 4})
        second = self.start_rank(folder, 1, 4, port, {**layout(tp=4)[1], "comm.init_timeout_seconds": 4})
        self.one_message(self.ends(first, 3, 20), "WORLD_SIZE|did not come")
        self.one_message(self.ends(second, 3, 20), r"WORLD_SIZE|did not come|failed|cannot reach")

    def test_a_rank_with_another_model(self):
        port, folder = free_port(), self.folder()
        keys = {**layout(shard=2)[1], **LONG}
        ranks = [self.start_rank(folder, number, 2, port, {**keys, "model.args.hidden_dim": 26 + 8 * number})
                 for number in range(2)]
        said = [self.ends(rank, 3, 30) for rank in ranks]
        for number, errors in enumerate(said):
            self.one_message(errors, f"rank {number}", f"hidden_dim.*= {26 + 8 * number}, rank {1 - number} has "
                             f"{26 + 8 * (1 - number)}", "one configuration")
        self.no_half_files(folder)

    def test_ranks_with_other_shapes_say_which(self):
        validation = {"validation.enable": True, "validation.dataset": "local", "validation.dataset_path": self.root / "val.txt",
                      "validation.local_batch_size": 2, "validation.freq": 2, "validation.steps": 1}
        for mesh, key, common, collective in (
                (TP2, "training.loss_chunk_tokens", {}, "all-reduce over axis tp"),
                (layout(pp=2), "parallelism.pipeline_parallel_microbatch_size", PIPELINE, "(send|receive) over axis pp"),
                (TP2, "validation.seq_len", validation, "over axis tp")):
            port, folder = free_port(), self.folder()
            ranks = [self.start_rank(folder, number, 2, port, {**mesh[1], **LONG, **common, key: value})
                     for number, value in enumerate((1, 2) if "micro" in key else (8, 16))]
            said = [self.ends(rank, 3, 30) for rank in ranks]
            for number, errors in enumerate(said):
                self.one_message(errors, self.COLLECTIVE.format(rank=number), collective)
            self.assertTrue(any(re.search(r"rank \d of the axis brings [a-z-]+ of \d+ \w+, this rank [a-z-]+ of \d+", e)
                                for e in said), said)
            self.no_half_files(folder)

    # ---- layouts that cannot be

    def refused(self, mesh, keys, *parts):
        folder = self.folder()
        done = self.run_job(folder, mesh, keys)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for part in parts:
            self.assertRegex(done.stderr, part)
        # Whichever rank says it, it is the same.
        errors = {re.sub(r"^.*titan: rank \d+: ", "", line) for line in done.stderr.splitlines() if "titan: " in line}
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertFalse((folder / "metrics.jsonl").exists())
        return done

    def test_layouts_that_cannot_be_are_refused_with_numbers(self):
        self.refused((3, {"parallelism.tensor_parallel_degree": 2, "parallelism.data_parallel_shard_degree": -1}), {},
                     r"= 2 does not divide the 3 processes", r"start 2 or 4")
        self.refused((2, {"parallelism.data_parallel_shard_degree": 3}), {"training.global_batch_size": 6}, r"= 3, but there are 2 processes", "start 3")
        self.refused(layout(tp=6), {}, "tensor_parallel_degree 6 is above the 4 attention heads", "at most 4")
        self.refused(layout(cp=2), {"training.seq_len": 26}, "training.seq_len = 26", "24 or 28")
        self.refused(layout(shard=2), {"training.global_batch_size": 6}, "global_batch_size = 6", "4 or 8")
        self.refused(layout(pp=2), {**PIPELINE, "parallelism.pipeline_parallel_microbatch_size": 3}, "3", "4")
        self.refused(layout(pp=7), PIPELINE, "7", "4")
        self.refused(layout(cp=3), {"parallelism.context_parallel_rotate_method": "ulysses", "training.seq_len": 24},
                     "4 heads", "context parallelism 3")

    def test_a_refusal_takes_less_than_a_second_on_every_rank_alone(self):
        # Each is started alone: no rank waits for another.
        port, said = free_port(), []
        for number in (0, 3, 5):
            begun = time.monotonic()
            spent = self.processor_time()
            rank = self.start_rank(self.folder(), number, 6, port, layout(tp=6)[1])
            said.append(self.ends(rank, 2, 10).replace(f"rank {number}: ", ""))
            # Far below any timeout of ranks that wait for each other; of its own processor time.
            self.assertLess(self.processor_time() - spent, 5.0)
            self.assertLess(time.monotonic() - begun, 10)
        self.assertEqual(len(set(said)), 1, said)

    @staticmethod
    def processor_time():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    unittest.main()

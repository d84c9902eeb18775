#!/usr/bin/env python3
"""Checkpoints of jobs of several processes: saved in one layout and resumed in another, interrupted, and killed.

    resume_test.py PATH_OF_TITAN [unittest arguments]
"""
import shutil
import signal
import subprocess
import time
import unittest

from jobs import CHECKPOINT, TITAN, Jobs, environment, free_port, gap, layout

ONE = layout()
TIED = {"model.name": "qwen3", "model.args.head_dim": 6, "model.args.tied": True}
PIPELINE = {"training.local_batch_size": 4, "parallelism.pipeline_parallel_schedule": "1F1B"}
ZERO_BUBBLE = {**PIPELINE, "parallelism.pipeline_parallel_schedule": "InterleavedZeroBubble"}

LAYOUTS = {
    "one process": (ONE, {}),
    "fsdp": (layout(shard=2), {}),
    "ddp": (layout(replicate=2), {}),
    "tp": (layout(tp=2), {}),
    "pp": (layout(pp=2), PIPELINE),
    "pp zero bubble": (layout(pp=2), ZERO_BUBBLE),
    "fsdp x tp": (layout(shard=2, tp=2), {}),
    "pp x fsdp": (layout(pp=2, shard=2), PIPELINE),
    "hsdp": (layout(replicate=2, shard=2), {}),
}
COMPUTED = ("step", "loss", "grad_norm", "lr", "tokens_seen")


class Resume(Jobs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = {}

    def run_in(self, name, keys, folder=None):
        mesh, own = LAYOUTS[name]
        return self.train(mesh, {**CHECKPOINT, **keys, **own}, folder)

    def made_once(self, name, keys):
        """A run of that layout and those keys, shared by the tests, which copy it before they go on with it."""
        key = name + repr(sorted(keys.items()))
        if key not in self.runs:
            self.runs[key] = self.run_in(name, keys)
        return self.runs[key]

    def go_on(self, first, second, model, **keys):
        """Five steps of `first`, then five of `second`."""
        folder = self.folder()
        shutil.copytree(self.made_once(first, {**model, "lr_scheduler.total_steps": 10}), folder)
        return self.run_in(second, {**model, "training.steps": 10, **{k.replace("__", "."): v for k, v in keys.items()}},
                           folder)

    def tensors(self, folder, step):
        files = {p.name: p.read_bytes() for p in sorted((folder / "checkpoint" / f"step-{step}").glob("*.safetensors"))}
        self.assertTrue(files)
        return files

    def verify(self, path):
        done = subprocess.run([TITAN, "checkpoint", "verify", path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def steps_in(self, folder):
        return sorted(p.name for p in (folder / "checkpoint").iterdir())

    # ---- another layout

    def resumed_elsewhere(self, pairs, model, tolerance):
        whole = self.made_once("one process", {**model, "training.steps": 10})
        for first, second in pairs:
            folder = self.go_on(first, second, model)
            found = {key: gap(self.series(whole, key), self.series(folder, key)) for key in ("loss", "grad_norm")}
            self.assertLessEqual(found["loss"], tolerance, f"{first} -> {second}: {found}")
            self.assertLessEqual(found["grad_norm"], 100 * tolerance, f"{first} -> {second}: {found}")
            self.assertEqual(self.series(whole, "tokens_seen"), self.series(folder, "tokens_seen"))
            self.assertEqual(self.series(whole, "lr"), self.series(folder, "lr"))
            self.verify(folder)
        return whole

    def test_between_layouts_in_single_precision(self):
        whole = self.resumed_elsewhere([("pp", "fsdp x tp"), ("fsdp x tp", "pp"), ("pp zero bubble", "one process"),
                                        ("one process", "pp x fsdp"), ("ddp", "tp")], TIED, 1e-6)
        # Other data or another optimizer state would be noticed.
        for parts in ("dataloader", "optimizer"):
            other = self.go_on("pp", "fsdp x tp", TIED, checkpoint__exclude_from_loading=parts)
            self.assertGreater(gap(self.series(whole), self.series(other)), 1e-6, parts)

    def test_between_layouts_in_double_precision(self):
        double = {"training.dtype": "float64", "training.mixed_precision_param": "float64"}
        self.resumed_elsewhere([("fsdp x tp", "one process"), ("one process", "fsdp x tp"), ("pp", "hsdp"),
                                ("hsdp", "pp zero bubble")], double, 1e-11)

    # ---- the same layout

    def test_the_same_layout_is_bit_equal(self):
        for name in ("fsdp", "pp zero bubble", "fsdp x tp"):
            whole = self.run_in(name, {**TIED, "training.steps": 10})
            folder = self.go_on(name, name, TIED)
            for key in COMPUTED:
                self.assertEqual(self.series(whole, key), self.series(folder, key), f"{key} of {name}")
            self.assertEqual(self.tensors(whole, 10), self.tensors(folder, 10), name)

    # ---- Hugging Face's format

    def test_weights_through_hugging_face_folders(self):
        exporting = {**TIED, "checkpoint.last_save_in_hf": True, "checkpoint.last_save_model_only": True}
        start = None
        for source in ("fsdp x tp", "pp"):
            saved = self.run_in(source, exporting)
            hf = saved / "checkpoint" / "step-5"
            self.verify(hf)
            exported = self.folder()
            made = subprocess.run([TITAN, "checkpoint", "export", self.made_once(source, {**TIED, "lr_scheduler.total_steps": 5}),
                                   exported], capture_output=True, text=True, timeout=60)
            self.assertEqual(made.returncode, 0, made.stderr)
            # A training of its own from these weights, whoever wrote them and whoever reads them.
            for target, path in (("one process", hf), ("pp", hf), ("fsdp x tp", exported), ("hsdp", hf)):
                folder = self.run_in(target, {**TIED, "checkpoint.initial_load_path": path,
                                              "checkpoint.initial_load_in_hf": True})
                start = start or self.series(folder)
                self.assertLessEqual(gap(start, self.series(folder)), 1e-5, f"{source} -> {target}")
        fresh = self.run_in("one process", TIED)
        self.assertGreater(self.series(fresh)[0] - start[0], 0.01)

    # ---- stops

    LONG = {"training.steps": 2000, "checkpoint.interval": 10000, "lr_scheduler.total_steps": 2000}

    def test_sigterm_to_one_rank_saves_once_and_ends_all_with_143(self):
        (world, mesh), own = LAYOUTS["fsdp x tp"]
        folder, port = self.folder(), free_port()
        keys = {**CHECKPOINT, **TIED, **mesh, **own, **self.LONG}
        ranks = [self.start_rank(folder, rank, world, port, keys) for rank in range(world)]
        self.await_step(folder, 3, ranks[0])
        ranks[2].send_signal(signal.SIGTERM)
        outputs = [rank.communicate(timeout=60) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [143] * world, outputs)
        last = len(self.series(folder))
        self.assertLess(last, 2000)
        self.assertEqual(self.steps_in(folder), [f"step-{last}"])
        self.assertEqual(outputs[0][0].count("Saving the checkpoint"), 1)
        self.verify(folder)
        # What was saved is a step like any other.
        again = self.train((world, mesh), {**keys, "training.steps": last + 2}, folder)
        whole = self.train((world, mesh), {**keys, "training.steps": last + 2})
        self.assertEqual(self.series(whole), self.series(again))

    def test_sigterm_to_the_launcher_ends_with_143(self):
        mesh, own = LAYOUTS["pp x fsdp"]
        folder = self.folder()
        job = self.start(self.job_words(folder, mesh, {**CHECKPOINT, **TIED, **own, **self.LONG}))
        self.await_step(folder, 3, job)
        ranks = self.ranks_of(job)
        self.assertEqual(len(ranks), 4)
        job.send_signal(signal.SIGTERM)
        output = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 143, output)
        self.assert_gone(ranks)
        self.assertEqual(self.steps_in(folder), [f"step-{len(self.series(folder))}"])
        self.verify(folder)

    def test_a_rank_killed_while_saving_leaves_no_half_checkpoint(self):
        mesh, own = LAYOUTS["fsdp x tp"]
        # Large enough that writing takes a moment, and written after every step.
        keys = {**CHECKPOINT, **own, "model.args.dim": 256, "model.args.hidden_dim": 1000, "training.local_batch_size": 1,
                "training.global_batch_size": 2, "training.steps": 40, "checkpoint.interval": 1,
                "lr_scheduler.total_steps": 40, "comm.train_timeout_seconds": 10}
        folder = self.folder()
        for victim in (1, 0, 3):
            job = self.start(self.job_words(folder, mesh, keys))
            before = set(self.steps_in(folder)) if (folder / "checkpoint").exists() else set()
            deadline = time.monotonic() + 60
            begun = False
            while not begun and time.monotonic() < deadline and job.poll() is None:
                names = set(self.steps_in(folder)) if (folder / "checkpoint").exists() else set()
                # Another rank than the writer dies in any of its phases, the writer itself while its folder is unfinished.
                begun = any(not name.removeprefix("step-").isdigit() for name in names - before)
                time.sleep(0.001)
            self.assertTrue(begun, "no checkpoint was begun")
            ranks = self.ranks_of(job)
            subprocess.run(["kill", "-KILL", str(ranks[victim])], check=True)
            output = job.communicate(timeout=30)
            self.assertEqual(job.returncode, 137, output)
            self.assert_gone(ranks)
            for place in (folder / "checkpoint").iterdir():
                if place.name.removeprefix("step-").isdigit():
                    self.verify(place)
        # The leftovers are cleared away and the newest whole step is gone on from.
        done = max((int(name[5:]) for name in self.steps_in(folder) if name[5:].isdigit()), default=0)
        self.train(mesh, {**keys, "training.steps": done + 1}, folder)
        self.assertTrue(all(name[5:].isdigit() for name in self.steps_in(folder)), self.steps_in(folder))
        self.verify(folder)


if __name__ == "__main__":
    unittest.main()

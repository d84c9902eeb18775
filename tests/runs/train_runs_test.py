#!/usr/bin/env python3
"""titan train as processes: resume, signals, validation, ends of the data, bad input.

    train_runs_test.py PATH_OF_TITAN [unittest arguments]

Only Python's standard library. The text and the tokenizer are made here.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from made_text import words  # noqa: E402

TITAN = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None

# What a step computes; the rest of a metrics line is time and memory.
COMPUTED = ("step", "loss", "max_loss", "grad_norm", "lr", "tokens_seen")


class TrainRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="titan_train_runs_"))
        (cls.root / "train.txt").write_text(words(1, 6000))
        (cls.root / "val.txt").write_text(words(2, 600))
        made = subprocess.run([TITAN, "tokenizer", "train", cls.root / "train.txt", "--vocab-size", "300", "--output",
                               cls.root / "tok"], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root, ignore_errors=True)

    def setUp(self):
        self.made = 0

    def folder(self):
        self.made += 1
        return self.root / f"{self.id().rsplit('.', 1)[1]}_{self.made}"

    def command(self, folder, **keys):
        config = {
            "job.dump_folder": folder, "model.name": "llama3", "model.flavor": "debugmodel",
            "model.hf_assets_path": self.root / "tok", "model.args.dim": 16, "model.args.n_layers": 2,
            "model.args.n_heads": 2, "model.args.n_kv_heads": 1, "model.args.hidden_dim": 24,
            "model.args.vocab_size": 320, "device.name": "cpu", "device.threads": 1,
            "optimizer.lr": 0.005, "lr_scheduler.warmup_steps": 3, "training.dataset": "local",
            "training.dataset_path": self.root / "train.txt", "training.local_batch_size": 4, "training.seq_len": 24,
            "training.steps": 20, "training.mixed_precision_param": "float32", "activation_checkpoint.mode": "none",
            "metrics.log_freq": 1, "debug.seed": 7,
        }
        config.update({key.replace("__", "."): value for key, value in keys.items()})
        # A flag spells true and false by its name.
        out = [str(TITAN), "train"]
        for key, value in config.items():
            if value is None:
                continue
            if isinstance(value, bool):
                section, name = key.rsplit(".", 1)
                out.append(f"--{section}.{name}" if value else f"--{section}.no-{name}")
            else:
                out.append(f"--{key}={value}")
        return out

    def run_titan(self, folder, **keys):
        return subprocess.run(self.command(folder, **keys), capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, OMP_NUM_THREADS="1"))

    def train(self, folder, **keys):
        done = self.run_titan(folder, **keys)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done

    def lines(self, folder):
        """The last line of each step, as text of the computed numbers only."""
        out = {}
        for text in (folder / "metrics.jsonl").read_text().splitlines():
            row = json.loads(text)
            if "loss" in row:
                out[row["step"]] = tuple(json.dumps(row.get(key)) for key in COMPUTED)
        return out

    def losses(self, folder):
        return [float(row[1]) for _, row in sorted(self.lines(folder).items())]

    def tensors(self, folder, step):
        """Every tensor file of a checkpoint, byte for byte."""
        place = folder / "checkpoint" / f"step-{step}"
        files = {p.name: p.read_bytes() for p in sorted(place.glob("*.safetensors"))}
        self.assertTrue(files, f"no tensors in {place}: {list(place.glob('*')) if place.exists() else 'absent'}")
        return files

    def refuse(self, code, *parts, **keys):
        folder = keys.pop("folder", None) or self.folder()
        done = self.run_titan(folder, **keys)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout[-2000:])
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertNotIn("frame #", done.stderr)
        self.assertEqual(done.stderr.count("titan: "), 1, done.stderr)
        return folder

    CHECKPOINT = dict(checkpoint__enable=True, checkpoint__interval=10, checkpoint__last_save_model_only=False)

    def resume_equals_one_run(self, **keys):
        one, two = self.folder(), self.folder()
        keys = dict(self.CHECKPOINT, **keys)
        self.train(one, **keys)
        # The first half of the same schedule: it stops after ten of the twenty steps.
        self.train(two, training__steps=10, lr_scheduler__total_steps=20, **keys)
        self.train(two, **keys)
        self.assertEqual(self.lines(one), self.lines(two))
        self.assertEqual(len(self.lines(one)), 20)
        self.assertEqual(self.tensors(one, 20), self.tensors(two, 20))
        self.assertEqual(json.loads((two / "run.json").read_text())["sessions"], 2)

    # ---- training itself

    def test_it_learns(self):
        folder = self.folder()
        self.train(folder, training__steps=60)
        losses = self.losses(folder)
        self.assertGreater(losses[0], 5)
        self.assertLess(sum(losses[-5:]) / 5, losses[0] - 1.5)
        record = json.loads((folder / "run.json").read_text())
        self.assertEqual(record["status"], "finished")

    def test_timings_name_the_parts_of_a_start_and_add_up(self):
        done = self.train(self.folder(), training__steps=2, metrics__timings=True)
        said = re.search(r"Start: (.*); ([\d.]+) s in all", done.stdout)
        self.assertTrue(said, done.stdout)
        parts = {name: float(s) for name, s in re.findall(r"([a-z ]+?) ([\d.]+) s", said[1])}
        self.assertEqual(list(map(str.strip, parts)), ["program", "configuration", "device", "tokenizer", "data", "model",
                                                       "checkpoint and records", "first batch", "first step"])
        self.assertAlmostEqual(sum(parts.values()), float(said[2]), delta=0.01 * len(parts))
        self.assertNotIn("Start: ", self.train(self.folder(), training__steps=1).stdout)

    def test_two_deterministic_runs_are_bit_equal_and_seeds_matter(self):
        a, b, c = self.folder(), self.folder(), self.folder()
        for folder, seed in ((a, 7), (b, 7), (c, 8)):
            self.train(folder, training__steps=8, debug__deterministic=True, debug__seed=seed, **self.CHECKPOINT)
        self.assertEqual(self.lines(a), self.lines(b))
        self.assertEqual(self.tensors(a, 8), self.tensors(b, 8))
        self.assertNotEqual(self.lines(a), self.lines(c))

    def test_accumulation_equals_one_large_batch(self):
        for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-11)):
            whole, parts = self.folder(), self.folder()
            precise = dict(training__dtype=dtype, training__mixed_precision_param=dtype)
            self.train(whole, training__local_batch_size=8, **precise)
            self.train(parts, training__local_batch_size=2, training__global_batch_size=8, **precise)
            for a, b in zip(self.losses(whole), self.losses(parts), strict=True):
                self.assertLess(abs(a - b) / abs(a), tolerance)

    def test_recomputation_changes_no_bit(self):
        kept = self.folder()
        self.train(kept, training__steps=6)
        for keys in (dict(activation_checkpoint__mode="full"),
                     dict(activation_checkpoint__mode="selective", activation_checkpoint__selective_ac_option="op"),
                     dict(activation_checkpoint__mode="selective", activation_checkpoint__selective_ac_option="2")):
            folder = self.folder()
            self.train(folder, training__steps=6, **keys)
            self.assertEqual(self.lines(kept), self.lines(folder), keys)

    def test_half_precisions_learn(self):
        single = self.folder()
        self.train(single, training__steps=40)
        for keys in (dict(training__mixed_precision_param="bfloat16"), dict(training__mixed_precision_param="float16"),
                     dict(training__dtype="bfloat16")):
            folder = self.folder()
            self.train(folder, training__steps=40, **keys)
            losses = self.losses(folder)
            self.assertLess(losses[-1], losses[0] - 1, keys)
            self.assertLess(abs(losses[0] - self.losses(single)[0]), 0.05, keys)

    def test_sizes_come_from_a_hugging_face_config(self):
        config = self.root / "config.json"
        config.write_text(json.dumps(dict(
            model_type="llama", hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            intermediate_size=24, vocab_size=320, rms_norm_eps=1e-5, rope_theta=500000.0,
            rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=8192))))
        typed, read = self.folder(), self.folder()
        self.train(typed, training__steps=3)
        sizes = {f"model__args__{key}": None for key in ("dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim", "vocab_size")}
        self.train(read, training__steps=3, model__args__hf_config=config, **sizes)
        self.assertEqual(self.lines(typed), self.lines(read))

    def test_validation_does_not_change_training(self):
        without, with_it = self.folder(), self.folder()
        self.train(without, training__steps=8, **self.CHECKPOINT)
        self.train(with_it, training__steps=8, validation__enable=True, validation__dataset="local",
                   validation__dataset_path=self.root / "val.txt", validation__local_batch_size=3, validation__seq_len=16,
                   validation__freq=3, validation__steps=-1, **self.CHECKPOINT)
        self.assertEqual(self.lines(without), self.lines(with_it))
        self.assertEqual(self.tensors(without, 8), self.tensors(with_it, 8))
        rows = [json.loads(line) for line in (with_it / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([row["step"] for row in rows if row.get("val_loss") is not None], [1, 3, 6, 8])

    # ---- packed documents

    MASKED = dict(model__flavor="debugmodel_flex_attn")

    def test_document_masks_learn_and_are_chosen_by_flavor_or_key(self):
        causal, flavor, key, counted = (self.folder() for _ in range(4))
        validated = dict(training__steps=60, validation__enable=True, validation__dataset="local",
                         validation__dataset_path=self.root / "val.txt", validation__local_batch_size=3,
                         validation__seq_len=24, validation__freq=60, validation__steps=-1)
        self.train(causal, **validated)
        self.train(flavor, **validated, **self.MASKED)
        self.train(key, **validated, model__args__attn_mask_type="block_causal")
        self.train(counted, **validated, **self.MASKED, data__reset_positions=True)
        losses = self.losses(flavor)
        self.assertLess(sum(losses[-5:]) / 5, losses[0] - 1.5)
        self.assertEqual(self.lines(flavor), self.lines(key))
        self.assertGreater(abs(losses[0] - self.losses(causal)[0]), 1e-5)
        # Inside a document only distances count: restarted positions change no more than the rounding.
        self.assertLess(abs(losses[0] - self.losses(counted)[0]), 2e-6)
        first = [next(row["val_loss"] for row in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
                      if row.get("val_loss") is not None) for folder in (causal, flavor, counted)]
        self.assertGreater(abs(first[0] - first[1]), 1e-5)
        self.assertLess(abs(first[1] - first[2]), 2e-6)

    def test_positions_alone_can_restart(self):
        plain, counted = self.folder(), self.folder()
        self.train(plain, training__steps=3)
        self.train(counted, training__steps=3, data__reset_positions=True)
        self.assertNotEqual(self.losses(plain), self.losses(counted))

    def test_resume_is_bit_equal_with_document_masks(self):
        # An odd length, so that samples begin inside documents.
        self.resume_equals_one_run(**self.MASKED, data__reset_positions=True, training__seq_len=23,
                                   training__local_batch_size=2, training__global_batch_size=4)

    # ---- where a run ends

    def test_epochs_end_a_run_with_a_short_last_step(self):
        folder = self.folder()
        (self.root / "small.txt").write_text(words(3, 300))
        # Every step is saved, so the last one is saved twice: as a step and as the end.
        keys = dict(self.CHECKPOINT, training__dataset_path=self.root / "small.txt", training__num_epochs=2,
                    training__steps=1000, training__global_batch_size=8, checkpoint__interval=1)
        done = self.train(folder, **keys)
        lines = self.lines(folder)
        self.assertGreater(len(lines), 2)
        self.assertLess(len(lines), 1000)
        self.assertIn(f"ended after {len(lines)} steps", done.stdout + done.stderr)
        self.assertTrue(self.tensors(folder, len(lines)))
        self.assertEqual(json.loads((folder / "run.json").read_text())["status"], "finished")
        # Once more: there is nothing left to do, and that is no error.
        self.train(folder, **keys)
        self.assertEqual(self.lines(folder), lines)

    def test_a_finished_run_has_nothing_left_to_do(self):
        folder = self.folder()
        self.train(folder, training__steps=4, **self.CHECKPOINT)
        before = self.tensors(folder, 4), self.lines(folder)
        self.assertIn("nothing is left to do", "".join(self.both(self.train(folder, training__steps=4, **self.CHECKPOINT))))
        self.assertEqual((self.tensors(folder, 4), self.lines(folder)), before)

    @staticmethod
    def both(done):
        return done.stdout, done.stderr

    # ---- resume

    def test_resume_is_bit_equal(self):
        self.resume_equals_one_run()

    def test_resume_is_bit_equal_with_accumulation_and_bfloat16(self):
        self.resume_equals_one_run(training__local_batch_size=2, training__global_batch_size=6,
                                   training__mixed_precision_param="bfloat16")

    def test_resume_is_bit_equal_with_float16_scaling(self):
        self.resume_equals_one_run(training__mixed_precision_param="float16")

    def test_resume_is_bit_equal_for_a_tied_qwen(self):
        self.resume_equals_one_run(model__name="qwen3", model__args__head_dim=8, model__args__tied=True,
                                   activation_checkpoint__mode="selective",
                                   activation_checkpoint__selective_ac_option="op")

    def test_parts_can_be_left_out_of_a_resume(self):
        whole, fresh = self.folder(), self.folder()
        self.train(whole, training__steps=10, lr_scheduler__total_steps=20, **self.CHECKPOINT)
        for parts in ("optimizer", "dataloader", "optimizer,dataloader"):
            folder = self.folder()
            shutil.copytree(whole, folder)
            self.train(folder, checkpoint__exclude_from_loading=parts, **self.CHECKPOINT)
            lines = self.lines(folder)
            self.assertEqual(sorted(lines), list(range(1, 21)))
            again = self.folder()
            shutil.copytree(whole, again)
            self.train(again, **self.CHECKPOINT)
            exact = self.lines(again)
            self.assertEqual({s: r for s, r in lines.items() if s <= 10}, {s: r for s, r in exact.items() if s <= 10})
            # Step 11's loss depends on weights and data alone.
            self.assertEqual(lines[11][1] == exact[11][1], "dataloader" not in parts)
            self.assertNotEqual(lines[12], exact[12])
        # Without the train state the count starts anew.
        folder = self.folder()
        shutil.copytree(whole, folder)
        self.train(folder, training__steps=3, checkpoint__exclude_from_loading="train_state,optimizer,dataloader",
                   checkpoint__folder="checkpoint", **self.CHECKPOINT)

    def test_a_resume_without_the_scheduler_warms_up_again_and_keeps_doing_so(self):
        folder = self.folder()
        keys = dict(self.CHECKPOINT, checkpoint__interval=5, lr_scheduler__total_steps=40)
        self.train(folder, training__steps=10, **keys)
        self.train(folder, training__steps=15, checkpoint__exclude_from_loading="lr_scheduler", **keys)
        self.train(folder, training__steps=20, **keys)
        rates = {row["step"]: row["lr"] for row in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
                 if "loss" in row}
        self.assertEqual([rates[s] for s in range(11, 21)], [rates[s - 10] for s in range(11, 21)])

    def test_a_seed_checkpoint_starts_other_runs(self):
        folder, plain = self.folder(), self.folder()
        self.train(folder, checkpoint__create_seed_checkpoint=True, debug__seed=99, **self.CHECKPOINT)
        self.assertTrue((folder / "checkpoint" / "step-0").is_dir())
        self.train(folder, training__steps=5, debug__seed=1, **self.CHECKPOINT)
        self.train(plain, training__steps=5, debug__seed=99)
        self.assertEqual(self.lines(folder), self.lines(plain))

    # ---- signals

    def stop(self, name, code):
        one, two = self.folder(), self.folder()
        # Stops are looked for between steps; steps are made long enough to be met by a signal.
        keys = dict(self.CHECKPOINT, training__steps=40, training__local_batch_size=16, training__seq_len=64,
                    checkpoint__interval=1000)
        self.train(one, **keys)
        process = subprocess.Popen(self.command(two, **keys), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        metrics = two / "metrics.jsonl"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not metrics.exists() or metrics.read_text().count("\n") < 5):
            time.sleep(0.005)
        process.send_signal(name)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, output)
        done = max(self.lines(two))
        self.assertLess(done, 40, "the signal came too late")
        self.assertIn(f"after step {done}", output)
        self.assertTrue(self.tensors(two, done))
        self.assertEqual(json.loads((two / "run.json").read_text())["status"], "interrupted")
        self.train(two, **keys)
        self.assertEqual(self.lines(one), self.lines(two))
        self.assertEqual(self.tensors(one, 40), self.tensors(two, 40))

    def test_sigterm_saves_and_the_resumed_run_is_bit_equal(self):
        self.stop(signal.SIGTERM, 143)

    def test_sigint_saves_and_the_resumed_run_is_bit_equal(self):
        self.stop(signal.SIGINT, 130)

    # ---- bad input

    def test_bad_values_are_refused_before_the_first_step(self):
        self.refuse(2, "/nowhere/at/all.txt", training__dataset_path="/nowhere/at/all.txt")
        self.refuse(2, "/nowhere/tok", model__hf_assets_path="/nowhere/tok")
        self.refuse(2, "seq_len", "0", training__seq_len=0)
        self.refuse(2, "at least 300", model__args__vocab_size=200)
        self.refuse(2, "did you mean", model__flavor="debugmodle")
        self.refuse(2, "multiple", model__args__dim=17, model__args__n_heads=2)
        self.refuse(2, "global_batch_size", training__global_batch_size=6)
        folder = self.refuse(2, "validation", validation__enable=True, validation__dataset="local",
                             validation__dataset_path="/nowhere/val.txt")
        self.assertFalse((folder / "metrics.jsonl").exists())

    def test_an_empty_text_is_refused(self):
        (self.root / "empty.txt").write_text("")
        self.refuse(2, "[data]", training__dataset_path=self.root / "empty.txt")

    def test_a_diverging_run_stops_and_keeps_no_broken_checkpoint(self):
        folder = self.refuse(2, "[train]", "optimizer.lr", "step", optimizer__lr="1e6", training__steps=400,
                             lr_scheduler__warmup_steps=0, metrics__log_freq=50, checkpoint__enable=True,
                             checkpoint__interval=1, checkpoint__keep_latest_k=2)
        record = json.loads((folder / "run.json").read_text())
        self.assertEqual(record["status"], "failed")
        self.assertIn("optimizer.lr", record["error"])
        for place in (folder / "checkpoint").glob("step-*"):
            for path in place.glob("*.safetensors"):
                data = path.read_bytes()
                header = 8 + struct.unpack("<Q", data[:8])[0]
                values = struct.unpack(f"<{(len(data) - header) // 4}f", data[header:header + (len(data) - header) // 4 * 4])
                self.assertTrue(all(v == v for v in values), f"{path} holds NaN")

    def test_float16_that_always_overflows_stops(self):
        folder = self.refuse(2, "[train]", "loss scale", optimizer__lr="1e6", training__steps=400,
                             lr_scheduler__warmup_steps=0, metrics__log_freq=50,
                             training__mixed_precision_param="float16")
        self.assertEqual(json.loads((folder / "run.json").read_text())["status"], "failed")

    def test_an_unwritable_dump_folder_is_the_machines_fault(self):
        file = self.root / "a_file"
        file.write_text("")
        self.refuse(3, str(file), folder=file / "run")
        self.refuse(3, "/proc", folder=pathlib.Path("/proc/titan_run"))

    def test_a_checkpoint_of_another_model_is_refused_by_tensor(self):
        folder = self.folder()
        self.train(folder, training__steps=2, **self.CHECKPOINT)
        self.refuse(2, "layers.0.feed_forward.w1.weight", folder=folder, model__args__hidden_dim=32, **self.CHECKPOINT)
        self.refuse(2, "layers.2.", folder=folder, model__args__n_layers=3, **self.CHECKPOINT)
        self.assertEqual(sorted(self.lines(folder)), [1, 2])

    def test_a_corrupt_checkpoint_is_refused_by_file(self):
        folder = self.folder()
        self.train(folder, training__steps=2, **self.CHECKPOINT)
        path = sorted((folder / "checkpoint" / "step-2").glob("*.safetensors"))[0]
        good = path.read_bytes()
        flipped = bytearray(good)
        flipped[-5] ^= 0x40
        for bad in (good[:-7], bytes(flipped), b"", good[:4]):
            path.write_bytes(bad)
            self.refuse(2, path.name, folder=folder, **self.CHECKPOINT)
        path.write_bytes(good)
        self.train(folder, training__steps=3, **self.CHECKPOINT)


if __name__ == "__main__":
    unittest.main(verbosity=1)

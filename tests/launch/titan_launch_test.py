"""`titan launch` and run_train.sh with the real binary; launch_test.py does the rest without libtorch.

Usage: titan_launch_test.py TITAN SOURCE_DIR [unittest arguments].
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TITAN, SOURCE = str(pathlib.Path(sys.argv.pop(1)).resolve()), pathlib.Path(sys.argv.pop(1)).resolve()
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS",
             "TITAN_THREADS", "NGPU", "CONFIG_FILE", "LOG_RANK", "COMM_MODE", "TRAIN_FILE")


def run(*words, **variables):
    environment = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
    return subprocess.run(words, env={**environment, **variables}, cwd=SOURCE, capture_output=True, text=True, timeout=300)


class TitanLaunch(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="launch-test-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def test_runs_itself_once_per_rank(self):
        single = run(TITAN, "version")
        done = run(TITAN, "launch", "--nproc", "2", "--log-ranks", "all", "--", "version", TMPDIR=str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = [f"[rank{rank}]:{line}" for rank in (0, 1) for line in single.stdout.splitlines()]
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(expected))
        logs = sorted(path.name for path in self.folder.glob("titan-launch-*/*"))
        self.assertEqual(logs, ["rank_0.log", "rank_1.log"])

    def test_shares_the_cores_among_the_ranks(self):
        done = run(TITAN, "launch", "--nproc", "512", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(TITAN, "launch", "--nproc", "2", "--no-prefix", "--log-dir", str(self.folder), "--", "doctor", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        threads = int(json.loads(done.stdout)["environment"]["OMP_NUM_THREADS"])
        cores = len(os.sched_getaffinity(0))
        self.assertGreaterEqual(threads, 1)
        self.assertLessEqual(threads, max(1, cores // 2))

    def test_a_bad_configuration_is_refused_before_any_rank_starts(self):
        done = run(TITAN, "launch", "--nproc", "2", "--", "train", "--training.stepz", "3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("stepz", done.stderr)
        self.assertNotIn("rank 1", done.stderr)

    def test_a_failing_rank_is_named_with_its_error(self):
        done = run(TITAN, "launch", "--nproc", "2", "--log-dir", str(self.folder), "--", "tokenizer", "encode", "/nowhere")
        self.assertEqual(done.returncode, run(TITAN, "tokenizer", "encode", "/nowhere").returncode)
        self.assertRegex(done.stderr, r"failed first, with exit code \d+; log: .*rank_[01]\.log; .*:\n(.*\n)*\[rank[01]\]:titan: rank [01]: .*\n$")

    def train_words(self, steps):
        text, tokenizer = self.folder / "text.txt", self.folder / "tokenizer"
        text.write_text("".join(f"the cat number {i} sat on the mat of cat {i * i}\n" for i in range(2000)))
        made = run(TITAN, "tokenizer", "train", str(text), "--vocab-size", "300", "--output", str(tokenizer))
        self.assertEqual(made.returncode, 0, made.stderr)
        return [f"--job.dump_folder={self.folder}/run", f"--model.hf_assets_path={tokenizer}", "--training.dataset=local",
                f"--training.dataset_path={text}", f"--training.steps={steps}", "--training.seq_len=24",
                "--training.local_batch_size=2", "--metrics.log_freq=1", "--device.name=cpu", "--device.threads=1",
                "--model.args.dim=16", "--model.args.n_layers=2", "--model.args.n_heads=2", "--model.args.n_kv_heads=1",
                "--model.args.hidden_dim=24", "--model.args.vocab_size=320"]

    def train(self, *words, **variables):
        return run(str(SOURCE / "run_train.sh"), *words, TITAN=TITAN, **variables)

    def test_run_train_trains_one_rank_and_logs_below_the_dump_folder(self):
        done = self.train(*self.train_words(2), NGPU="1", CONFIG_FILE="configs/llama3/debug_model.toml", TRAIN_FILE="x.train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("TRAIN_FILE=x.train is ignored", done.stderr)
        logs = list((self.folder / "run/logs").glob("*/rank_0.log"))
        self.assertEqual(len(logs), 1)
        steps = [line for line in logs[0].read_text().splitlines() if "step:" in line]
        self.assertEqual(len(steps), 2)
        for line in steps:
            self.assertIn("[rank0]:" + line, done.stdout)

    def test_sigterm_lets_the_run_finish_its_step(self):
        words = self.train_words(1000000)
        job = subprocess.Popen([TITAN, "launch", "-n", "1", "--", "train", "configs/llama3/debug_model.toml", *words],
                               cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.kill)
        while "step:" not in job.stdout.readline():
            self.assertIsNone(job.poll())
        job.terminate()
        out, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 143, err)
        self.assertIn("Stopped by SIGTERM after step", out + err)
        self.assertNotIn("failed", err)

    def test_run_train_knows_the_modes_that_simulate_ranks(self):
        done = self.train(CONFIG_FILE="configs/llama3/debug_model.toml", NGPU="4", COMM_MODE="no_such_mode")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no_such_mode", done.stderr)
        self.assertNotIn("titan launch", done.stderr)

    def test_run_train_tries_a_layout_of_many_ranks_in_one_process(self):
        with tempfile.TemporaryDirectory() as dump:
            words = ["--training.seq_len", "128", "--device.name", "cpu", "--job.dump_folder", dump,
                     "--parallelism.tensor_parallel_degree", "4", "--parallelism.pipeline_parallel_degree", "2",
                     "--parallelism.context_parallel_degree", "2"]
            done = self.train(*words, CONFIG_FILE="tests/runs/base_config.toml", NGPU="64", COMM_MODE="fake_backend")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("of 64 ranks only rank 0 exists", done.stdout + done.stderr)
            self.assertIn("step:  1", done.stdout + done.stderr)
            refused = self.train(*words, CONFIG_FILE="tests/runs/base_config.toml", NGPU="63", COMM_MODE="fake_backend")
            self.assertEqual(refused.returncode, 2)
            refused = self.train(*words, "--checkpoint.enable", CONFIG_FILE="tests/runs/base_config.toml", NGPU="64",
                                 COMM_MODE="fake_backend")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("checkpoint.enable", refused.stderr)

    def test_run_train_runs_all_ranks_on_the_cpu(self):
        with tempfile.TemporaryDirectory() as dump:
            done = self.train("--training.seq_len", "128", "--job.dump_folder", dump, CONFIG_FILE="tests/runs/base_config.toml",
                              NGPU="2", COMM_MODE="local_tensor")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 processes met", done.stdout + done.stderr)
            self.assertIn("total steps 1 ", done.stdout + done.stderr)

    def test_a_layout_that_cannot_be_is_refused_once_and_before_any_rank_starts(self):
        done = self.train("--parallelism.pipeline_parallel_degree", "3", CONFIG_FILE="tests/runs/base_config.toml", NGPU="4")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("pipeline_parallel_degree"), 1, done.stderr)
        self.assertNotIn("[rank", done.stdout + done.stderr)

    def test_run_train_shows_the_chosen_ranks(self):
        done = self.train(NGPU="2", LOG_RANK="5")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--log-ranks 5", done.stderr)


if __name__ == "__main__":
    unittest.main()

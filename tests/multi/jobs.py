"""Jobs of several processes on one host, for the tests of this folder: one text, one tokenizer, one tiny model.

A script here runs as `name_test.py PATH_OF_TITAN [unittest arguments]`. Sizes are odd on purpose: 26 hidden units and 321
rows of vocabulary divide by few degrees, so that every axis has uneven parts.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from made_text import words  # noqa: E402

TITAN = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None

# Variables that would tell a process of its place in another job.
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_", "PMI_", "SLURM_",
             "TORCHELASTIC_", "MPI_LOCAL")

# Degrees by the names that the mesh has for them.
AXES = dict(replicate="data_parallel_replicate_degree", shard="data_parallel_shard_degree", tp="tensor_parallel_degree",
            cp="context_parallel_degree", pp="pipeline_parallel_degree")

CHECKPOINT = {"checkpoint.enable": True, "checkpoint.interval": 5, "checkpoint.last_save_model_only": False}


def layout(**degrees):
    """(number of processes, keys) of a mesh: layout(shard=2, tp=2)."""
    keys = {"parallelism.data_parallel_shard_degree": 1}
    size = 1
    for axis, degree in degrees.items():
        keys["parallelism." + AXES[axis]] = degree
        size *= degree
    return size, keys


def environment(**variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return {**kept, "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in variables.items()}}


def free_port(host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.bind((host, 0))
        return listener.getsockname()[1]


def gap(a, b):
    """The largest relative difference of the numbers in two equally long lists."""
    assert len(a) == len(b) and a, (len(a), len(b))
    return max(abs(x - y) / max(abs(x), 1e-30) for x, y in zip(a, b))


class Jobs(unittest.TestCase):
    longMessage = True

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="titan_multi_"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        (cls.root / "train.txt").write_text(words(1, 6000))
        (cls.root / "val.txt").write_text(words(2, 400))
        made = subprocess.run([TITAN, "tokenizer", "train", cls.root / "train.txt", "--vocab-size", "300", "--output",
                               cls.root / "tok"], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr

    def setUp(self):
        self.made = 0
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()

    def folder(self):
        self.made += 1
        return self.root / f"{self.id().rsplit('.', 1)[1]}_{self.made}"

    def train_words(self, folder, keys=None):
        """`train` and its options: the tiny model, then `keys` over it; None leaves a key out."""
        config = {
            "job.dump_folder": folder, "model.name": "llama3", "model.flavor": "debugmodel",
            "model.hf_assets_path": self.root / "tok", "model.args.dim": 16, "model.args.n_layers": 4,
            "model.args.n_heads": 4, "model.args.n_kv_heads": 2, "model.args.hidden_dim": 26,
            "model.args.vocab_size": 321, "device.name": "cpu", "device.threads": 1,
            "optimizer.lr": 0.005, "lr_scheduler.warmup_steps": 3, "training.dataset": "local",
            "training.dataset_path": self.root / "train.txt", "training.local_batch_size": 2,
            "training.global_batch_size": 8, "training.seq_len": 24, "training.steps": 5, "training.max_norm": 0.3,
            "training.mixed_precision_param": "float32", "activation_checkpoint.mode": "none", "metrics.log_freq": 1,
            "debug.seed": 7, "comm.init_timeout_seconds": 60, "comm.train_timeout_seconds": 60,
        }
        config.update(keys or {})
        out = ["train"]
        for key, value in config.items():
            if value is None:
                continue
            if isinstance(value, bool):  # a flag spells true and false by its name
                section, name = key.rsplit(".", 1)
                out.append(f"--{section}.{name}" if value else f"--{section}.no-{name}")
            else:
                out.append(f"--{key}={value}")
        return out

    def job_words(self, folder, mesh, keys=None):
        """The whole command of a job of `mesh`: (number of processes, keys)."""
        size, degrees = mesh
        launch = [] if size == 1 else ["launch", "--nproc", str(size), "--log-dir", str(folder) + ".logs", "--"]
        return [str(TITAN), *launch, *self.train_words(folder, {**degrees, **(keys or {})})]

    def run_job(self, folder, mesh, keys=None):
        return subprocess.run(self.job_words(folder, mesh, keys), capture_output=True, text=True, timeout=120,
                              env=environment())

    def train(self, mesh, keys=None, folder=None):
        """A run that ends well: its folder."""
        folder = folder or self.folder()
        done = self.run_job(folder, mesh, keys)
        self.assertEqual(done.returncode, 0, f"{mesh} {keys}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        return folder

    def start(self, command, env=None, **options):
        """A process with its output in pipes; killed when the test ends."""
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=env or environment(), **options)
        self.started.append(process)
        return process

    def start_rank(self, folder, rank, world, port, keys=None, host="127.0.0.1", prefix=(), **variables):
        """One rank with torchrun's variables, started by hand."""
        place = dict(RANK=rank, WORLD_SIZE=world, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=world, MASTER_ADDR=host,
                     MASTER_PORT=port)
        return self.start([*prefix, TITAN, *self.train_words(folder, keys)], environment(**{**place, **variables}))

    def rows(self, folder):
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    def series(self, folder, key="loss"):
        """The values of `key` by step; a step that was run again counts once."""
        values = {row["step"]: row[key] for row in self.rows(folder) if row.get(key) is not None}
        return [values[step] for step in sorted(values)]

    def await_step(self, folder, step, process, timeout=60):
        deadline = time.monotonic() + timeout
        file = folder / "metrics.jsonl"
        while not file.exists() or file.read_text().count('"loss"') < step:
            if time.monotonic() > deadline or process.poll() is not None:
                output = process.communicate() if process.poll() is not None else ""
                self.fail(f"step {step} was never reached: {output}")
            time.sleep(0.01)

    def ranks_of(self, launcher):
        """Process ids of the ranks below a running `titan launch`, by rank."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent != launcher.pid:
                    continue
                variables = dict(v.split("=", 1) for v in (entry / "environ").read_text().split("\0") if "=" in v)
            except (OSError, ValueError):
                continue  # it has ended meanwhile
            if "RANK" in variables:
                found[int(variables["RANK"])] = int(entry.name)
        return [found[rank] for rank in sorted(found)]

    def assert_gone(self, pids):
        left = [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]
        self.assertEqual(left, [], "processes were left behind")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


__all__ = ["AXES", "CHECKPOINT", "Jobs", "TITAN", "alive", "environment", "free_port", "gap", "json", "layout", "os",
           "pathlib", "shutil", "signal", "socket", "subprocess", "sys", "time", "unittest", "words"]

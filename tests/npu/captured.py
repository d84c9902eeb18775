"""Jobs whose steps are captured, beside the same jobs that may not capture.

TASK_QUEUE_ENABLE=2 excludes graphs, so a run with it is the same step with the same kernels, uncaptured.
"""
import re
import subprocess

from emulated import CHECKPOINT, NPU, NpuJobs, ONE, environment

COMPILE = {"compile.enable": True}
LONG = {**COMPILE, "training.steps": 9, "lr_scheduler.total_steps": 20}
WARM_UP = 3
CAPTURED = re.compile(r"The step is captured: .* replayed from step (\d+) on")


class CapturedJobs(NpuJobs):
    def job(self, folder, mesh=ONE, keys=None, **variables):
        """A job that has ended."""
        return subprocess.run(self.job_words(folder, mesh, {**(keys or {}), **NPU}), capture_output=True, text=True,
                              timeout=120, env=environment(**variables))

    def output(self, folder, mesh=ONE, keys=None, **variables):
        """What a job that ends well logs."""
        done = self.job(folder, mesh, keys, **variables)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-3000:])
        return done.stdout + done.stderr

    def eager(self, mesh=ONE, keys=None, **variables):
        """The folder of the run that may not capture."""
        folder = self.folder()
        refused = self.output(folder, mesh, keys, TASK_QUEUE_ENABLE=2, **variables)
        self.assertEqual(CAPTURED.findall(refused), [])
        self.assertEqual(refused.count("the step runs uncaptured"), 1, refused)  # the launcher shows rank 0
        self.assertIn("TASK_QUEUE_ENABLE=2", refused)
        return folder

    def pair(self, mesh=ONE, keys=None, **variables):
        """Folders of the captured run and of the one that may not capture, and the former's output."""
        keys = {**LONG, **(keys or {})}
        captured = self.folder()
        text = self.output(captured, mesh, keys, **variables)
        return captured, self.eager(mesh, keys, **variables), text

    def assert_same(self, one, other):
        for key in ("loss", "grad_norm"):
            self.assertEqual(self.series(one, key), self.series(other, key), key)

    def saved(self, folder, step):
        """The bytes of a checkpoint's tensors by file."""
        files = {p.name: p.read_bytes() for p in sorted((folder / "checkpoint" / f"step-{step}").glob("*.safetensors"))}
        self.assertTrue(any(name.startswith("optimizer") for name in files), files.keys())
        return files

    def saved_steps(self, folder):
        return sorted(int(p.name.removeprefix("step-")) for p in (folder / "checkpoint").iterdir())


__all__ = ["CAPTURED", "CHECKPOINT", "COMPILE", "CapturedJobs", "LONG", "WARM_UP"]

"""Jobs on emulated NPUs, as the tests of this folder start them: those of tests/multi with another device."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "multi"))
from jobs import CHECKPOINT, Jobs, TITAN, environment, free_port, gap, layout  # noqa: E402

ONE = layout()
NPU = {"device.name": "npu"}
# Losses of float32 on the two devices; the operators sum in another order.
TOLERANCE = 1e-5


class NpuJobs(Jobs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.references = {}

    def reference(self, keys=None):
        """The folder of the same training by one process on the CPU."""
        keys = keys or {}
        whole = {k: v for k, v in keys.items() if not k.startswith(("parallelism.", "npu.", "activation_checkpoint."))}
        whole["training.local_batch_size"] = 8
        key = repr(sorted(whole.items()))
        if key not in self.references:
            self.references[key] = self.train(ONE, whole)
        return self.references[key]

    def npu(self, mesh, keys=None, folder=None):
        return self.train(mesh, {**(keys or {}), **NPU}, folder)

    def assert_equal_runs(self, one, other, what=""):
        for key in ("loss", "grad_norm"):
            a, b = self.series(one, key), self.series(other, key)
            self.assertEqual(len(a), len(b))
            self.assertLessEqual(gap(a, b), TOLERANCE, f"{key} {what}: {a} {b}")


def stats(path):
    """Calls by name, from the emulator's CANNEMU_STATS."""
    return json.loads(pathlib.Path(path).read_text())["calls"]


__all__ = ["CHECKPOINT", "NPU", "NpuJobs", "ONE", "TITAN", "TOLERANCE", "environment", "free_port", "gap", "layout", "os", "stats", "sys"]

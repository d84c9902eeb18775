#!/usr/bin/env python3
"""torch_npu in an embedded interpreter ([npu] route = "python") trains what the CPU trains.

    python_route_test.py PATH_OF_TITAN

Runs with the interpreter of an environment that has torch and torch_npu (tests/requirements/torch_npu.txt), over the emulated
CANN that LD_LIBRARY_PATH names.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from emulated import NPU, NpuJobs, ONE, TITAN, environment, layout

PYTHON = {**NPU, "npu.route": "python"}
RECOMPUTED = {"activation_checkpoint.mode": "full"}
LOGGED = "NPU through the interpreter of"


class PythonRoute(NpuJobs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["TITAN_NPU_PYTHON"] = sys.executable

    def test_1_fsdp_with_recomputation(self):
        # `import torch` has put Python's autograd engine in place: recomputation fails unless titan's is the one in force.
        folder = self.folder()
        done = subprocess.run(self.job_words(folder, layout(shard=2), {**RECOMPUTED, **PYTHON}), capture_output=True, text=True,
                              timeout=300, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn(LOGGED, done.stdout + done.stderr)
        self.assert_equal_runs(self.reference(), folder, "through the interpreter")

    def test_the_default_route_has_no_interpreter(self):
        done = subprocess.run(self.job_words(self.folder(), ONE, NPU), capture_output=True, text=True, timeout=120,
                              env=environment())
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertNotIn(LOGGED, done.stdout + done.stderr)

    def doctor(self, **changes):
        done = subprocess.run([TITAN, "doctor", "--device", "npu"], capture_output=True, text=True, timeout=120,
                              env=environment(TITAN_NPU_ROUTE="python", **changes))
        return done.returncode, done.stdout + done.stderr

    def test_doctor_names_the_route(self):
        code, text = self.doctor()
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"module +built \(\S+/libtitan_npu_python.so\)")
        self.assertIn("TITAN_NPU_ROUTE=python (exported)", text)

    def test_a_folder_is_a_virtual_environment(self):
        code, text = self.doctor(TITAN_NPU_PYTHON=str(pathlib.Path(sys.executable).parent.parent))
        self.assertEqual(code, 0, text)

    def test_packages_that_are_missing_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            # An environment of the same Python without any package.
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
            code, text = self.doctor(TITAN_NPU_PYTHON=folder)
        self.assertEqual(code, 3)
        self.assertRegex(text, r"torch cannot be imported by \S+/bin/python: ModuleNotFoundError: [^\n]* set TITAN_NPU_PYTHON")

    def test_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
            (site,) = pathlib.Path(folder).glob("lib/python*/site-packages")
            (site / "torch.py").write_text("__version__ = '1.2.3'\n")
            code, text = self.doctor(TITAN_NPU_PYTHON=folder)
        self.assertEqual(code, 3)
        self.assertRegex(text, r"torch of \S+ is 1\.2\.3, this titan is built for \d")

    def test_an_unknown_route_is_refused(self):
        done = subprocess.run([TITAN, "doctor"], capture_output=True, text=True, timeout=120,
                              env=environment(TITAN_NPU_ROUTE="snake"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertTrue(re.search(r"\[npu\] TITAN_NPU_ROUTE=snake \(exported\)[^\n]*shim or python", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()

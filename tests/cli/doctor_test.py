"""What `titan doctor` and `titan report` say and return: doctor_test.py TITAN_BINARY"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TITAN = pathlib.Path(sys.argv[1]).resolve()


def titan(*words, before=(), **environment):
    return subprocess.run([*before, TITAN, *words], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


def facts(*words, **more):
    ran = titan("doctor", "--json", *words, **more)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


class Doctor(unittest.TestCase):
    def test_json_holds_the_documented_keys(self):
        found = facts()
        self.assertEqual(list(found), ["versions", "cpu", "devices", "disk", "environment"])
        self.assertEqual([d["name"] for d in found["devices"]], ["npu", "cuda"])
        self.assertGreater(found["cpu"]["float32_flops"], 1e8)
        self.assertGreater(found["cpu"]["memory_bytes"], found["cpu"]["memory_resident_bytes"])
        self.assertEqual(found["cpu"]["health"], "good")
        self.assertTrue(any(p["path"] == os.getcwd() for p in found["disk"]))

    def test_counts_the_cores_this_process_may_use(self):
        core = str(min(os.sched_getaffinity(0)))
        cpu = facts(before=["taskset", "-c", core])["cpu"]
        self.assertEqual(cpu["cores"], 1)
        self.assertEqual(cpu["threads"], 1 if "OMP_NUM_THREADS" not in os.environ else int(os.environ["OMP_NUM_THREADS"]))

    def test_threads_in_force_follow_the_setting_and_its_reason_is_told(self):
        cpu = facts(TITAN_THREADS="3")["cpu"]
        self.assertEqual(cpu["threads"], 3)
        self.assertIn("TITAN_THREADS", cpu["threads_reason"])

    def test_shows_every_variable_set_or_not(self):
        environment = facts(NO_COLOR="yes", RANK="")["environment"]
        self.assertEqual(environment["NO_COLOR"], "yes")
        self.assertEqual(environment["RANK"], "")
        table = (pathlib.Path(__file__).parents[2] / "src/base/env.cpp").read_text()
        names = [line.split('"')[1] for line in table.splitlines() if line.startswith('    {"')]
        self.assertGreater(len(names), 15)
        self.assertEqual(sorted(environment), sorted(names))
        text = titan("doctor", NO_COLOR="yes").stdout
        for name in names:
            self.assertIn(f"\n  {name} ", text)

    def test_says_why_a_module_cannot_be_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "libtitan_npu.so").write_bytes(b"no library")
            found = facts(TITAN_MODULES=folder)["devices"][0]
            text = titan("doctor", TITAN_MODULES=folder).stdout
        self.assertTrue(found["built"])
        self.assertFalse(found["usable"])
        self.assertIn("libtitan_npu.so", found["module"])
        self.assertGreater(len(found["reason"]), 10)
        self.assertIn(f"none can be used: {found['reason']}", text)

    def test_json_goes_to_standard_output_alone_also_when_the_device_is_missing(self):
        ran = titan("doctor", "--json", "--device", "npu")
        json.loads(ran.stdout)
        self.assertEqual(ran.returncode, 3)
        self.assertIn("[doctor] device 'npu' cannot be used", ran.stderr)

    def test_ops_are_run_and_agree_with_their_references(self):
        ops = [op for op in facts("--ops")["ops"] if op["device"] == "cpu"]
        self.assertEqual(len(ops), 12)
        self.assertEqual({op["op"] for op in ops},
                         {"linear", "rms_norm", "rope", "attention", "swiglu", "cross_entropy"})
        for op in ops:
            self.assertTrue(op["agrees"], op)
            # Zero would mean that the reference was compared with itself.
            if op["op"] in ("attention", "cross_entropy") and op["dtype"] == "bfloat16":
                self.assertGreater(op["forward_difference"] + op["gradient_difference"], 0, op)
        of = {(op["op"], op["dtype"]): op for op in ops}
        self.assertEqual(of["linear", "float32"]["forward"], ["mm"])
        self.assertTrue(any("flash" in kernel for kernel in of["attention", "float32"]["forward"]), of)
        self.assertTrue(any("backward" in kernel for kernel in of["attention", "float32"]["backward"]), of)

    def test_a_wrong_option_is_named(self):
        ran = titan("doctor", "--jsno")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--jsno", ran.stderr)


class Report(unittest.TestCase):
    def test_writes_beside_the_run_or_where_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder)
            (run / "metrics.jsonl").write_text('{"step":1,"loss":2.5}\n')
            self.assertEqual(titan("report", run).returncode, 0)
            self.assertIn("2.50000", (run / "report.html").read_text(encoding="utf-8"))
            elsewhere = run / "other.html"
            self.assertEqual(titan("report", run, "--output", elsewhere, "--language=zh").returncode, 0)
            self.assertIn("训练报告", elsewhere.read_text(encoding="utf-8"))

    def test_bad_input_is_named_and_nothing_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder)
            for words, said in (([run], "metrics.jsonl"), ([run / "absent"], "absent"), ([], "run_folder"),
                                ([run, "--language", "fr"], "'fr'"), ([run, "--outptu", "x"], "--outptu")):
                ran = titan("report", *words)
                self.assertEqual(ran.returncode, 2, words)
                self.assertIn(said, ran.stderr)
                self.assertEqual(ran.stdout, "")
            self.assertEqual(list(run.iterdir()), [])

    def test_a_file_that_cannot_be_written_is_an_environment_error(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "metrics.jsonl").write_text('{"step":1,"loss":2.5}\n')
            ran = titan("report", folder, "--output", "/proc/none/report.html")
            self.assertIn(ran.returncode, (2, 3))
            self.assertIn("/proc/none/report.html", ran.stderr)


if __name__ == "__main__":
    assert shutil.which("taskset"), "taskset of util-linux is needed"
    unittest.main(argv=sys.argv[:1])

"""What `titan doctor` and `titan report` say and return: doctor_test.py TITAN_BINARY"""
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
        self.assertEqual(list(found), ["versions", "cpu", "devices", "network", "disk", "environment"])
        self.assertEqual([d["name"] for d in found["devices"]], ["npu", "cuda"])
        self.assertGreater(found["cpu"]["float32_flops"], 1e8)
        self.assertGreater(found["cpu"]["memory_bytes"], found["cpu"]["memory_resident_bytes"])
        self.assertEqual(found["cpu"]["health"], "good")
        self.assertGreater(found["cpu"]["memory_speed"]["copy_bytes_per_s"], 1e7)
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
        self.assertTrue(any("CpuAttention" in kernel for kernel in of["attention", "float32"]["backward"]), of)

    def test_a_wrong_option_is_named(self):
        ran = titan("doctor", "--jsno")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--jsno", ran.stderr)


class AllReduce(unittest.TestCase):
    def test_sums_are_right_on_the_cpu(self):
        ran = titan("doctor", "--json", "--device", "cpu", "--all-reduce", "3")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = json.loads(ran.stdout)["all_reduce"]
        self.assertTrue(found["ready"])
        self.assertEqual([r["rank"] for r in found["ranks"]], [0, 1, 2])
        self.assertEqual({r["doing"] for r in found["ranks"]}, {"done"})
        self.assertEqual(found["sizes"][0]["bytes"], 4096)
        for size in found["sizes"]:
            self.assertAlmostEqual(size["bus_bytes_per_s"] * size["seconds"], 2 * 2 / 3 * size["bytes"], delta=1)
        text = titan("doctor", "--device", "cpu", "--devices", "0,1").stdout
        self.assertIn("all-reduce over 2 ranks", text)
        self.assertIn("all sums are right", text)

    def test_bad_words(self):
        for words, said in ((["--all-reduce", "0"], "--all-reduce"), (["--devices", "0,x"], "--devices"),
                            (["--devices", "1,1"], "device 1 twice"), (["--all-reduce", "2", "--devices", "0"], "--devices")):
            ran = titan("doctor", *words)
            self.assertEqual(ran.returncode, 2, words)
            self.assertIn(said, ran.stderr)

    def test_an_interrupt_ends_it_and_its_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([TITAN, "doctor", "--device", "cpu", "--all-reduce", "2"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": folder})
            mine = lambda: [p for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and self.runs_in(p, folder)]
            deadline = time.monotonic() + 60
            while len(mine()) < 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, -signal.SIGINT)
            while mine() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(mine(), [])

    @staticmethod
    def runs_in(process, folder):
        try:
            return f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            return False


class Network(unittest.TestCase):
    def findings(self, code=0, device="cpu", **variables):
        ran = titan("doctor", "--json", "--device", device, **variables)
        self.assertEqual(ran.returncode, code, ran.stderr)
        found = json.loads(ran.stdout)["network"]
        return [f["what"] for f in found["findings"]], [f["what"] for f in found["hccl_findings"]], ran.stderr

    def test_a_taken_master_port(self):
        with socket.socket() as listener:
            listener.bind(("", 0))
            listener.listen()
            port = str(listener.getsockname()[1])
            what, _, errors = self.findings(3, MASTER_PORT=port)
            self.assertEqual(what, [f"MASTER_PORT={port} is taken by another process"])
            self.assertIn("network settings", errors)
            self.assertEqual(self.findings(MASTER_PORT=port, MASTER_ADDR="192.0.2.1")[0], [])  # of another host
            base = str(int(port) - 5)
            self.assertEqual(self.findings(HCCL_IF_BASE_PORT=base)[1],
                             [f"port {port} is taken; HCCL needs {base} to {int(base) + 31} (HCCL_IF_BASE_PORT={base})"])
        self.assertEqual(self.findings(MASTER_PORT=port)[0], [])
        self.assertEqual(self.findings(3, MASTER_PORT="70000")[0], ["MASTER_PORT=70000 is no port"])

    def test_interfaces_and_addresses_of_hccl(self):
        for value, wrong in (("lo", False), ("=lo", False), ("=l", True), ("nothere", True), ("nothere,lo", False), ("^nothere", False)):
            found = self.findings(HCCL_SOCKET_IFNAME=value)[1]
            self.assertEqual(found, [f"HCCL_SOCKET_IFNAME={value} is no network interface here"] if wrong else [], value)
        self.assertEqual(self.findings(HCCL_IF_IP="127.0.0.1")[1], [])
        self.assertEqual(self.findings(HCCL_IF_IP="192.0.2.1")[1], ["HCCL_IF_IP=192.0.2.1 is no address of this host"])
        self.assertEqual(self.findings(HCCL_IF_IP="host")[1], ["HCCL_IF_IP=host is no IP address"])

    def test_rank_tables(self):
        def device(rank, identity=None, ip=None):
            return {"device_id": str(rank if identity is None else identity), "device_ip": ip or f"10.0.0.{rank + 1}", "rank_id": str(rank)}

        def table(*devices, count="1", **more):
            return json.dumps({"version": "1.0", "server_count": count, "status": "completed",
                               "server_list": [{"server_id": "a", "device": list(devices)}], **more})
        good = table(device(0), device(1))
        for text, said in ((good, []), ("{", ["it is no JSON"]), ("{}", ["it has no list server_list"]),
                           (table(device(0), count="2"), ["server_count is 2, server_list has 1"]),
                           (table(device(0), device(0, 1, "10.0.0.9")), ["rank 0 is there twice"]),
                           (table(device(0), device(2)), ["its 2 ranks are not 0 to 1"]),
                           (table(device(0), device(1, 0)), ["device_id 0 of server a is there twice"]),
                           (table(device(0), device(1, ip="10.0.0.1")), ["ranks 0 and 1 have one device_ip, 10.0.0.1"]),
                           (table(device(0, ip="10.0.0.300")), ["device_ip 10.0.0.300 of rank 0 is no IP address"]),
                           (table(device(0), status="initializing"), ['status is "initializing", not "completed"'])):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(text)
                file.flush()
                self.assertEqual(self.findings(RANK_TABLE_FILE=file.name)[1], [f"RANK_TABLE_FILE={file.name}: {s}" for s in said])
        self.assertEqual(self.findings(RANK_TABLE_FILE="/none")[1], ["RANK_TABLE_FILE=/none does not exist"])


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

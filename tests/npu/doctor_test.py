#!/usr/bin/env python3
"""`titan doctor` on emulated NPUs, well and ill.

    doctor_test.py PATH_OF_TITAN [unittest arguments]
"""
import json
import subprocess
import time
import unittest

from emulated import TITAN, environment


class Doctor(unittest.TestCase):
    def doctor(self, *words, timeout=60, **variables):
        return subprocess.run([TITAN, "doctor", "--json", "--device", "npu", *words], capture_output=True, text=True,
                              timeout=timeout, env=environment(**variables))

    def fails(self, code, *words, said=(), **variables):
        done = self.doctor(*words, **variables)
        self.assertEqual(done.returncode, code, done.stdout[-1500:] + done.stderr[-2000:])
        for text in said:
            self.assertRegex(done.stderr.splitlines()[-1], text)
        return json.loads(done.stdout)["all_reduce"] if done.stdout else None

    def test_sums_and_speeds_of_two_devices(self):
        done = self.doctor("--devices", "2,5")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertTrue(found["all_reduce"]["ready"])
        self.assertEqual([r["device"] for r in found["all_reduce"]["ranks"]], ["npu:2", "npu:5"])
        npu = next(d for d in found["devices"] if d["name"] == "npu")
        for speeds in (npu["memory_speed"], found["all_reduce"]["ranks"][1]["memory_speed"]):
            for key in ("copy_bytes_per_s", "to_device_bytes_per_s", "to_host_bytes_per_s"):
                self.assertGreater(speeds[key], 1e7)
                self.assertLess(speeds[key], 1e12)  # the host's memory; more means that nobody waited for the copies
        for size in found["all_reduce"]["sizes"]:
            self.assertLess(size["bus_bytes_per_s"], 1e12)

    def test_a_device_that_does_not_exist(self):
        found = self.fails(3, "--devices", "0,9", "--time-limit", "30", said=(r"rank 1 \(device 9\)", "npu:9 does not exist"))
        self.assertFalse(found["ready"])

    def test_a_collective_that_is_stuck_on_one_device(self):
        begun = time.monotonic()
        found = self.fails(3, "--all-reduce", "2", "--time-limit", "9", said=(r"rank 0 \(npu:0\) and rank 1|rank 0 \(npu:0\), rank 1", "an all-reduce of 4.0 KiB"),
                           CANNEMU_FAULT="collective-stuck:HcclAllReduce@1/rank1")
        self.assertLess(time.monotonic() - begun, 40)
        self.assertFalse(found["ready"])

    def test_a_device_that_fails_is_named(self):
        self.fails(3, "--all-reduce", "2", "--time-limit", "9", said=(r"rank 1 \(npu:1\)", "health|matrix|507015|AI core"),
                   CANNEMU_FAULT="kernel:aclnnMm@1/rank1;kernel:aclnnMatmul@1/rank1")


if __name__ == "__main__":
    unittest.main()

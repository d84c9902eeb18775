#!/usr/bin/env python3
"""Two hosts of NPUs: two network namespaces, HCCL over TCP between them.

    hosts_test.py PATH_OF_TITAN [unittest arguments]
"""
import unittest

from emulated import NPU, NpuJobs, layout, stats
from hosts import HostPair


class TwoNpuHosts(HostPair, NpuJobs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tables = ["192.168.213.1 host-a\n", "192.168.213.2 host-b\n"]

    def start_on_both(self, folder, mesh, keys=None, **variables):
        """The ranks of `mesh`, half of them on each host, with torchrun's variables."""
        world, degrees = mesh
        local = world // 2
        files = [self.hosts_file(host, text) for host, text in enumerate(self.tables)]
        return [self.start_rank(folder, rank, world, 29400, {**degrees, **NPU, "comm.init_timeout_seconds": 20, **(keys or {})},
                                host="192.168.213.1", prefix=self.on(rank // local, files[rank // local]),
                                LOCAL_RANK=rank % local, LOCAL_WORLD_SIZE=local, GROUP_RANK=rank // local, GROUP_WORLD_SIZE=2,
                                **{"CANNEMU_TRANSPORT": "tcp", **variables})
                for rank in range(world)]

    def ends_like_one_host(self, mesh):
        folder = self.folder()
        counts = self.root / "calls_%r.json"
        for process in self.start_on_both(folder, mesh, CANNEMU_STATS=counts):
            out, errors = process.communicate(timeout=90)
            self.assertEqual(process.returncode, 0, out[-2000:] + errors[-3000:])
        self.assertEqual(self.series(self.npu(mesh)), self.series(folder), "two hosts against one")
        self.assert_equal_runs(self.reference(), folder, "two hosts against one process on the CPU")
        for rank in range(mesh[0]):
            calls = stats(str(counts).replace("%r", str(rank)))
            self.assertTrue(any(name.startswith("HcclAllReduce") for name in calls), calls.keys())

    def test_one_npu_on_each_host(self):
        self.ends_like_one_host(layout(shard=2))

    def test_two_npus_on_each_host(self):
        self.ends_like_one_host(layout(shard=2, tp=2))

    def test_hccl_without_a_network_transport_does_not_reach_the_other_host(self):
        # The ranks have met; what they cannot do is what the tests above prove.
        begun = self.start_on_both(self.folder(), layout(shard=2), {"comm.init_timeout_seconds": 3,
                                                                   "npu.hccl_connect_timeout_seconds": 120},
                                   HCCL_CONNECT_TIMEOUT=3, CANNEMU_TRANSPORT="unix", TMPDIR=str(self.root))
        self.assertNotEqual([p.wait(timeout=60) for p in begun], [0, 0])


if __name__ == "__main__":
    unittest.main()

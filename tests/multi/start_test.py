#!/usr/bin/env python3
"""Jobs started by others than `titan launch`: torchrun, Slurm's and MPI's variables, IPv6, two hosts.

    start_test.py PATH_OF_TITAN [unittest arguments]

Torchrun needs the torch package in the interpreter that runs this; two hosts are two network namespaces, for which one must
be root. Both are skipped with the reason where they cannot be had.
"""
import importlib.util
import os
import socket
import subprocess
import sys
import unittest

from hosts import HostPair
from jobs import TITAN, Jobs, environment, free_port, gap, layout

SHARD2 = layout(shard=2)[1]


class Started(Jobs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = None

    def equals_one_process(self, folder):
        cls = type(self)
        cls.expected = cls.expected or self.series(self.train(layout()))
        self.assertLessEqual(gap(cls.expected, self.series(folder)), 1e-6)

    def all_end_well(self, processes):
        for process in processes:
            out, errors = process.communicate(timeout=90)
            self.assertEqual(process.returncode, 0, out[-2000:] + errors)
        return out


class Start(Started):
    def started_by(self, variables):
        """Two processes that know of each other by `variables(rank)` alone."""
        folder = self.folder()
        self.all_end_well([self.start([TITAN, *self.train_words(folder, SHARD2)], environment(**variables(rank)))
                           for rank in range(2)])
        self.equals_one_process(folder)

    def test_slurm(self):
        port = free_port()
        self.started_by(lambda rank: dict(
            SLURM_PROCID=rank, SLURM_NTASKS=2, SLURM_LOCALID=rank, SLURM_NODEID=0, SLURM_JOB_ID=12345,
            SLURM_STEP_NODELIST="localhost", SLURM_STEP_TASKS_PER_NODE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port))

    def test_slurm_finds_the_host_and_the_port_itself(self):
        # 29500 + job id mod 1000 of a job whose port is free.
        job = next(number for number in range(4000 + os.getpid() % 500, 5000) if self.is_free(29500 + number % 1000))
        self.started_by(lambda rank: dict(
            SLURM_PROCID=rank, SLURM_NTASKS=2, SLURM_LOCALID=rank, SLURM_NODEID=0, SLURM_JOB_ID=job,
            SLURM_STEP_NODELIST="localhost", SLURM_STEP_TASKS_PER_NODE=2))

    @staticmethod
    def is_free(port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                return False
        return True

    def test_open_mpi(self):
        port = free_port()
        self.started_by(lambda rank: dict(
            OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_LOCAL_RANK=rank, OMPI_COMM_WORLD_LOCAL_SIZE=2,
            MASTER_PORT=port))

    def test_mpich_and_intel_mpi(self):
        port = free_port()
        self.started_by(lambda rank: dict(PMI_RANK=rank, PMI_SIZE=2, MPI_LOCALRANKID=rank, MPI_LOCALNRANKS=2,
                                          MASTER_ADDR="127.0.0.1", MASTER_PORT=port))

    def test_ipv6_with_and_without_brackets(self):
        try:
            port = free_port("::1")
        except OSError as error:
            self.skipTest(f"no IPv6 loopback: {error}")
        for host in ("::1", "[::1]"):
            folder, port = self.folder(), free_port("::1")
            self.all_end_well([self.start_rank(folder, rank, 2, port, SHARD2, host=host) for rank in range(2)])
            self.equals_one_process(folder)

    def test_a_rank_in_the_wrong_place_is_not_equal(self):
        # What the tests above compare does depend on who takes part.
        folder, port = self.folder(), free_port()
        self.all_end_well([self.start_rank(folder, rank, 2, port, {**SHARD2, "debug.seed": 8}) for rank in range(2)])
        self.assertGreater(gap(self.expected or self.series(self.train(layout())), self.series(folder)), 1e-6)


class Torchrun(Started):
    def setUp(self):
        super().setUp()
        if not importlib.util.find_spec("torch"):
            self.skipTest(f"{sys.executable} has no torch package")

    def torchrun(self, folder, *options):
        return self.start([sys.executable, "-m", "torch.distributed.run", *options, "--no-python", TITAN,
                           *self.train_words(folder, {**SHARD2, "training.local_batch_size": 2})])

    def test_one_host(self):
        folder = self.folder()
        self.all_end_well([self.torchrun(folder, "--nproc-per-node", "2", "--master-port", str(free_port()))])
        self.equals_one_process(folder)

    def test_standalone(self):
        folder = self.folder()
        self.all_end_well([self.torchrun(folder, "--standalone", "--nproc-per-node", "2")])
        self.equals_one_process(folder)

    def test_two_nodes(self):
        folder, port = self.folder(), str(free_port())
        self.all_end_well([self.torchrun(folder, "--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1",
                                         "--master-port", port, "--nproc-per-node", "1") for node in range(2)])
        self.equals_one_process(folder)


class TwoHosts(HostPair, Started):
    """Ranks that reach each other over a network only."""

    def run_on_both(self, master, tables):
        """Two ranks on each host with torchrun's variables."""
        folder = self.folder()
        degrees = layout(shard=2, tp=2)[1]
        files = [self.hosts_file(host, text) for host, text in enumerate(tables)]
        ranks = []
        for rank in range(4):
            host = rank // 2
            ranks.append(self.start_rank(folder, rank, 4, 29400, {**degrees, "comm.init_timeout_seconds": 20}, host=master,
                                         prefix=self.on(host, files[host]), LOCAL_RANK=rank % 2, LOCAL_WORLD_SIZE=2,
                                         GROUP_RANK=host, GROUP_WORLD_SIZE=2, ROLE_RANK=rank, ROLE_WORLD_SIZE=4))
        self.all_end_well(ranks)
        self.equals_one_process(folder)

    def test_by_address(self):
        self.run_on_both("192.168.213.1", ["192.168.213.1 host-a\n", "192.168.213.2 host-b\n"])

    def test_by_name(self):
        both = "192.168.213.1 host-a\n192.168.213.2 host-b\n"
        self.run_on_both("host-a", [both, both])

    def test_own_names_that_stand_for_127_0_1_1(self):
        self.run_on_both("192.168.213.1", ["127.0.1.1 host-a\n", "127.0.1.1 host-b\n"])

    def test_a_master_whose_own_name_stands_for_127_0_1_1_at_home(self):
        self.run_on_both("host-a", ["127.0.1.1 host-a\n192.168.213.2 host-b\n", "127.0.1.1 host-b\n192.168.213.1 host-a\n"])

    def test_the_other_host_is_another_host(self):
        # Loopback is not shared, or these tests would prove nothing.
        file = self.hosts_file(1, "")
        rank = self.start_rank(self.folder(), 1, 2, 29400, {**SHARD2, "comm.init_timeout_seconds": 2}, prefix=self.on(1, file))
        _, errors = rank.communicate(timeout=30)
        self.assertEqual(rank.returncode, 3, errors)
        self.assertIn("cannot reach rank 0 at 127.0.0.1:29400", errors)


if __name__ == "__main__":
    unittest.main()

"""Two hosts on one machine: network namespaces with a cable between them, each with its own loopback and host name. Needs root."""
import contextlib
import os
import subprocess
import unittest

from jobs import Jobs


class HostPair(Jobs):
    """Skipped with the reason where namespaces cannot be made."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces need root")
        cls.names = [f"titan{os.getpid()}{end}" for end in "ab"]
        cls.addresses = ["192.168.213.1", "192.168.213.2"]
        cls.cleanup = contextlib.ExitStack()
        cls.addClassCleanup(cls.cleanup.close)
        try:
            for name in cls.names:
                cls.ip("netns", "add", name)
                cls.cleanup.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
            ends = [f"tt{os.getpid()}{end}"[:15] for end in "ab"]
            cls.ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            for name, end, address in zip(cls.names, ends, cls.addresses):
                cls.ip("link", "set", end, "netns", name)
                for words in (["addr", "add", address + "/24", "dev", end], ["link", "set", end, "up"], ["link", "set", "lo", "up"]):
                    cls.ip("-n", name, *words)
        except (OSError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(f"no network namespaces here: {getattr(error, 'stderr', '') or error}")

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def hosts_file(self, host, text):
        path = self.root / f"hosts_{host}_{self.id().rsplit('.', 1)[1]}"
        path.write_text("127.0.0.1 localhost\n" + text)
        return path

    def on(self, host, hosts):
        """Words before a command that put it on that host: its network, its name, its /etc/hosts."""
        script = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "sh", "-c", script, hosts, f"host-{'ab'[host]}"]

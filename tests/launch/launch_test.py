"""Jobs under `titan launch`: what is printed and logged, how failures end the others, and that nothing is left behind.

Usage: launch_test.py LAUNCH_TOOL [unittest arguments]. The ranks run shell code; each notes its process in $PIDS.
"""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = sys.argv.pop(1)
PYTHON = shlex.quote(sys.executable)
SLOW_MACHINE_S = 60  # for what must happen at all
ENDED_S = 10  # for what the launcher promises


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition, limit_s, what):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(0.02)


class Job:
    """A running launcher. `script` runs in every rank."""

    def __init__(self, folder, script, nproc=2, options=(), environment=None, before=(), **popen):
        self.folder = pathlib.Path(folder)
        self.pids_folder = self.folder / "pids"
        self.pids_folder.mkdir(exist_ok=True)
        self.nproc = nproc
        variables = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        variables.update({"PIDS": str(self.pids_folder), "FOLDER": str(self.folder)}, **(environment or {}))
        script = 'note() { echo $2 > $PIDS/$1.new; mv $PIDS/$1.new $PIDS/$1; }; note rank$RANK $$; ' + script
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [*before, TOOL, "launch", "-n", str(nproc), "--log-dir", str(self.folder / "logs"), *options, "--", "sh", script],
            env=variables, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **popen})

    def end(self, limit_s=SLOW_MACHINE_S):
        self.out, self.err = self.process.communicate(timeout=limit_s)
        self.seconds = time.monotonic() - self.begin
        return self.process.returncode

    def noted(self, name):
        return (self.pids_folder / name).exists()

    def wait_for(self, *names):
        for name in names or [f"rank{rank}" for rank in range(self.nproc)]:
            wait_until(lambda: self.noted(name), SLOW_MACHINE_S, f"{name} begins")

    def pids(self):
        return {path.name: int(path.read_text()) for path in self.pids_folder.iterdir() if not path.name.endswith(".new")}

    def left(self):
        return [name for name, pid in self.pids().items() if alive(pid)]

    def log(self, rank):
        return (self.folder / "logs" / f"rank_{rank}.log").read_bytes()


class LaunchTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="launch-test-")
        self.folder = self.temporary.name
        self.jobs = []

    def tearDown(self):
        for job in self.jobs:
            if job.process.poll() is None:
                job.process.kill()
            job.process.communicate()
            for pid in job.pids().values():
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)
        self.temporary.cleanup()

    def start(self, script, **options):
        self.jobs.append(Job(self.folder, script, **options))
        return self.jobs[-1]

    def run_job(self, script, **options):
        job = self.start(script, **options)
        job.code = job.end()
        return job

    def assert_nothing_left(self, job, limit_s=ENDED_S):
        wait_until(lambda: not job.left(), limit_s, f"gone: {job.left()}")


class Environment(LaunchTest):
    def test_each_rank_knows_its_place(self):
        job = self.run_job('echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT', nproc=3,
                           options=["--log-ranks", "all"], environment={"RANK": "7", "MASTER_ADDR": "elsewhere"})
        self.assertEqual(job.code, 0, job.err)
        lines = sorted(job.out.decode().splitlines())
        port = lines[0].split()[-1]
        self.assertGreater(int(port), 0)
        self.assertEqual(lines, [f"[rank{r}]:{r}/3 {r}/3 127.0.0.1 {port}" for r in range(3)])
        self.assertIn(f"127.0.0.1:{port}", job.err.decode())

    def test_torchruns_store_is_not_that_of_the_ranks(self):
        job = self.run_job('echo $TORCHELASTIC_USE_AGENT_STORE', environment={"TORCHELASTIC_USE_AGENT_STORE": "True"})
        self.assertEqual(job.out, b"[rank0]:False\n")

    def test_the_users_threads_are_kept(self):
        job = self.run_job('echo $OMP_NUM_THREADS', environment={"OMP_NUM_THREADS": "3"})
        self.assertEqual(job.out, b"[rank0]:3\n")

    def test_standard_input_is_empty(self):
        self.assertEqual(self.run_job('cat; echo end', stdin=None).out, b"[rank0]:end\n")

    def test_rank_0_can_listen_at_the_port_on_every_address(self):
        code = ("import os, socket; p = int(os.environ['MASTER_PORT'])\n"
                "for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET, ''), (socket.AF_INET6, '::')):\n"
                "    try: s = socket.socket(family)\n"
                "    except OSError: continue\n"
                "    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((host, p)); s.listen(); s.close()\n"
                "print('listened')")
        job = self.run_job(f"{PYTHON} -c {shlex.quote(code)}", nproc=1)
        self.assertEqual((job.code, job.out), (0, b"[rank0]:listened\n"), job.err)

    def test_a_given_port_is_used(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        job = self.run_job('echo $MASTER_PORT', options=["--master-port", str(port)])
        self.assertEqual((job.code, job.out), (0, f"[rank0]:{port}\n".encode()), job.err)

    def test_a_taken_port_is_named_before_any_rank_starts(self):
        for address in ("127.0.0.1", "0.0.0.0"):
            with socket.socket() as taken:
                taken.bind((address, 0))
                taken.listen()
                port = taken.getsockname()[1]
                job = self.run_job('true', options=["--master-port", str(port)])
            self.assertEqual(job.code, 3)
            self.assertRegex(job.err.decode(), rf"port {port} .*taken by another process")
            self.assertFalse(job.pids())


class Lines(LaunchTest):
    def test_rank_0_is_shown_and_all_are_logged(self):
        job = self.run_job('echo out$RANK; echo err$RANK >&2', nproc=3)
        self.assertEqual(job.out, b"[rank0]:out0\n")
        self.assertIn(b"[rank0]:err0\n", job.err)
        self.assertNotIn(b"err1", job.err)
        for rank in range(3):
            self.assertEqual(sorted(job.log(rank).decode().split()), [f"err{rank}", f"out{rank}"])

    def test_chosen_ranks_without_prefix(self):
        job = self.run_job('echo out$RANK', nproc=3, options=["--log-ranks", "1,2", "--no-prefix"])
        self.assertEqual(sorted(job.out.split()), [b"out1", b"out2"])

    def test_the_bytes_of_a_line_are_kept(self):
        job = self.run_job(r"printf 'a\377\300b\r\n\n\000c\nlast'")
        content = b"a\xff\xc0b\r\n\n\x00c\nlast\n"
        self.assertEqual(job.log(0), content)
        self.assertEqual(job.out, b"".join(b"[rank0]:" + line + b"\n" for line in content[:-1].split(b"\n")))

    def test_long_lines_of_several_ranks_stay_whole(self):
        length = 1_000_000
        code = f"import os; [print(os.environ['RANK'] * {length}) for _ in range(3)]"
        job = self.run_job(f"{PYTHON} -c {shlex.quote(code)}", nproc=3, options=["--log-ranks", "all"])
        expected = [f"[rank{r}]:".encode() + str(r).encode() * length for r in range(3) for _ in range(3)]
        self.assertEqual(sorted(job.out.splitlines()), expected)

    def test_a_line_comes_at_once(self):
        job = self.start('echo first; echo partly | tr -d "\\n"; note written$RANK $$; sleep 1000')
        self.assertEqual(job.process.stdout.readline(), b"[rank0]:first\n")
        job.wait_for("written0")
        self.assertEqual(job.log(0), b"first\n")
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end(), 143)
        self.assertEqual(job.out, b"[rank0]:partly\n")

    def test_no_colours_without_a_terminal(self):
        self.assertNotIn(b"\033", self.run_job('echo x', environment={"TERM": "xterm"}).out)

    def test_logs_are_appended_to(self):
        self.run_job('echo once')
        self.assertEqual(self.run_job('echo twice').log(1), b"once\ntwice\n")

    def test_a_closed_terminal_does_not_end_the_run(self):
        job = self.start('echo first; until [ -e $FOLDER/go ]; do sleep 0.05; done; seq 20000; exit 0')
        self.assertEqual(job.process.stdout.readline(), b"[rank0]:first\n")
        job.process.stdout.close()
        job.process.stdout = None
        (job.folder / "go").touch()
        self.assertEqual(job.end(), 0)
        self.assertTrue(job.log(0).endswith(b"\n20000\n"))

    def test_a_log_folder_that_cannot_be_made_is_an_error(self):
        job = self.run_job('true', options=["--log-dir", "/proc/none"])
        self.assertEqual(job.code, 2, job.err)  # given twice
        (job.folder / "logs").write_text("a file")
        job = self.run_job('true')
        self.assertEqual(job.code, 3)
        self.assertRegex(job.err.decode(), "cannot make the folder .*logs")
        self.assertFalse(job.pids())


class Failures(LaunchTest):
    def test_the_first_failing_ranks_error_comes_last(self):
        job = self.run_job('if [ $RANK = 1 ]; then until [ -e $PIDS/ready0 ]; do sleep 0.02; done; echo "what went wrong" >&2; '
                           'exit 5; fi; trap "echo stopped; exit 9" TERM; note ready$RANK $$; while :; do sleep 0.05; done', nproc=3)
        self.assertEqual(job.code, 5)
        self.assertLess(job.seconds, ENDED_S)
        lines = job.err.decode().splitlines()
        self.assertEqual(lines[-1], "[rank1]:what went wrong")
        self.assertRegex(lines[-2], r"rank 1 failed first, with exit code 5; log: .*logs/rank_1\.log")
        self.assertEqual(job.out, b"[rank0]:stopped\n")
        self.assert_nothing_left(job)

    def test_ranks_that_ignore_sigterm_are_killed(self):
        job = self.run_job("trap '' TERM; [ $RANK = 2 ] && { until [ -e $PIDS/rank0 ] && [ -e $PIDS/rank1 ]; do sleep 0.02; "
                           "done; exit 1; }; sleep 1000", nproc=3)
        self.assertEqual(job.code, 1)
        self.assertLess(job.seconds, ENDED_S)
        self.assertFalse(job.left())

    def test_a_signal_is_named(self):
        for number, name in ((signal.SIGSEGV, "SIGSEGV"), (signal.SIGKILL, "SIGKILL"), (signal.SIGABRT, "SIGABRT")):
            job = self.run_job(f'ulimit -c 0; [ $RANK = 0 ] && {{ echo before >&2; kill -{int(number)} $$; }}; sleep 1000')
            self.assertEqual(job.code, 128 + number)
            self.assertRegex(job.err.decode(), f"rank 0 failed first, with {name}")
            self.assertTrue(job.err.endswith(b"\n[rank0]:before\n"))
            self.assertFalse(job.left())

    def test_without_standard_error_the_output_is_shown(self):
        job = self.run_job('[ $RANK = 1 ] && { echo "said so"; exit 4; }; sleep 1000')
        self.assertRegex(job.err.decode(), r"the last lines of its output:\n\[rank1\]:said so\n$")

    def test_of_two_failures_the_earlier_counts(self):
        # The launcher is stopped while both happen, so it finds them together.
        job = self.start('until [ -e $FOLDER/fail$RANK ]; do sleep 0.02; done; exit 1$RANK', nproc=4)
        job.wait_for()
        job.process.send_signal(signal.SIGSTOP)
        for rank in (2, 0, 1):
            (job.folder / f"fail{rank}").touch()
            wait_until(lambda: not alive(job.pids()[f"rank{rank}"]), SLOW_MACHINE_S, f"rank {rank} fails")
        job.process.send_signal(signal.SIGCONT)
        self.assertEqual(job.end(), 12)
        self.assertIn("failed after it: rank 0 (exit code 10), rank 1 (exit code 11)", job.err.decode())

    def test_a_command_that_cannot_be_executed_says_so(self):
        job = self.run_job('exec /nowhere/program')
        self.assertEqual(job.code, 127)
        self.assertIn("/nowhere/program", job.err.decode().splitlines()[-1])

    def test_a_stalled_terminal_does_not_keep_the_ranks(self):
        job = self.start('trap "" TERM; if [ $RANK = 1 ]; then until [ -e $FOLDER/go ]; do sleep 0.02; done; exit 3; fi; '
                         'while :; do echo "a line that nobody reads"; done')
        job.wait_for()
        time.sleep(1)  # the pipe to us fills up
        (job.folder / "go").touch()
        self.assert_nothing_left(job)
        self.assertEqual(job.end(), 3)


class Stopping(LaunchTest):
    COUNTING = ('n=0; trap "n=\\$((n+1)); echo got\\$n" TERM INT; note ready$RANK $$; '
                'until [ $n -gt 0 ]; do sleep 0.05; done; sleep 0.5; sleep 0.5; echo finished; exit ')

    def ready(self, job):
        job.wait_for(*[f"ready{rank}" for rank in range(job.nproc)])

    def test_a_signal_is_passed_on_once_and_the_ranks_finish(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(number):
                self.tearDown()
                self.setUp()
                job = self.start(self.COUNTING + str(code), options=["--log-ranks", "all"])
                self.ready(job)
                job.process.send_signal(number)
                self.assertEqual(job.end(), code)
                self.assertEqual(sorted(job.out.decode().splitlines()),
                                 [f"[rank{r}]:{w}" for r in (0, 1) for w in ("finished", "got1")])
                self.assertNotIn("failed", job.err.decode())
                self.assertFalse(job.left())

    def test_ranks_that_finish_all_the_same_are_a_success(self):
        job = self.start(self.COUNTING + "0")
        self.ready(job)
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end(), 0)

    def test_a_failure_while_stopping_is_a_failure(self):
        job = self.start(self.COUNTING + "$((RANK * 6 + 143 * (1 - RANK)))")
        self.ready(job)
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end(), 6)
        self.assertIn("rank 1 failed first, with exit code 6", job.err.decode())

    def test_the_second_signal_kills(self):
        job = self.start("trap '' TERM INT; note ready$RANK $$; sleep 1000")
        self.ready(job)
        job.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        self.assertIsNone(job.process.poll())
        begin = time.monotonic()
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end(), 143)
        self.assertLess(time.monotonic() - begin, ENDED_S)
        self.assertFalse(job.left())

    def test_timeouts_double_signal_counts_once(self):
        job = self.start(self.COUNTING + "143", before=["timeout", "2"])
        self.assertEqual(job.end(), 124)
        self.assertEqual(job.out, b"[rank0]:got1\n[rank0]:finished\n")

    def test_a_hang_up_stops_and_nohup_does_not(self):
        job = self.start(self.COUNTING + "143")
        self.ready(job)
        job.process.send_signal(signal.SIGHUP)
        self.assertEqual(job.end(), 143)
        self.tearDown()
        self.setUp()
        job = self.start(self.COUNTING + "143", before=["nohup"])
        self.ready(job)
        job.process.send_signal(signal.SIGHUP)
        time.sleep(1)
        self.assertEqual(len(job.left()), 4)
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end(), 143)


class NoOrphans(LaunchTest):
    GRANDCHILDREN = 'sleep 1000 & note grandchild$RANK $!; '

    def names(self, job):
        return [f"{kind}{rank}" for kind in ("rank", "grandchild") for rank in range(job.nproc)]

    def test_a_killed_launcher_takes_all_with_it(self):
        job = self.start(self.GRANDCHILDREN + "trap '' TERM INT HUP; note ready$RANK $$; while :; do sleep 0.1; done", nproc=3)
        job.wait_for(*[f"ready{r}" for r in range(3)], *self.names(job))
        self.assertEqual(len(set(job.pids().values())), 6)
        self.assertTrue(all(alive(pid) for pid in job.pids().values()))
        job.process.kill()
        self.assertEqual(job.end(ENDED_S), -signal.SIGKILL)  # so nobody keeps the pipes either
        self.assert_nothing_left(job)

    def test_the_ranks_end_with_the_launcher_by_themselves(self):
        # Without the process that watches over them.
        job = self.start("trap '' TERM INT HUP; note ready$RANK $$; while :; do sleep 0.1; done")
        job.wait_for("ready0", "ready1")
        launcher = job.process.pid
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        guardians = [int(pid) for pid in children if int(pid) not in job.pids().values()]
        self.assertEqual(len(guardians), 1)
        os.kill(guardians[0], signal.SIGKILL)
        job.process.kill()
        self.assert_nothing_left(job)

    def test_a_killed_process_group_takes_all_with_it(self):
        job = self.start(self.GRANDCHILDREN + 'sleep 1000', start_new_session=True)
        job.wait_for(*self.names(job))
        os.killpg(job.process.pid, signal.SIGKILL)
        job.end(ENDED_S)
        self.assert_nothing_left(job)

    def test_a_rank_takes_its_processes_with_it(self):
        job = self.run_job(self.GRANDCHILDREN + 'exit 0')
        self.assertEqual(job.code, 0)
        self.assertFalse(job.left())

    def test_the_ranks_of_a_failed_job_take_theirs(self):
        job = self.run_job(self.GRANDCHILDREN + '[ $RANK = 1 ] && exit 1; trap "exit 1" TERM; sleep 1000')
        self.assertEqual(job.code, 1)
        self.assertFalse(job.left())

    def test_a_process_that_left_the_group_does_not_keep_the_launcher(self):
        job = self.run_job('[ $RANK = 0 ] && setsid sh -c "note() { echo \\$2 > $PIDS/\\$1; }; note escaped \\$\\$; exec sleep 1000" & '
                           'until [ -s $PIDS/escaped ]; do sleep 0.02; done; exit 0', stdout=subprocess.DEVNULL)
        self.assertEqual(job.code, 0)
        self.assertEqual(job.left(), ["escaped"])


if __name__ == "__main__":
    unittest.main()

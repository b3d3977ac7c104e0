"""Signals that mean nothing to a node, signals before training begins, and pipes in place of the files of its directory."""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import PROGRAM

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}


class Signals(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-signals-")
        self.addCleanup(shutil.rmtree, self.directory)

    def start(self, *settings, files=1024):
        node = subprocess.Popen([PROGRAM, f"--set=node.dir={self.directory}/node", "--set=node.listen=127.0.0.1:0", "--set=node.http=",
                                 *settings], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
        self.addCleanup(node.kill)
        return node

    def wait_main(self, node):
        """Until the process handles SIGTERM: the loader of libraries and their own beginnings are over."""
        caught = 0
        while not caught & 1 << signal.SIGTERM - 1:
            with open(f"/proc/{node.pid}/status") as status:
                caught = int(next(line for line in status if line.startswith("SigCgt")).split()[1], 16)

    def wait_line(self, node, word):
        for line in node.stderr:
            if word in line:
                return
        self.fail(f"ended before {word!r}")

    def test_a_signal_at_any_moment_of_the_start_ends_it_with_status_0(self):
        for pause in (0, 0.1, 0.2, 0.4, 0.8):
            for number in (signal.SIGINT, signal.SIGTERM):
                node = self.start("--set=train.steps=0")
                self.wait_main(node)
                time.sleep(pause)  # the scenario
                node.send_signal(number)
                said = node.communicate(timeout=120)[1]
                self.assertEqual(node.returncode, 0, (pause, number, said))

    def test_signals_without_a_meaning_are_ignored(self):
        node = self.start("--set=train.steps=0")
        self.wait_line(node, " start ")
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGHUP):
            node.send_signal(number)
        self.wait_line(node, "reload")  # of SIGHUP: it still runs
        node.send_signal(signal.SIGTERM)
        said = node.communicate(timeout=120)[1]
        self.assertEqual(node.returncode, 0, said)
        self.assertIn("checkpoint", said)

    def test_a_pipe_in_place_of_a_file_blocks_nothing(self):
        for name in ("boot", "joined", "identity", "checkpoint-5.safetensors"):
            shutil.rmtree(f"{self.directory}/node", ignore_errors=True)
            os.mkdir(f"{self.directory}/node")
            os.mkfifo(f"{self.directory}/node/{name}")
            node = self.start("--resume", "--set=train.steps=40")
            said = node.communicate(timeout=120)[1]
            self.assertNotEqual(node.returncode, 0, (name, said))
            self.assertIn(name, said)
            self.assertRegex(said, "is a pipe|not a regular file")

    def test_too_few_open_files_are_told_before_anything_else(self):
        node = self.start("--set=train.steps=4", files=24)
        said = node.communicate(timeout=120)[1]
        self.assertEqual(node.returncode, 1, said)
        self.assertIn("may open 24 files and sockets, expected at least 40", said)
        self.assertFalse(os.path.exists(f"{self.directory}/node"))


if __name__ == "__main__":
    unittest.main()

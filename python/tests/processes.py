"""Programs that train together, each with a log, for the tests."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))

import ports  # noqa: E402

_DEADLINE = float(os.environ.get("TEST_DEADLINE", "inf"))  # of time.monotonic: the runner of the tests ends them soon after


def patience():
    """Seconds to wait for a program, so that a test can still say what went wrong."""
    return max(1.0, min(600.0, _DEADLINE - time.monotonic()))


def free_ports(count):
    return [str(port) for port in ports.free_ports(count)]


class Processes(unittest.TestCase):
    def setUp(self):
        if time.monotonic() > _DEADLINE:
            self.skipTest("those before have used up the time of all")
        self.folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start_program(self, program, index, *arguments, environment=()):
        with open(self.log(index), "ab") as log:
            process = subprocess.Popen([sys.executable, os.path.join(HERE, "patient.py"), program, *map(str, arguments)], stdout=log, stderr=log,
                                       env=dict(os.environ, **dict(environment)))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def log(self, index):
        return os.path.join(self.folder, f"{index}.log")

    def read(self, index):
        with open(self.log(index), encoding="utf-8") as f:
            return f.read()

    def wait_for(self, index, words):
        deadline = time.monotonic() + patience()
        while words not in self.read(index):
            self.assertLess(time.monotonic(), deadline, f"no '{words}' in {self.read(index)[-2000:]}")
            time.sleep(0.05)

    def result(self, process, index, word="accuracy"):
        try:
            self.assertEqual(process.wait(patience()), 0, self.read(index)[-3000:])
        except subprocess.TimeoutExpired:
            self.fail(f"program {index} has not ended, its log: {self.read(index)[-3000:]}")
        return float(re.findall(word + r" ([0-9.]+)", self.read(index))[-1])

"""The example of libp2pml as processes: three train together, and one is killed and comes back."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from cluster import free_ports, signal, wait_until

PROGRAM = os.environ["P2PML_EMBED"]
ROUNDS = 4000  # they take seconds, even on a busy core


class Embedding(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-embed-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.ports = free_ports(3)

    def start(self, node, rounds=ROUNDS):
        log = open(self.log(node), "ab")
        self.addCleanup(log.close)
        others = [f"127.0.0.1:{p}" for i, p in enumerate(self.ports) if i != node]
        process = subprocess.Popen(
            [PROGRAM, os.path.join(self.directory, str(node)), f"127.0.0.1:{self.ports[node]}", str(rounds), str(node),
             ",".join(others)], stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def log(self, node):
        return os.path.join(self.directory, f"{node}.log")

    def read(self, node):
        with open(self.log(node), encoding="utf-8") as f:
            return f.read()

    def begins(self, process, node):
        log = self.read(node)
        self.assertIsNone(process.poll(), log)
        # With its own model, or with that of nodes that began before it was there.
        return re.search("start training begins|this node counts in the graph", log)

    def error(self, process, node):
        out, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, self.read(node))
        return float(re.search(r"mean error of a weight: ([0-9.]+)", out)[1])

    def test_three_train_and_one_is_killed_and_comes_back(self):
        nodes = [self.start(i, 1_000_000_000) for i in range(2)] + [self.start(2)]
        for i in range(3):
            wait_until(lambda i=i: self.begins(nodes[i], i), f"node {i} begins")
        nodes[1].send_signal(signal.SIGKILL)
        nodes[1].wait()
        wait_until(lambda: " dead " in self.read(0), "its death is known")
        for checkpoint in glob.glob(os.path.join(self.directory, "1", "checkpoint-*")):
            os.remove(checkpoint)  # of its first round: it has nothing to resume from
        back = self.start(1)
        self.assertLess(self.error(nodes[2], 2), 0.2)
        self.assertLess(self.error(back, 1), 0.2)  # it took the others' model and continued to train
        self.assertIn(" fetched ", self.read(1))


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Programs that judge look at their neighbours, too, and distrust one that lies. Needs numpy only."""

import os
import shutil
import tempfile
import unittest

import numpy

import p2pml
from processes import free_ports, patience

NODES, LIAR, D, RATE, STEPS, MOST_ROUNDS = 3, 2, 500, 0.02, 5, 4000
TARGET = numpy.sin(numpy.arange(D, dtype=numpy.float32))


class Looks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def open_three(self, judge):
        """All begin far from what two of them learn."""
        ports, nodes = free_ports(NODES), []
        for i in range(NODES):
            node = p2pml.join(dir=os.path.join(self.folder, str(i)), log__level="error", listen=f"127.0.0.1:{ports[i]}",
                              peers=f"127.0.0.1:{ports[(i + 1) % NODES]}", node__start_members=NODES)
            self.addCleanup(node.close)
            node.open([("w", (D,))], judge=judge, average__local_steps=STEPS)
            node.model[:] = 3
            nodes.append(node)
        waiting = list(nodes)
        while waiting:
            for node in list(waiting):
                try:
                    node.start(timeout=0.01)
                    waiting.remove(node)
                except TimeoutError:
                    pass
        return nodes

    def train_three(self, nodes):
        for i, node in enumerate(nodes):
            for _ in range(STEPS):
                node.model[:] += RATE * (TARGET + (-6 if i == LIAR else 0) - node.model + node.correction)
            node.begin(STEPS, STEPS * RATE)
        for node in nodes:
            node.end(patience())

    def distrusted(self, node):
        return [edge["peer"] for edge in node.status()["edges"] if edge["distrusted"]]

    def test_a_program_that_judges_distrusts_a_neighbour_that_lies(self):
        nodes = self.open_three(lambda model: (model[:64] - TARGET[:64]) ** 2)
        for i in range(MOST_ROUNDS):
            self.train_three(nodes)
            if i % 20 == 19 and all(len(self.distrusted(node)) == 1 and abs(node.model - TARGET).mean() < 0.2 for node in nodes[:LIAR]):
                break
        else:
            self.fail(f"no verdict: {[node.status()['edges'] for node in nodes[:LIAR]]}")
        self.assertEqual(self.distrusted(nodes[0]), self.distrusted(nodes[1]))


if __name__ == "__main__":
    unittest.main()

"""data.scale_from: cluster. Three nodes whose files have different ranges end with one scaling, that of all their
rows; a late node takes it with the model; none changes it again."""

import csv
import json
import math
import os
import random
import re
import shutil
import struct

from cluster import ClusterTest, free_ports, signal, unittest

COLUMNS = 3


def scaling_of(node):
    """The shifts and factors of features and target in its model.safetensors."""
    with open(os.path.join(node.directory, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return json.loads(header["__metadata__"]["data"])


class Statistics(ClusterTest):
    def write(self, name, unit, seed, rows=200):
        chance = random.Random(seed)
        table = []
        for _ in range(rows):
            x = [unit * (k + 1) + unit * chance.gauss(0, 1) for k in range(COLUMNS)]
            table.append([*x, 3 * x[0] / unit + chance.gauss(0, 0.1) + unit])
        path = os.path.join(self.directory, name)
        with open(path, "w", newline="") as f:
            csv.writer(f).writerows([[f"f{k}" for k in range(COLUMNS)] + ["y"], *([f"{v:.6g}" for v in row] for row in table)])
        return path, table

    def members(self, count):
        ports = free_ports(count)
        self.tables = []
        nodes = []
        for i in range(count):
            path, table = self.write(f"{i}.csv", (1, 10, 100, 50)[i], i, rows=100 + 50 * i)
            self.tables.append(table)
            nodes.append(self.node(f"node-{i}", ports[i], peers=",".join(f"127.0.0.1:{p}" for p in ports[:3]),
                                   data__kind="csv", data__scale="standard", data__scale_from="cluster",
                                   data__train_file=path, data__test_file=path, data__train_count=0, data__test_count=0,
                                   model__loss="mse", model__hidden=8, train__steps=0, train__rate=0.002,
                                   topology__kind="complete"))
        return nodes

    def test_all_nodes_have_one_scaling(self):
        nodes = self.members(4)
        for node in nodes[:3]:
            node.start()
        for node in nodes[:3]:
            node.wait_rows(3)
        nodes[3].start()
        nodes[3].wait_rows(3)
        self.assertIn("others train already", nodes[3].log())
        nodes[1].signal(signal.SIGTERM)
        nodes[1].wait_exit()
        before = scaling_of(nodes[1])
        nodes[1].start("--resume")
        had = len(nodes[1].rows())
        nodes[1].wait_rows(had + 3)
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit()
        found = [scaling_of(node) for node in nodes]
        for other in [*found[1:], before]:
            self.assertEqual(other, found[0])  # the same digits in JSON: the same bits
        for node in nodes:
            node.log_from = 0  # also the log of the first process of node-1
        self.assertEqual(sum(node.log().count("data.scale is computed from the examples of ") for node in nodes), 1)
        self.assertEqual(sum(node.log().count("data.scale is computed from the examples of 3 nodes") for node in nodes), 1)
        self.check(found[0])

    def test_a_stop_before_training_begins_leaves_a_directory_that_can_resume(self):
        node = self.members(2)[0].start()
        node.wait_log("peer_self")
        node.signal(signal.SIGTERM)
        node.process.wait(60)
        self.assertEqual(node.checkpoints(), [])
        node.start("--resume")
        node.wait_log("no checkpoint")

    def test_a_new_node_takes_the_scaling_of_a_resumed_one(self):
        nodes = self.members(3)[:2]
        for node in nodes:
            node.command += ["--set", "node.start_timeout=5s"]
            node.start()
        for node in nodes:
            node.wait_rows(3)
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit()
        before = scaling_of(nodes[0])
        shutil.rmtree(nodes[1].directory)
        nodes[1].start()
        nodes[0].start("--resume")
        nodes[1].wait_rows(3)
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit()
        self.assertEqual([scaling_of(node) for node in nodes], [before, before])

    def test_two_resumed_nodes_with_different_scalings_end(self):
        nodes = self.members(2)
        for node in nodes:
            node.command += ["--set", "node.start_timeout=3s"]
            node.start("--set", f"peers=127.0.0.1:{free_ports(1)[0]}")  # no process listens there
            node.wait_rows(3)
            node.signal(signal.SIGTERM)
            node.wait_exit()
        before = [scaling_of(node) for node in nodes]
        for node in nodes:
            node.start("--resume")
        for node in nodes:
            node.wait_log("(peer_refused|refused_by_peer).*another scaling")
        for node in nodes:
            node.process.wait(timeout=100)
        self.assertEqual([node.process.returncode for node in nodes], [1, 1])
        hashes = [re.search("hash ([0-9a-f]{16}) here, ([0-9a-f]{16}) there", node.log()).groups() for node in nodes]
        self.assertNotEqual(*hashes[0])
        self.assertEqual(hashes[1], hashes[0][::-1])
        self.assertEqual([scaling_of(node) for node in nodes], before)
        self.assertNotEqual(*before)

    def check(self, found):
        """Compares the scaling with all rows of the first three files."""
        rows = [row for table in self.tables[:3] for row in table]
        for column in range(COLUMNS + 1):
            values = [struct.unpack("f", struct.pack("f", float(f"{row[column]:.6g}")))[0] for row in rows]
            mean = sum(values) / len(values)
            deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
            shift, factor = self.of_column(found, column)
            self.assertAlmostEqual(shift / mean, 1, delta=1e-6)
            self.assertAlmostEqual(factor * deviation, 1, delta=1e-6)

    @staticmethod
    def of_column(found, column):
        if column < COLUMNS:
            return found["shift"][column], found["factor"][column]
        return found["target_shift"][0], found["target_factor"][0]

    def test_statistics_of_a_file_and_of_the_cluster_do_not_mix(self):
        nodes = self.members(2)
        nodes[0].command += ["--set", "data.scale_from=", "--set", "node.start_timeout=5s"]
        nodes[1].command += ["--set", "node.start_timeout=5s"]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_log("its data mean something else")


if __name__ == "__main__":
    unittest.main()

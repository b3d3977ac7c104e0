"""A cluster ends with one model (average.finish): the bits of all final models, with and without a death at the end."""

import json
import os
import struct

from cluster import ClusterTest, signal, unittest


def tensors(path):
    """The values of a safetensors file, without its metadata (which name the node)."""
    with open(path, "rb") as f:
        data = f.read()
    (header,) = struct.unpack("<Q", data[:8])
    names = json.loads(data[8:8 + header])
    names.pop("__metadata__", None)
    return {name: data[8 + header + t["data_offsets"][0]:8 + header + t["data_offsets"][1]] for name, t in names.items()}


class Merge(ClusterTest):
    def models(self, nodes):
        return [tensors(os.path.join(node.directory, "model.safetensors")) for node in nodes]

    def test_four_nodes_end_with_the_same_bits(self):
        nodes = self.cluster(4)
        for node in nodes:
            node.start()
        for node in nodes:
            log = node.wait_exit(0)
            self.assertIn("4 nodes have finished: merging", log)
            self.assertRegex(log, r"the mean of the final models of 4 nodes")
            self.assertRegex(log, r"this node's own model: test loss [0-9.]+, test accuracy [0-9.]+%; the merged one: ")
            self.assertNotIn(" error ", log)
        models = self.models(nodes)
        self.assertGreater(len(models[0]), 0)
        for model in models[1:]:
            self.assertEqual(model, models[0])
        rows = [node.rows()[-1] for node in nodes]
        self.assertEqual(len({row["accuracy"] for row in rows}), 1)
        for row in rows:
            self.assertGreater(row["own_accuracy"], 0.4)

    def test_three_are_left_and_hold_the_same_bits(self):
        nodes = self.cluster(4)
        for node in nodes:
            node.start()
        nodes[3].wait_log(r"the last step is done")
        nodes[3].signal(signal.SIGKILL)
        nodes[3].wait_exit(-signal.SIGKILL)
        for node in nodes[:3]:
            self.assertRegex(node.wait_exit(0), r"the mean of the final models of [34] nodes")
        models = self.models(nodes[:3])
        self.assertEqual(models[1], models[0])
        self.assertEqual(models[2], models[0])

    def test_a_resumed_cluster_continues_from_the_merged_model(self):
        nodes = self.cluster(3, average__mode="sync")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_exit(0)
        for node in nodes:
            node.start("--resume", "--set", "train.steps=480")
        for node in nodes:
            log = node.wait_exit(0)
            self.assertNotIn(" error ", log)
            self.assertEqual(node.rows()[-1]["step"], 480)
        models = self.models(nodes)
        self.assertEqual(models[1], models[0])
        self.assertEqual(models[2], models[0])

    def test_each_keeps_its_own_if_that_is_wanted(self):
        nodes = self.cluster(3, average__finish="none")
        for node in nodes:
            node.start()
        for node in nodes:
            self.assertNotIn("merging", node.wait_exit(0))
            self.assertNotIn("own_accuracy", node.rows()[-1])
        models = self.models(nodes)
        self.assertNotEqual(models[1], models[0])


if __name__ == "__main__":
    unittest.main()

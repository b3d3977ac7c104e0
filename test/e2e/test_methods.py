"""Graphs with weights, groups and files, and the methods of averaging: the nodes train to the end and agree, or do not
if the method does not average."""

import os
import re

from cluster import ClusterTest, json_lines, signal, unittest, wait_until

SYNC = {"average__mode": "sync", "average__deadline_floor": "20s", "average__deadline_ceiling": "60s",
        "data__partition": "dirichlet", "data__alpha": 0.3}


class Methods(ClusterTest):
    def train(self, nodes):
        for node in nodes:
            node.start()
        last = []
        for node in nodes:
            log = node.wait_exit(0)
            self.assertNotIn(" error ", log)
            last.append(node.rows()[-1])
            self.assertEqual(last[-1]["step"], 400, log)
            self.assertEqual(last[-1]["state"], "finished", log)
        return last

    def graph_file(self, text):
        path = os.path.join(self.directory, "graph.txt")
        with open(path, "w") as f:
            f.write(text)
        return path

    def check_agree(self, last):
        """Each node has a third or a quarter of the data, and no example of some classes: alone it stays below this."""
        accuracies = [row["accuracy"] for row in last]
        self.assertGreater(min(accuracies), 0.6, accuracies)
        self.assertLess(max(accuracies) - min(accuracies), 0.15, accuracies)

    def test_three_nodes_agree_on_a_base_graph(self):
        last = self.train(self.cluster(3, topology__kind="base", **SYNC))
        self.check_agree(last)
        # A period of three rounds: 0-1, then 0-2 or the like with weight 2/3, then 0-1 again; one node rests in each.
        self.assertEqual(sum(row["exchanges"] for row in last), 2 * 100)

    def test_groups_meet_through_their_leaders(self):
        nodes = self.cluster(4, topology__kind="hierarchical", **SYNC)
        for i, node in enumerate(nodes):
            node.command += ["--set", f"node.group=rack-{i // 2}"]
        last = self.train(nodes)
        self.check_agree(last)
        # Two rounds: inside the racks all four nodes meet, among the leaders two of them.
        self.assertEqual(sorted(row["exchanges"] for row in last), [50, 50, 100, 100])
        for rack in (0, 2):
            self.assertEqual(sorted(row["exchanges"] for row in last[rack:rack + 2]), [50, 100])

    def test_nodes_agree_on_a_graph_of_a_file(self):
        path = self.graph_file("# a path\nnode-0 node-1\nnode-1 node-2\nnode-2 node-3\n")
        last = self.train(self.cluster(4, topology__kind="file", topology__file=path, **SYNC))
        self.check_agree(last)
        self.assertEqual([row["exchanges"] for row in last], [50, 100, 100, 50])

    def neighbours(self, node):
        """The neighbours in the latest view of this node; None before the first view."""
        views = [e for e in json_lines(os.path.join(node.directory, "events.jsonl")) if e["event"] == "view"]
        return sorted(views[-1]["neighbours"]) if views else None

    def kill_and_wait(self, nodes, victim, expected):
        """expected: neighbours of the remaining nodes, by name. They continue to meet, also over new edges."""
        victim.signal(signal.SIGKILL)
        victim.process.wait()
        left = [n for n in nodes if n is not victim]
        for node in left:
            wait_until(lambda: self.neighbours(node) == expected[node.name],
                       f"{node.name} with {expected[node.name]}, not {self.neighbours(node)}")
        for node in left:
            met = node.rows()[-1]["exchanges"]
            wait_until(lambda: node.rows()[-1]["exchanges"] > met + 10, f"exchanges of {node.name}")
        for node in left:
            node.signal(signal.SIGTERM)
        for node in left:
            self.assertNotIn(" error ", node.wait_exit(0))

    def test_after_the_death_of_a_leader_its_group_has_another(self):
        nodes = self.cluster(4, topology__kind="hierarchical", train__steps=10000000)
        for i, node in enumerate(nodes):
            node.command += ["--set", f"node.group=rack-{i // 2}"]
            node.start()
        for node in nodes:
            node.wait_rows(20)
        leader, heir = sorted(nodes[:2], key=lambda n: -len(self.neighbours(n)))
        other, follower = sorted(nodes[2:], key=lambda n: -len(self.neighbours(n)))
        self.assertEqual(self.neighbours(leader), sorted([heir.name, other.name]))
        self.kill_and_wait(nodes, leader, {heir.name: [other.name], other.name: sorted([heir.name, follower.name]),
                                           follower.name: [other.name]})

    def test_a_graph_of_a_file_closes_around_a_dead_node(self):
        path = self.graph_file("node-0 node-1\nnode-1 node-2\nnode-2 node-3\n")
        nodes = self.cluster(4, topology__kind="file", topology__file=path, train__steps=10000000)
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_rows(20)
        self.kill_and_wait(nodes, nodes[1], {"node-0": ["node-2"], "node-2": ["node-0", "node-3"], "node-3": ["node-2"]})

    def test_a_node_that_is_not_in_the_file_does_not_start(self):
        path = self.graph_file("a b\n")
        node = self.node("c", 0, topology__kind="file", topology__file=path)
        log = node.start().wait_exit(2)
        self.assertIn(f"--set: topology.file: {path} does not name this node, 'c'", log)

    def test_nodes_with_other_files_do_not_train_together(self):
        nodes = self.cluster(2, topology__kind="file", topology__file=self.graph_file("node-0 node-1\n"),
                             node__start_timeout="1s")
        other = os.path.join(self.directory, "other.txt")
        with open(other, "w") as f:
            f.write("node-0 node-1\nnode-1 node-2\n")
        nodes[1].command += ["--set", f"topology.file={other}"]
        for node in nodes:
            node.start()
        logs = [node.wait_exit(1) for node in nodes] # each has no node to train with
        self.assertTrue(any("its topology.file: " in log and "make it the same on all nodes" in log for log in logs), logs[0])

    def test_model_average_sends_whole_models(self):
        last = self.train(self.cluster(4, average__method="model-average", **SYNC))
        self.check_agree(last)
        for row in last:
            self.assertEqual(row["exchanges"], 100)
            self.assertGreaterEqual(row["delta_bytes"], row["dense_bytes"])
        self.assertRegex(self.nodes[0].log(), r"method .*average\.ratio is 1, average\.values fp32")

    def test_the_method_local_averages_with_no_other(self):
        nodes = self.cluster(2, average__method="local", **SYNC)
        last = self.train(nodes)
        for node, row in zip(nodes, last):
            self.assertEqual(row["exchanges"], 0)
            self.assertEqual(row["delta_bytes"], 0)
            self.assertTrue(re.search(r"link_up .*node-", node.log()), node.last_words())

    def test_bounded_mode_continues_after_a_death(self):
        nodes = self.cluster(4, average__mode="bounded", average__max_delay=1, average__deadline_floor="200ms",
                             average__deadline_ceiling="1s", average__forget_after="1s",
                             train__proximal=0.01, train__scale_rate="true", train__steps=6000, data__takeover="false")
        for node in nodes:
            node.start()
        nodes[3].wait_rows(20)
        nodes[3].signal(signal.SIGKILL)
        nodes[3].process.wait()
        for node in nodes[:3]:
            log = node.wait_exit(0)
            self.assertNotIn(" error ", log)
            row = node.rows()[-1]
            self.assertEqual((row["step"], row["state"]), (6000, "finished"))
            self.assertGreater(row["accuracy"], 0.6, log)
            rates = [r["rate"] for r in node.rows()[:-1]]
            self.assertGreater(len(set(rates)), 3, "the schedule has three rates; the pace adds others")

    def test_a_baseline_of_the_simulator_is_refused(self):
        node = self.node("alone", 0, average__method="choco")
        self.assertIn("average.method: choco is a baseline of p2pml sim; expected edge-ref, model-average or local",
                      node.start().wait_exit(2))


if __name__ == "__main__":
    unittest.main(verbosity=2)

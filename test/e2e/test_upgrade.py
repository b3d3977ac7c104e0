"""Two versions of the program: they train together, or each says by number what the other speaks."""

import os
import re

from cluster import ClusterTest, free_ports, json_lines, signal, unittest, wait_until

NUMBER = int(os.environ["P2PML_E2E_PROTOCOL"])  # the highest one of this source
NEWER = os.environ["P2PML_E2E_NODE_NEWER"]      # speaks that number and the next
OTHER = os.environ["P2PML_E2E_NODE_OTHER"]      # speaks the next only


class Upgrade(ClusterTest):
    def end(self, nodes):
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit(0)

    def goes_on(self, node, rows=20):
        node.wait_rows(len(node.rows()) + rows)

    def events(self, node, *kinds):
        return [e for e in json_lines(os.path.join(node.directory, "events.jsonl")) if e["event"] in kinds]

    def test_without_a_common_protocol_both_ends_say_the_numbers(self):
        ports = free_ports(2)
        peers = ",".join(f"127.0.0.1:{p}" for p in ports)
        nodes = [self.node(name, port, peers=peers, node__start_timeout="10s") for name, port in zip("ab", ports)]
        nodes[1].command[0] = OTHER
        for node in nodes:
            node.start()
        for node, there, here, where in ((nodes[0], NUMBER + 1, NUMBER, "here"), (nodes[1], NUMBER, NUMBER + 1, "there")):
            log = node.wait_exit(1)
            self.assertRegex(log, rf"peer_refused .* at 127\.0\.0\.1:\d+: it speaks protocol {there}, "
                                  rf"this node protocol {here}: update p2pml {where}")
            self.assertRegex(log, r"refused .*cannot train with its only listed peer")
            for word in ("link_up", "stranger", "peer_missing"):
                self.assertNotRegex(log, rf"\b{word}\b")
            self.assertEqual(len(re.findall(r"(?m)^\S+ error \S+ peer_refused ", log)), 1, log)

    def test_a_node_without_a_common_protocol_disturbs_no_other(self):
        nodes = self.cluster(3, train__steps=100000000, checkpoint__every="1s")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_rows(20)
        port = re.search(r"127\.0\.0\.1:\d+", " ".join(nodes[0].command)).group(0)
        late = self.node("late", 0, peers=port, node__start_timeout="5s")
        late.command[0] = OTHER
        self.assertRegex(late.start().wait_exit(1), rf"it speaks protocol {NUMBER}, this node protocol {NUMBER + 1}")
        nodes[0].wait_log(rf"peer_refused .*it speaks protocol {NUMBER + 1}, this node protocol {NUMBER}: update p2pml here")
        for node in nodes:
            self.goes_on(node)
            self.assertEqual(self.events(node, "dead"), [], node.last_words())
        self.end(nodes)

    def test_a_cluster_is_upgraded_while_it_trains(self):
        """One node after the other ends, and comes back as the newer program. No link is refused and nobody is taken for
        dead; an exchange is missed only with a node that was replaced, and with nobody once it is back."""
        nodes = self.cluster(4, http=True, topology__kind="butterfly", train__steps=100000000, checkpoint__every="1s")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_log(rf"link_up .*, protocol {NUMBER}\b")
            node.wait_rows(20)
        ids = [node.wait_log(r"id ([0-9a-f]{16})").group(1) for node in nodes]
        for done, node in enumerate(nodes, 1):
            node.signal(signal.SIGTERM)
            node.wait_exit(0)
            self.assertNotIn("peer_refused", node.log())
            node.command[0] = NEWER
            node.start("--resume")
            for other in nodes:
                wait_until(lambda: self.up(other, len(nodes)), f"all nodes at {other.name}\n{other.last_words()}")
            for other in nodes:
                wait_until(lambda: self.meets_both(other), f"exchanges of {other.name} with both partners\n{other.last_words()}")
            node.wait_log(rf"link_up .*, protocol {NUMBER if done == 1 else NUMBER + 1}\b")
            for other in nodes[done:]:
                lost = {row["partner"] for row in other.rows() if row.get("missed") == "link"}
                self.assertLessEqual(lost, set(ids[:done]), f"rounds lost between nodes that were not replaced, at {other.name}")
            for other in nodes:
                self.assertNotIn("peer_refused", other.log())
        for node in nodes:
            self.assertEqual(self.events(node, "dead"), [], node.last_words())
            rounds = [row["round"] for row in node.rows()]
            self.assertEqual(rounds, sorted(rounds))
            self.assertLessEqual(len(rounds) - len(set(rounds)), 1, "its last row is written again when it resumes")
        self.end(nodes)

    def meets_both(self, node):
        """In its latest rounds it had exchanges with both its partners, and missed none for want of a link."""
        rows = node.rows()[-40:]
        met = {row["partner"] for row in rows if row.get("partner") and not row.get("missed")}
        return len(met) == 2 and all(row.get("missed") != "link" for row in rows)

    def up(self, node, count):
        try:
            return self.status(node)["membership"]["alive"] == count
        except OSError:
            return False  # it starts


if __name__ == "__main__":
    unittest.main(verbosity=2)

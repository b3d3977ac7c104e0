"""A member is removed on all nodes at once, by a list that the operator signs and that the nodes pass on."""

import os
import re
import subprocess

from cluster import PROGRAM, ClusterTest, free_ports, signal, unittest, wait_until

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")


class Removal(ClusterTest):
    def keygen(self, name):
        """A file with an identity, and its id."""
        path = os.path.join(self.directory, name)
        said = subprocess.run([P2PML, "keygen", "--identity", path], capture_output=True, text=True, timeout=60, check=True).stdout
        return path, re.search(r"[0-9a-f]{64}", said)[0]

    def begin(self, count=4):
        self.key, self.operator = self.keygen("operator")
        self.ports = free_ports(2 * count + 2)
        return [self.start(i) for i in range(count)]

    def start(self, i, **settings):
        peers = ",".join(f"127.0.0.1:{p}" for p in self.ports[0:8:2])
        return self.node(f"n{i}", self.ports[2 * i], self.ports[2 * i + 1], peers=peers, data__shard=i, data__shards=5,
                         train__steps=100000000, train__eval_rounds=0, topology__kind="ring", node__start_timeout="60s",
                         cluster__operator=self.operator, **settings).start()

    def id_of(self, node):
        return self.status(node)["id"]

    def remove(self, node, ids, key):
        address = next(c.split("=", 1)[1] for c in node.command if c.startswith("node.http="))
        return subprocess.run([P2PML, "set", "cluster.removed", ids, address, "--key", key, "--dir", node.directory],
                              capture_output=True, text=True, timeout=120, check=False)

    def members(self, node):
        return {m["name"] for m in self.status(node)["members"]}

    def test_a_removed_member_is_out_on_all_nodes_and_stays_out(self):
        nodes = self.begin()
        for node in nodes:
            node.wait_rows(5)
            wait_until(lambda: self.status(node)["membership"]["alive"] == 4, f"four nodes\n{node.last_words()}")
        *honest, thief = nodes
        gone = self.id_of(thief)
        refused = self.remove(honest[0], gone, f"{thief.directory}/identity")  # a member removes nobody
        self.assertEqual(refused.returncode, 1, refused)
        self.assertIn("is not signed by cluster.operator", refused.stderr)
        said = self.remove(honest[0], gone, self.key)
        self.assertEqual((said.returncode, said.stdout), (0, "cluster.removed: 1 id; this node passes the list on to all that know cluster.operator\n"), said)
        for node in nodes:  # it was entered at one
            node.wait_log(r"removed the operator has removed 1 member, list \d+")
        for node in honest:
            node.wait_log(r"link_down n3 .*allow-list|peer_refused n3 ")
            wait_until(lambda: "n3" not in self.members(node), f"three members\n{node.last_words()}")
        thief.end()
        restarted = honest[1]
        restarted.signal(signal.SIGTERM)
        restarted.wait_exit(0)
        restarted.start("--resume")  # it remembers
        late = self.start(4)  # hears of it from the first that it meets
        late.wait_log(r"removed the operator has removed 1 member")
        thief.start("--resume")
        thief.wait_log(r"refused_by_peer .*allow-list")
        for node in (*honest, late):
            node.wait_rows(len(node.rows()) + 5)
            self.assertNotIn("n3", self.members(node))
        for _ in range(4):  # the numbers run ahead of the clock, and each is higher than the one before
            back = self.remove(honest[2], "none", self.key)
            self.assertEqual((back.returncode, back.stdout),
                             (0, "cluster.removed: 0 ids; this node passes the list on to all that know cluster.operator\n"), back)
        self.assertEqual(self.status(honest[2])["removed"]["count"], 0)
        for node in (*honest, late):
            node.wait_log(r"removed the operator has removed 0 members")
            wait_until(lambda: "n3" in self.members(node), f"it is back\n{node.last_words()}")


if __name__ == "__main__":
    unittest.main(verbosity=2)

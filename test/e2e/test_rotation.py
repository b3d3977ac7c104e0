"""Another cluster secret while the nodes train, in three steps with SIGHUP."""

import os

from cluster import ClusterTest, free_ports, json_lines, signal, unittest, wait_until

ENDS = r"link_down .*(?:it began with a secret that is no longer in cluster\.secret_file|the secret of the link is no longer in its)"
OLD, NEW = "the old secret of this cluster", "the new secret of this cluster"


class Rotation(ClusterTest):
    def secret(self, name, *lines):
        """Replaced at once, as an editor or a tool for secrets does it."""
        path = os.path.join(self.directory, name)
        with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write("\n".join(lines) + "\n")
        os.rename(path + ".new", path)
        return path

    def begin(self, count=3):
        ports = free_ports(2 * count)
        peers = ",".join(f"127.0.0.1:{p}" for p in ports[:count])
        return [self.node(f"n{i}", ports[i], ports[count + i], peers=peers, data__shard=i, data__shards=count,
                          train__steps=100000000, cluster__secret_file=self.secret(f"secret-{i}", OLD)).start()
                for i in range(count)]

    def reload(self, i, node, said, *lines):
        self.secret(f"secret-{i}", *lines)
        node.signal(signal.SIGHUP)
        node.wait_log(rf"reload cluster\.secret_file: {said}")

    def datagrams(self, node):
        return self.status(node)["membership"]["datagrams"]

    def neighbours_linked(self, node):
        status = self.status(node)
        return status["neighbours_linked"] == status["neighbours"]

    def resyncs(self, node):
        return sum(edge["resyncs"] for edge in self.status(node)["edges"])

    def links(self, node):
        return sum(m["linked"] for m in self.status(node)["members"])

    def end(self, nodes):
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit(0)

    def test_a_secret_is_rotated_while_the_nodes_train(self):
        nodes = self.begin()
        for node in nodes:
            node.wait_rows(20)
            wait_until(lambda: self.status(node)["membership"]["alive"] == 3, f"three nodes\n{node.last_words()}")
        before = [self.datagrams(node) for node in nodes]
        for said, lines in ((r"2 secrets, 1 new, 0 gone; the first stays", (OLD, NEW)),
                            (r"2 secrets, 0 new, 0 gone; the first is another one", (NEW, OLD)),
                            (r"1 secret, 0 new, 1 gone; the first stays", (NEW,))):
            for node in nodes:
                self.assertNotIn("link_down", node.log())
            resyncs = [self.resyncs(node) for node in nodes]
            for i, node in enumerate(nodes):  # one after the other: meanwhile the files differ
                self.reload(i, node, said, *lines)
                for other in nodes:
                    other.wait_rows(len(other.rows()) + 10)
        for node in nodes:  # the links began with the secret that is gone: their ends have called again
            wait_until(lambda: self.status(node)["membership"]["alive"] == 3 and self.neighbours_linked(node), f"links again\n{node.last_words()}")
        if not any("was away" in node.log() for node in nodes):  # an overloaded machine may have stopped them
            self.assertEqual([self.resyncs(node) for node in nodes], resyncs, "edges go on where they were")
        for node, earlier in zip(nodes, before):
            since = self.datagrams(node)
            wait_until(lambda: self.datagrams(node)["received"] > since["received"] + 10, "datagrams under the new secret")
            self.assertEqual(self.datagrams(node)["refused"], earlier["refused"], "all of them opened")
            log = node.log()
            for line in log.splitlines():
                if "link_down" in line:
                    self.assertRegex(line, ENDS)
            self.assertNotIn("stranger", log)
            self.assertNotIn(OLD, log)
            self.assertNotIn(NEW, log)
            events = json_lines(os.path.join(node.directory, "events.jsonl"))
            self.assertEqual([e for e in events if e["event"] == "dead"], [], node.last_words())
        port = next(c.split(":")[-1] for c in nodes[0].command if c.startswith("node.listen="))
        late = [self.node(f"late-{i}", 0, peers=f"127.0.0.1:{port}", train__steps=100000000,
                          cluster__secret_file=self.secret(f"secret-late-{i}", secret)).start()
                for i, secret in enumerate((OLD, NEW))]
        late[0].wait_log(r"peer_missing .*same cluster\.name and secret")
        nodes[0].wait_log(r"stranger .* was closed without an answer")
        late[1].wait_log(r"link_up ")
        self.assertNotIn("link_up", late[0].log())
        for node in late:
            node.end()
        self.end(nodes)

    def test_a_former_member_loses_its_links(self):
        *nodes, former = self.begin(3)
        for node in (*nodes, former):
            node.wait_rows(10)
        for said, lines in (("2 secrets", (NEW, OLD)), ("1 secret, 0 new, 1 gone", (NEW,))):
            for i, node in enumerate(nodes):
                self.reload(i, node, said, *lines)
        for node in nodes:
            node.wait_log(ENDS)
            wait_until(lambda: self.status(node)["membership"]["alive"] == 2, f"the former member is gone\n{node.last_words()}")
            wait_until(lambda: self.links(node) == 1, f"one link\n{node.last_words()}")
        former.wait_log(ENDS)
        self.assertEqual(self.links(former), 0, former.last_words())
        self.end((*nodes, former))

    def test_a_wrong_secret_file_changes_nothing(self):
        nodes = self.begin(2)
        for node in nodes:
            node.wait_rows(5)
        for said, lines in ((r"the secrets stay as they were: .*line 2 of .* has 0 bytes", (OLD, "", NEW)),
                            (r"the secrets stay as they were: line 2 of .* repeats", (OLD, OLD)),
                            (r"the secrets stay as they were: .*more than 4 lines", [OLD + str(i) for i in range(5)])):
            self.reload(0, nodes[0], said, *lines)
        os.unlink(os.path.join(self.directory, "secret-0"))
        nodes[0].signal(signal.SIGHUP)
        nodes[0].wait_log(r"the secrets stay as they were: could not open")
        nodes[1].signal(signal.SIGTERM)
        nodes[1].wait_exit(0)
        nodes[1].start("--resume")  # with the old secret, which node 0 still has
        nodes[1].wait_log("link_up ")
        self.end(nodes)


if __name__ == "__main__":
    unittest.main(verbosity=2)

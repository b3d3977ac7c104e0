"""Members that know one living node find all others; also deaths, restarts, leaves, copied identities and late nodes."""

import os
import shutil

from cluster import ClusterTest, free_ports, json_lines, signal, unittest, wait_until

COUNT = 5
NEVER = {"train.steps": 100000000, "node.start_timeout": "120s", "checkpoint.every": "1s", "data.train_count": 400}


class Membership(ClusterTest):
    def begin(self, count=COUNT, start=COUNT, **settings):
        """The peer list of each node has the first one, after names that are dead or do not resolve."""
        self.ports = free_ports(2 * (count + 1))
        merged = {key.replace(".", "__"): value for key, value in NEVER.items()}
        merged.update({"node__start_members": start, "data__shards": count, **settings})
        self.settings = merged
        nodes = [self.member(i) for i in range(count)]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_log(r"start training begins")
        return nodes

    def member(self, i, **more):
        dead = ["127.0.0.1:1", "does-not-exist.invalid:7400", "[::1]:1", "nor-this-one.invalid:1"]
        peers = ",".join(dead + ([f"127.0.0.1:{self.ports[0]}"] if i else []))
        settings = {**self.settings, "peers": peers, "data__shard": i % self.settings["data__shards"], **more}
        return self.node(f"node-{i}", self.ports[2 * i], self.ports[2 * i + 1], **settings)

    def events(self, node):
        return json_lines(os.path.join(node.directory, "events.jsonl"))

    def event(self, node, kind, member=None, after=0.0, **fields):
        """The first event of this kind of this node after a time."""
        def found():
            for e in self.events(node):
                if (e["event"] == kind and e["time"] > after and (member is None or e["member"] == member.name)
                        and all(e.get(k) == v for k, v in fields.items())):
                    return e
            return None
        return wait_until(found, f"{kind} of {member.name if member else '-'} at {node.name}\n{node.last_words()}", 60)

    def now(self, node):
        """The time in the format of the events."""
        return max([e["time"] for e in self.events(node)], default=0.0)

    def end(self, nodes):
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit(0)

    def goes_on(self, node):
        node.wait_rows(len(node.rows()) + 20)

    def test_one_living_peer_is_enough(self):
        nodes = self.begin()
        for node in nodes:
            self.event(node, "view", members=COUNT)
            status = self.status(node)
            self.assertEqual([m["state"] for m in status["members"]], ["alive"] * COUNT)
            self.assertEqual(status["membership"]["dead"], 0)
        hashes = lambda: {self.status(n)["membership"]["view_hash"] for n in nodes}
        wait_until(lambda: len(hashes()) == 1, "the same view everywhere", 30)
        self.end(nodes)

    def test_a_killed_node_is_dead_for_all_and_comes_back(self):
        nodes = self.begin()
        others = nodes[:3] + nodes[4:]
        wait_until(lambda: nodes[3].checkpoints(), "a checkpoint")
        before = max(self.now(n) for n in nodes)
        nodes[3].signal(signal.SIGKILL)
        nodes[3].process.wait()
        suspects = [self.event(n, "suspect", nodes[3], before)["time"] for n in others]
        for node in others:
            dead = self.event(node, "dead", nodes[3], before)
            self.assertTrue(dead["evidence"])
            self.assertLess(dead["time"] - min(suspects), 3.0)
            self.event(node, "view", None, dead["time"], members=COUNT - 1)
            self.goes_on(node)
        nodes[3].start("--resume")
        for node in others:
            self.event(node, "alive", nodes[3], before, before="dead")
        # Within the reach of its references it continues with its own model; beyond, it takes that of another.
        nodes[3].wait_log(r"start training begins|this node counts in the graph")
        self.goes_on(nodes[3])
        self.end(nodes)

    def test_a_node_that_leaves_is_not_dead(self):
        nodes = self.begin()
        nodes[2].signal(signal.SIGTERM)
        nodes[2].wait_exit(0)
        others = nodes[:2] + nodes[3:]
        for node in others:
            left = self.event(node, "left", nodes[2])
            self.event(node, "view", None, left["time"], members=COUNT - 1)
            self.goes_on(node)
        for node in others:
            self.assertEqual([e for e in self.events(node) if e["event"] == "dead"], [], node.last_words())
        self.end(others)

    def test_a_copied_identity_is_refused(self):
        nodes = self.begin(3, 3)
        copy = self.member(3)
        wait_until(lambda: self.status(nodes[1])["uptime_s"] > 11, "a node that has been there for a while", 60)
        os.makedirs(copy.directory, mode=0o700)
        for name in ("identity", "boot"):
            shutil.copy(os.path.join(nodes[1].directory, name), copy.directory)
        ident = nodes[1].wait_log(r"id ([0-9a-f]{64})").group(1)
        log = copy.start().wait_exit(1)
        self.assertRegex(log, rf"another process runs with this identity \({ident}\)")
        self.assertIn("every node needs an identity of its own", log)
        for node in nodes:
            self.goes_on(node)
            self.assertEqual([e for e in self.events(node) if e["event"] == "dead"], [], node.last_words())
        self.end(nodes)

    def test_a_late_joiner_fetches_and_trains(self):
        nodes = self.begin(3, 3)
        nodes[0].wait_rows(50)
        late = self.member(3).start()
        late.wait_log(r"snapshot fetched: round \d+")
        self.goes_on(late)
        self.assertGreater(late.rows()[0]["round"], 10)
        for node in nodes:
            self.event(node, "join", late)
            self.event(node, "view", members=4)
        member = next(m for m in self.status(nodes[0])["members"] if m["name"] == late.name)
        self.assertTrue(member["eligible"])
        self.end(nodes + [late])

    def test_a_cut_cluster_becomes_one_again(self):
        """With node.fault_file each half drops everything from and to the other."""
        nodes = self.begin(4, 4, cluster__profile="local")
        self.end(nodes)
        ids = [n.wait_log(r"id ([0-9a-f]{64})").group(1) for n in nodes]
        files = [os.path.join(self.directory, f"cut-{i}") for i in range(4)]
        for node, path in zip(nodes, files):
            node.command += ["--set", f"node.fault_file={path}"]
            node.start("--resume")
        for node in nodes:
            node.wait_log(r"start training begins")
            wait_until(lambda: self.status(node)["membership"]["alive"] == 4, "all", 60)
        for i, path in enumerate(files):
            with open(path, "w") as f:
                f.write("\n".join(ids[2:] if i < 2 else ids[:2]) + "\n")
        for node in nodes:
            node.signal(signal.SIGHUP)
        for node in nodes:
            wait_until(lambda: self.status(node)["membership"]["dead"] == 2, f"two dead\n{node.last_words()}", 60)
            self.goes_on(node)
        for path in files:
            os.unlink(path)
        for node in nodes:
            node.signal(signal.SIGHUP)
        for node in nodes:
            wait_until(lambda: self.status(node)["membership"]["alive"] == 4, f"one cluster\n{node.last_words()}", 60)
            self.goes_on(node)
        self.end(nodes)


if __name__ == "__main__":
    unittest.main(verbosity=2)

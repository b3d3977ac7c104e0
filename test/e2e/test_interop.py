"""A client in another language, written from docs/PROTOCOL.md: its bytes are those of the vectors, and real nodes take it for a member."""

import hashlib
import os
import subprocess
import sys

from cluster import ClusterTest, free_ports, go_on_with, python_with, signal, unittest

if __name__ == "__main__":
    go_on_with("cryptography", "python3-cryptography")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))

import attack  # noqa: E402
import check_vectors  # noqa: E402
import codec  # noqa: E402
import record  # noqa: E402
from member import Member  # noqa: E402
from noise import Identity  # noqa: E402

EXCHANGES = 6  # with each node, before and after a link that ends
SECRET = b"a secret for one test only"
ENDLESS = {"train__steps": 100000000, "node__start_timeout": "60s"}


def seed(text):
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


class Edges(check_vectors.Edges):
    pass


class EdgesInBf16(check_vectors.EdgesInBf16):
    pass


class Vectors(check_vectors.Vectors):
    pass


class Fast(unittest.TestCase):
    def test_the_parts_in_numpy_have_the_same_bits(self):
        python = python_with("cryptography", "numpy")
        if not python:
            self.skipTest("no Python with 'cryptography' and 'numpy'")
        ran = subprocess.run([python, check_vectors.__file__, "--fast"], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)


class Done(attack.Finished):
    """Says that it has done its last step, and meets nobody."""

    def begin(self):
        super().begin()
        self.set_flags(record.FINISHED)


class Client(ClusterTest):
    def begin(self, **settings):
        """Two nodes of known ids: that of the client is between them, so it asks for the blocks of one RESYNC and answers in the other."""
        low, self.seed, high = sorted((seed(f"interop {i}") for i in range(3)), key=lambda s: Identity(s).id)
        ports = free_ports(4)
        self.entry = "127.0.0.1", ports[0]
        peers = ",".join(f"127.0.0.1:{p}" for p in ports[:2])
        nodes = [self.node(f"node-{i}", ports[i], ports[2 + i], peers=peers, data__shard=i, data__shards=2, topology__kind="ring",
                           **{**ENDLESS, **settings}) for i in range(2)]
        for node, its in zip(nodes, (high, low)):
            os.mkdir(node.directory, 0o700)
            self.write(f"{node.directory}/identity", its.hex().encode() + b"\n")
            node.start()
        for node in nodes:
            node.wait_log("training begins")
        return nodes

    def write(self, path, data):
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(data)
        return path

    def member(self, **how):
        member = Member(self.seed, "stranger", **how)
        self.addCleanup(member.close)
        return member

    def exchange(self, member, count):
        """So many more over each edge, half of them asked for by the client."""
        wanted = {peer: edge.exchanges + count for peer, edge in member.edges.items()}

        def enough():
            for peer, edge in member.edges.items():
                self.assertEqual(edge.resyncs, 1, "the two ends of an edge hold different references")
                if edge.exchanges % 2:
                    member.ask(peer)
            return len(wanted) == 2 and all(edge.exchanges >= wanted[peer] for peer, edge in member.edges.items())
        member.until(enough, f"{count} exchanges over each edge")

    def edge_to(self, node):
        return next(e for e in self.status(node)["edges"] if e["name"] == "stranger")

    def follow(self, nodes, **how):
        member = self.member(**how)
        member.join(self.entry)
        member.until(lambda: len(member.edges) == 2 and all(e.live for e in member.edges.values()), "edges with both nodes")
        self.exchange(member, EXCHANGES)
        for link in list(member.active.values()):
            link.bye("idle")  # over the next link both ends compare their references, by HELLO
        member.until(lambda: len(member.active) == 2 and all(e.live for e in member.edges.values()), "links again")
        self.exchange(member, EXCHANGES)
        for node in nodes:
            edge = self.edge_to(node)
            self.assertEqual((edge["state"], edge["resyncs"], edge["epoch"], edge["implausible"], edge["barred"]), ("live", 1, 1, 0, False))
            self.assertGreaterEqual(edge["exchanges"], EXCHANGES)
        for edge in member.edges.values():
            self.assertEqual(codec.hash_vector(edge.reference), edge.hash)
        self.assertEqual({edge.leads() for edge in member.edges.values()}, {True, False})
        self.assertGreater(member.counts["answered", "ping"], 0)
        self.assertFalse([kind for kind in member.counts if kind[0] == "refused"], member.log)
        member.leave()
        for node in nodes:
            node.wait_log("left stranger has left")
            self.assertNotRegex(node.log(), r"refused|breaks the protocol|dead\b.*stranger")
            node.wait_rows(len(node.rows()) + 2)
        return member

    def finish(self, nodes):
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit(0)

    def test_a_member_in_async_with_a_secret(self):
        secret = self.write(f"{self.directory}/secret", SECRET + b"\n")
        nodes = self.begin(cluster__secret_file=secret, average__mode="async")
        wrong = self.member(secret=b"another secret, for nobody")
        wrong.call(self.entry)
        wrong.until(lambda: not wrong.links, "the end of a call without the secret")
        self.assertFalse(wrong.counts)  # nothing was answered
        self.follow(nodes, secret=SECRET)
        self.finish(nodes)

    def test_a_member_in_sync_with_second_moments_and_bf16(self):
        nodes = self.begin(average__mode="sync", average__reference="bf16", average__values="fp16", train__optimizer="adamw",
                           train__rate=0.001, average__share_second_moment=3)
        member = self.follow(nodes, values=codec.BF16)
        self.assertGreater(max(member.second), 0)
        self.finish(nodes)

    def test_strangers_that_claim_to_have_finished_end_nobody_s_training(self):
        nodes = self.begin(train__alone="stop")
        # Ids below those of the nodes: these then decide about the link, and the client has their settings before it is in use.
        seeds = (seed(f"liar {i}") for i in range(1000))
        below = [s for s in seeds if Identity(s).id < min(Identity(seed(f"interop {i}")).id for i in range(3))]
        liars = [Done(s, f"done-{i}") for i, s in enumerate(below[:2])]
        self.assertEqual(len(liars), 2)
        for liar in liars:
            self.addCleanup(liar.close)
            liar.join(self.entry)

        def poll():
            for liar in liars:
                liar.poll()
            for node in nodes:
                self.assertNotRegex(node.log(), r" alone | fetch ")
            return [self.status(node) for node in nodes]

        def wait_for(condition, what):
            for _ in range(2000):
                if all(map(condition, poll())):
                    return
            self.fail(f"not within 2000 looks: {what}")
        wait_for(lambda s: sum(m["finished"] for m in s["members"]) == 2, "both say that they have finished")
        rounds = max(s["round"] for s in poll())
        wait_for(lambda s: s["round"] > rounds + 1000, "1000 rounds more")
        self.finish(nodes)
        for node in nodes:
            self.assertRegex(node.log(), r"result step .*this node's own model")


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""A client in another language, written from docs/PROTOCOL.md: its bytes are those of the vectors, and real nodes take it for a member."""

import hashlib
import os
import subprocess
import sys

from cluster import ClusterTest, free_ports, python_with, unittest, wait_until

INTEROP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop")
if __name__ == "__main__" and not python_with("cryptography"):
    print("skipped: no Python with the package 'cryptography' (Debian: python3-cryptography)")
    sys.exit(77)
if __name__ == "__main__" and python_with("cryptography") != sys.executable:
    os.execv(python_with("cryptography"), [python_with("cryptography"), *sys.argv])
sys.path.insert(0, INTEROP)

from member import Member  # noqa: E402
from noise import Identity  # noqa: E402

EXCHANGES = 20  # with each node
JOB = {"train__steps": 60000, "topology__kind": "ring", "average__mode": "async", "node__linger": "20s"}


def seed(text):
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


class Client(ClusterTest):
    def begin(self, secret=None, **settings):
        """Two nodes whose ids are known beforehand, one above that of the client and one below."""
        seeds = sorted((seed(f"interop {i}") for i in range(3)), key=lambda s: Identity(s).id)
        self.seed, ports = seeds[1], free_ports(4)
        peers = ",".join(f"127.0.0.1:{p}" for p in ports[:2])
        nodes = [self.node(f"node-{i}", ports[i], ports[2 + i], peers=peers, data__shard=i, data__shards=2, **{**JOB, **settings})
                 for i in range(2)]
        for node, its in zip(nodes, (seeds[2], seeds[0])):
            os.mkdir(node.directory, 0o700)
            with open(os.open(f"{node.directory}/identity", os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
                f.write(its.hex() + "\n")
            node.start()
        self.addresses = [("127.0.0.1", p) for p in ports[:2]]
        return nodes

    def test_joins_exchanges_with_equal_references_and_leaves(self):
        nodes = self.begin()
        for node in nodes:
            node.wait_log("training begins")
        member = Member(self.seed, "stranger")
        self.addCleanup(member.close)
        member.join(self.addresses[0])
        member.until(lambda: len(member.edges) == 2 and all(e.exchanges >= EXCHANGES for e in member.edges.values()), "exchanges")
        print("\n".join(member.log), member.counts, {p.hex()[:8]: vars(e).keys() and (e.exchanges, e.resyncs, e.blocks, e.replays, e.crossed) for p, e in member.edges.items()})
        print([ [e for e in self.status(n)["edges"]] for n in nodes])
        member.leave()
        for node in nodes:
            print(node.log())
            node.wait_exit(0)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""What no honest node sends keeps its sender out for growing times, and nobody else: a mended program gets in again."""

import math
import os
import sys

from cluster import ClusterTest, free_ports, python_with, unittest

PYTHON = python_with("cryptography")
if __name__ == "__main__" and not PYTHON:
    print("skipped: no Python with the package 'cryptography' (Debian: python3-cryptography)")
    sys.exit(77)
if __name__ == "__main__" and PYTHON != sys.executable:
    os.execv(PYTHON, [PYTHON, *sys.argv])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))

import wire  # noqa: E402
from member import Member  # noqa: E402
from wire import Message  # noqa: E402

FIRST_S, SPARED = 2.0, 2  # GOSSIP_LINKS_BAN_MIN_NS, GOSSIP_LINKS_BAN_SPARED
BROKEN, BANNED = "your messages break the protocol", "refused for a while after what was sent"
NOT_MSGPACK = b"\xc1"


class Bans(ClusterTest):
    first = "?"  # the id of node-0, as the log of a member has it

    def begin(self):
        ports = free_ports(4)
        self.entry = "127.0.0.1", ports[0]
        peers = ",".join(f"127.0.0.1:{p}" for p in ports[:2])
        nodes = [self.node(f"node-{i}", ports[i], ports[2 + i], peers=peers, data__shard=i, data__shards=2, train__steps=100000000,
                           topology__kind="ring", node__start_timeout="60s").start() for i in range(2)]
        for node in nodes:
            node.wait_log("training begins")
        return nodes

    def made(self, kind, seed, name, **how):
        member = kind(seed, name, **how)
        self.addCleanup(member.close)
        return member

    def heard(self, member, reason):
        """How often node-0 has ended a link with this reason."""
        return sum(f"bye of {self.first}: {reason}" in line for line in member.log)

    def calls_until(self, member, condition, what):
        def done():
            if not member.links:
                member.call(self.entry)
            return condition()
        member.until(done, what)

    def misbehave(self, member, message=NOT_MSGPACK):
        """Once it is let in: a message that no honest node sends. Returns how often it was refused before."""
        before, broken = self.heard(member, BANNED), self.heard(member, BROKEN)

        def done():
            for link in [link for link in member.active.values() if link.theirs.name == "node-0"]:
                self.first = link.peer.hex()[:8]
                link.out += link.sealer.message(message)
                link.flush()
            return self.heard(member, BROKEN) > broken
        self.calls_until(member, done, "the end of a link over which nonsense went")
        return self.heard(member, BANNED) - before

    def finish(self, nodes):
        for node in nodes:
            node.wait_rows(len(node.rows()) + 5)  # they trained on, with each other
            self.assertNotRegex(node.log(), r"(?:banned|implausible|peer_protocol) node-")
            node.end()

    def test_a_member_that_misbehaves_stays_out_for_longer_each_time_and_a_mended_one_gets_in(self):
        nodes, seed = self.begin(), os.urandom(32)
        liar = self.made(Member, seed, "liar")
        liar.call_missing = lambda: None  # one node is enough
        begun, times = liar.now(), 3
        refused = sum(self.misbehave(liar) for _ in range(times))
        self.assertGreaterEqual(liar.now() - begun, FIRST_S * (2 ** (times - 1) - 1), liar.log)
        self.assertGreater(refused, 0, liar.log)
        nodes[0].wait_log(r"banned liar at .* after a pause that grows each time")
        liar.close()
        mended = self.made(Member, seed, "mended", generation=2)
        self.calls_until(mended, lambda: self.heard(mended, BANNED), "a pause")
        mended.until(lambda: not mended.links, "the end of that link")
        self.calls_until(mended, lambda: mended.active, "a link")
        mended.close()
        self.finish(nodes)

    def test_numbers_that_are_none_ban_the_member_that_sends_them(self):
        nodes = self.begin()
        for name, field in (("not-finite", {"step_scale": math.nan}), ("infinite", {"step_scale": math.inf}), ("heavy", {"weight": 2.0})):
            exchange = Message(wire.XCHG, **{**dict(epoch=0, sequence=0, clock=1, standing=0, step_scale=0.0, weight=0.5, limit=math.inf,
                                                    bound=math.inf, progress=0.0, pace_ns=0, form=0, offset=0, keys=0, delta=b"", moment=b"",
                                                    news=b""), **field})
            liar = self.made(Member, os.urandom(32), name)
            liar.call_missing = lambda: None
            self.misbehave(liar, wire.encode(exchange))
            self.calls_until(liar, lambda: self.heard(liar, BANNED), "a pause")
            liar.close()
        self.finish(nodes)

    def test_an_address_that_makes_liars_waits_with_the_next_and_its_honest_nodes_stay(self):
        nodes = self.begin()
        for i in range(SPARED + 1):
            liar = self.made(Member, os.urandom(32), f"liar-{i}")
            liar.call_missing = lambda: None
            self.misbehave(liar)
            liar.close()
        fresh = self.made(Member, os.urandom(32), "fresh")
        fresh.call_missing = lambda: None
        self.calls_until(fresh, lambda: self.heard(fresh, BANNED), "a pause")
        self.calls_until(fresh, lambda: fresh.active, "a link in the end")
        self.finish(nodes)


if __name__ == "__main__":
    unittest.main(verbosity=2)

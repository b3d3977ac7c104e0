"""Three nodes, one with IPv4 addresses only, one with IPv6 addresses only, one with both: all pairs of the ring exchange, two of them
directly, the other over the third node, which all can call.

Needs root, iproute2 and nftables, and a kernel with IPv6."""

import os
import unittest

import homes
from chaos import netns

BOTH, SIX, FOUR = 0, 1, 2
PORT = netns.PORT


def address6(i):
    return f"fd07:{i}::2"


def with_ipv6(network, *hosts):
    network.router.run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
    for i in hosts:
        network.router.run("ip", "-6", "addr", "add", f"fd07:{i}::1/64", "dev", f"host{i}", "nodad")
        network.spaces[i].run("ip", "-6", "addr", "add", f"{address6(i)}/64", "dev", "net", "nodad")
        network.spaces[i].run("ip", "-6", "route", "add", "default", "via", f"fd07:{i}::1")


class Families(unittest.TestCase):
    def test_two_families_meet_over_a_node_that_has_both(self):
        with homes.Homes(3, ("open",), train__steps=1600) as run:
            with_ipv6(run.network, BOTH, SIX)
            run.network.spaces[SIX].run("ip", "-4", "addr", "flush", "dev", "net")
            for i, listen, peer in (BOTH, "[::]", address6(SIX)), (SIX, "[::]", address6(BOTH)), (FOUR, "0.0.0.0", run.network.address(BOTH)):
                peer = f"[{peer}]" if ":" in peer else peer
                run.hosts[i].command += ["--set", f"node.listen={listen}:{PORT}", "--set", f"peers={peer}:{PORT}"]
            outcome = homes.Outcome(run, run.run())
        print(f"\n{outcome.line()}", flush=True)
        self.assertEqual(outcome.problems, [])
        self.assertEqual(outcome.edges.relayed, {frozenset((f"n{SIX}", f"n{FOUR}")): f"n{BOTH}"})


def main():
    netns.skip_if_missing()
    if not os.path.exists("/proc/sys/net/ipv6"):
        print("skipped: this kernel has no IPv6")
        raise SystemExit(77)
    homes.use_default_times()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()

"""Hosts whose own name is 127.0.1.1 in their /etc/hosts, as Debian and Ubuntu write it: three nodes, each in a network namespace and
with an /etc/hosts of its own.

Needs root, iproute2 and nftables."""

import ctypes
import os
import re

from cluster import ClusterTest, unittest, wait_until
from chaos import netns

HOSTS = 3
NEWNS, PRIVATE, BIND = 0x00020000, 1 << 18 | 1 << 14, 4096


class Names(ClusterTest):
    def setUp(self):
        super().setUp()
        self.network = netns.Network(HOSTS)
        self.addCleanup(self.network.close)
        self.secret = os.path.join(self.directory, "secret")
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("0123456789abcdef0123456789abcdef\n")

    def host(self, i, listen, advertise):
        """A node on host `i`; HOST stands for its name."""
        name = f"host{i}"
        hosts = os.path.join(self.directory, f"hosts{i}")
        with open(hosts, "w") as file:
            file.write("127.0.0.1 localhost\n")
            for k in range(HOSTS):
                file.write(f"{'127.0.1.1' if k == i else self.network.address(k)} host{k}\n")
        node = self.node(f"n{i}", 0, node__advertise=advertise.replace("HOST", name), cluster__secret_file=self.secret, peers="host0:7400",
                         train__steps=0, node__start_members=HOSTS, train__eval_rounds=0, **{"node.listen": listen.replace("HOST", name)})

        def enter():
            libc = netns.libc
            self.network.spaces[i].enter()
            netns.check(libc.unshare(NEWNS))
            netns.check(libc.mount(b"none", b"/", None, ctypes.c_ulong(PRIVATE), None))
            netns.check(libc.mount(hosts.encode(), b"/etc/hosts", None, ctypes.c_ulong(BIND), None))
        return node.start(before=enter)

    def test_a_name_that_is_loopback_at_home_is_not_told(self):
        nodes = [self.host(i, "0.0.0.0:7400", "HOST:7400") for i in range(HOSTS)]
        links = lambda: set(re.findall(r"(n\d) link_up (n\d) at", "".join(node.log() for node in nodes)))
        wait_until(lambda: all((a, b) in links() or (b, a) in links() for a, b in (("n0", "n1"), ("n0", "n2"), ("n1", "n2"))),
                   "a link of every pair")
        for node in nodes:
            self.assertRegex(node.log(), r"node.advertise: host\d:7400 is 127.0.1.1:7400 on this host")
            self.assertRegex(node.log(), r"join n\d at 10.7.\d.2:7400 has joined")
            self.assertNotIn(" at 127.", node.log())

    def test_a_member_that_tells_loopback_is_called_where_it_was_linked_from(self):
        """A number is told as it is. The node in the middle, which has links to both others, reaches their datagram sockets."""
        nodes = [self.host(i, "0.0.0.0:7400", "127.0.1.1:7400") for i in range(HOSTS)]
        nodes[0].wait_log("start training begins with 2 peers")
        nodes[0].wait_rows(1)
        self.assertNotRegex(nodes[0].log(), r" suspect n| dead n")
        self.assertIn("peers on other hosts that are told 127.0.1.1:7400 reach themselves there", nodes[0].log())

    def test_a_listen_address_that_is_loopback_at_home_is_refused(self):
        alone = self.host(0, "HOST:7400", "")  # its only peer is itself: it may be meant
        alone.wait_log("node.listen: host0:7400 is 127.0.1.1:7400 on this host, which no other host can reach")
        alone.wait_log("listening")
        self.assertIn("node.listen: host1:7400 is 127.0.1.1:7400", self.host(1, "HOST:7400", "").wait_exit(1))


if __name__ == "__main__":
    netns.skip_if_missing()
    unittest.main(verbosity=2)

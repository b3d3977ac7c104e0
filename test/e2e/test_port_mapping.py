"""Nodes behind routers that forward a port to who asks, by NAT-PMP or UPnP: members call them there.

Needs root, iproute2 and nftables; for UPnP miniupnpd, too."""

import os
import shutil
import socket
import subprocess
import sys

from chaos import Cluster, netns, signal, unittest, wait_until
from natpmp import TCP, UDP, NatPmp

DOCTOR = os.environ.get("P2PML_PROGRAM") or os.path.join(os.path.dirname(os.environ["P2PML_E2E_NODE"]), "p2pml")
LEASE_S = 20  # the shortest that is renewed at its half
MINIUPNPD = """
ext_ifname=wan
ext_ip=9.9.9.9
listening_ip=lan
http_port=5000
enable_upnp=yes
enable_natpmp=no
secure_mode=yes
min_lifetime=10
uuid=00000000-0000-0000-0000-000000000001
lease_file={directory}/leases
upnp_table_name=upnp
upnp_nat_table_name=upnp
upnp_forward_chain=forward
upnp_nat_chain=in
upnp_nat_postrouting_chain=out
allow 1024-65535 192.168.0.0/16 1024-65535
"""
UPNP_RULES = """
add table inet upnp
add chain inet upnp forward
add chain inet upnp in { type nat hook prerouting priority -101; }
add chain inet upnp out
add rule ip home way ct status dnat accept
"""


class PortMapping(unittest.TestCase):
    def homes(self, behind, **settings):
        self.cluster = Cluster(max(behind) + 1, behind=behind, average__local_steps=8, topology__kind="complete", train__alone="go-on",
                               **settings)
        self.addCleanup(self.cluster.close)
        return self.cluster.network

    def router(self, home, **more):
        router = NatPmp(self.cluster.network, home, **more)
        self.addCleanup(router.close)
        return router

    def member(self, host, other):
        status = host.status() or {"members": []}
        return next((m for m in status["members"] if m["name"] == other.name), {"path": None, "addresses": []})

    def mapping(self, host):
        return (host.status() or {"port_mapping": {}})["port_mapping"]

    def linked(self, host, other, path):
        self.cluster.wait(lambda: self.member(host, other)["path"] == path, f"{host.name} is linked with {other.name}: {path}")

    def mapped(self, host, by, address):
        self.cluster.wait(lambda: self.mapping(host).get("state") == "mapped", f"the router of {host.name} forwards a port")
        self.assertEqual(self.mapping(host), {"state": "mapped", "by": by, "address": address})
        self.cluster.wait(lambda: host.status()["reach"] == "reachable", f"members can call {host.name}")
        self.assertIn(address, self.member(host, host)["addresses"])

    def closed(self, router):
        wait_until(lambda: not router.forwarded or router.problem, "the router forwards nothing more")
        self.assertIsNone(router.problem)

    def answers(self, i, address, port):
        with self.cluster.network.spaces[i].inside(), socket.socket() as call:
            return call.connect_ex((address, port)) == 0

    def doctor(self, host, *arguments):
        arguments = arguments or ("--node", "127.0.0.1:7480")
        done = subprocess.run([DOCTOR, "doctor", *arguments], capture_output=True, text=True, timeout=60, check=False,
                              preexec_fn=host.space.enter)
        return " ".join(done.stdout.split())

    def test_what_was_relayed_is_direct(self):
        """Behind routers that give each connection another port; one of the three forwards a port."""
        net = self.homes({1: "symmetric", 2: "symmetric", 3: "symmetric"})
        router = self.router(1, lease_s=LEASE_S)
        self.cluster.start()
        public, mapped, *others = self.cluster.hosts
        self.mapped(mapped, "NAT-PMP", f"{net.outside(1)}:7400")
        self.assertEqual(router.forwarded, {(p, net.address(1), 7400): 7400 for p in (UDP, TCP)})
        for other in others:
            self.linked(mapped, other, "mapped")
            self.linked(other, mapped, "direct")
        self.linked(*others, "relayed")
        for other in others:
            self.cluster.wait(lambda: self.mapping(other).get("state") == "no answer", f"the router of {other.name} has been asked in vain")
        self.assertEqual(self.mapping(public)["state"], "not asked")
        self.assertIn(f"the router forwards {net.outside(1)}:7400 to this node (NAT-PMP)", self.doctor(mapped))
        self.assertIn("the router answers neither to NAT-PMP nor to UPnP", self.doctor(others[0]))
        self.cluster.wait(lambda: router.asked.count((UDP, 7400, 1200)) >= 2, "the node renews its lease")
        self.assertEqual(self.mapping(mapped)["state"], "mapped")

        mapped.signal(signal.SIGTERM)
        mapped.wait_exit(0)
        mapped.running = False
        self.closed(router)
        self.cluster.stop()
        self.cluster.sane_logs()

    def test_two_nodes_of_one_home_want_the_same_port(self):
        net = self.homes({1: "symmetric", 2: 1, 3: "symmetric"})
        router = self.router(1)
        self.cluster.start()
        hosts = self.cluster.hosts
        for host in hosts[1:3]:
            self.cluster.wait(lambda: self.mapping(host).get("state") == "mapped", f"the router of {host.name} forwards a port")
        ports = {self.mapping(h)["address"].removeprefix(f"{net.outside(1)}:") for h in hosts[1:3]}
        self.assertEqual((len(ports), "7400" in ports), (2, True), ports)
        for host in hosts[1:3]:
            self.linked(host, hosts[3], "mapped")
        self.linked(hosts[1], hosts[2], "direct")  # at home
        self.cluster.stop()
        self.closed(router)

    def test_behind_two_routers_nothing_is_told(self):
        net = self.homes({1: "double"})
        self.router(1)
        self.cluster.start()
        host = self.cluster.hosts[1]
        self.cluster.wait(lambda: self.mapping(host).get("address"), "the inner router forwards a port")
        self.cluster.wait(lambda: host.status()["outside"], "others see the node")
        self.assertEqual(self.mapping(host), {"state": "not told", "by": "NAT-PMP", "address": "100.64.1.2:7400"})
        self.assertEqual(self.member(host, host)["addresses"], [f"{net.address(1)}:7400", f"{net.outside(1)}:7400"])
        self.assertIn("stands behind another router", self.doctor(host))
        self.cluster.stop()

    def test_off_and_with_an_address_given_nothing_is_asked(self):
        for key, value in ("node__port_mapping", "off"), ("node__advertise", "10.7.1.2:7400"):
            with self.subTest(key=key):
                self.homes({1: "symmetric"}, **{key: value})
                router = self.router(1)
                self.cluster.start()
                host = self.cluster.hosts[1]
                self.cluster.wait(lambda: (host.status() or {}).get("reach") == "private", "it knows that it is private")
                self.assertEqual((self.mapping(host)["state"], router.asked), ("off", []))
                self.cluster.stop()

    def test_the_doctor_asks_for_no_port(self):
        self.homes({1: "symmetric"})
        router = self.router(1)
        public, host = self.cluster.hosts
        public.start()
        public.wait_log("listening peers on")
        settings = host.command[host.command.index("--set"):]
        self.assertIn("the router offers ports (NAT-PMP); its address outside is 10.7.1.2.", self.doctor(host, *settings))
        self.assertNotIn("port mapping", self.doctor(host, *settings, "--set", "node.port_mapping=off"))
        self.assertEqual((router.asked, router.problem), ([], None))

    @unittest.skipUnless(shutil.which("miniupnpd", path=netns.PATH), "miniupnpd is not here (Debian: miniupnpd-nftables)")
    def test_upnp(self):
        """miniupnpd takes no private address outside, as the one of the test is; another one is not told."""
        net = self.homes({1: "symmetric"})
        space, path = net.routers[1][0], os.path.join(self.cluster.directory, "miniupnpd.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(MINIUPNPD.format(directory=self.cluster.directory))
        space.run("nft", "-f", "-", said=UPNP_RULES)
        daemon = subprocess.Popen([shutil.which("miniupnpd", path=netns.PATH), "-d", "-f", path, "-P", os.path.join(self.cluster.directory, "pid")],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=space.enter)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        wait_until(lambda: self.answers(1, f"{net.net(1)}.1", 5000), "miniupnpd answers")
        self.cluster.start()
        mapped = self.cluster.hosts[1]
        self.cluster.wait(lambda: self.mapping(mapped).get("address"), "the router forwards a port")
        self.assertEqual(self.mapping(mapped), {"state": "not told", "by": "UPnP", "address": "9.9.9.9:7400"})
        self.assertIn(f"dnat ip to {net.address(1)}:7400", space.run("nft", "list", "chain", "inet", "upnp", "in"))
        mapped.signal(signal.SIGTERM)
        mapped.wait_exit(0)
        mapped.running = False
        self.assertNotIn("dnat", space.run("nft", "list", "chain", "inet", "upnp", "in"))
        self.cluster.stop()


def main():
    netns.skip_if_missing()
    if "libnatpmp" not in subprocess.run(["ldd", os.environ["P2PML_E2E_NODE"]], capture_output=True, text=True, check=True).stdout:
        print("skipped: p2pml was built without libminiupnpc and libnatpmp")
        sys.exit(77)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()

"""p2pml doctor on three hosts: host 0 is open, host 1 behind a usual router, host 2 behind a symmetric one.

Needs root, iproute2 and nftables."""

import json
import os
import re
import subprocess

import cluster
import netns
from cluster import unittest, wait_until

DOCTOR = os.path.join(os.path.dirname(cluster.PROGRAM), "p2pml")
PORT, PAGE = netns.PORT, 7480


class DoctorTest(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.net = None
        self.secret = self.file("secret", "a secret of this test\n", 0o600)

    def homes(self, count, behind):
        self.net = netns.Homes(count, behind)
        self.addCleanup(self.net.close)

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def settings(self, i, **more):
        return {"node.name": f"n{i}", "node.dir": os.path.join(self.directory, f"n{i}"), "node.listen": f"0.0.0.0:{PORT}",
                "node.http": f"127.0.0.1:{PAGE}", "cluster.secret_file": self.secret,
                "peers": f"{self.net.address(0)}:{PORT}" if i else "", **{k.replace("__", "."): v for k, v in more.items()}}

    def begin(self, *hosts, **settings):
        for i in hosts:
            mine = {**cluster.SMALL, "data.shard": i, "data.shards": 3, "topology.kind": "ring", "train.steps": 2_000_000,
                    "average.local_steps": 100, "node.start_timeout": "1s", **self.settings(i, **settings)}
            self.nodes.append(cluster.Node(self.directory, f"n{i}", mine).start(before=self.net.spaces[i].enter))

    def page(self, i):
        return json.loads(self.net.spaces[i].run("curl", "-sf", "--max-time", "20", f"http://127.0.0.1:{PAGE}/status"))

    def command(self, i, *arguments, status=0):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")} | {"RES_OPTIONS": "timeout:1 attempts:1"}
        done = subprocess.run([DOCTOR, "doctor", *arguments], capture_output=True, text=True, env=environment, timeout=120, check=False,
                              preexec_fn=self.net.spaces[i].enter)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def doctor(self, i, *arguments, status=0):
        """The findings by what they are about: (level, text, advice)."""
        told = json.loads(self.command(i, "--json", *arguments, status=status)[0])
        found = {}
        for f in told["findings"]:
            found.setdefault(f["about"], []).append((f["level"], f["text"], f["advice"]))
        self.assertEqual(told["problems"], sum(f["level"] == "problem" for f in told["findings"]))
        return found

    def host(self, i, status=0, **settings):
        """Without a node."""
        arguments = [a for key, value in self.settings(i, **settings).items() for a in ("--set", f"{key}={value}")]
        return self.doctor(i, *arguments, status=status)

    def says(self, found, about, level, pattern):
        self.assertTrue(any(f[0] == level and re.search(pattern, f[1]) for f in found.get(about, [])),
                        f"{about}: no {level} /{pattern}/ in {found}")

    def comes_to_say(self, ask, *expected):
        """What a node knows of its paths is complete some time after its links are there."""
        def complete():
            try:
                found = ask()
                for about, level, pattern in expected:
                    self.says(found, about, level, pattern)
            except AssertionError as error:
                last.append(error)
                return None
            return found
        last = []
        try:
            return wait_until(complete, "all findings")
        except AssertionError:
            raise last[-1] from None

    # -- a node runs

    def test_a_running_cluster(self):
        self.homes(3, {1: "port-restricted", 2: "symmetric"})
        self.begin(0, 1, 2)
        linked = lambda i: sum(m["linked"] for m in self.page(i)["members"]) == 2
        self.nodes[0].wait_log("members can call this node")
        for node in self.nodes:
            node.wait_log(r"http|page")
        for i in 0, 1, 2:
            wait_until(lambda i=i: linked(i), f"all links of n{i}")
        for i in 1, 2:
            self.nodes[i].wait_log("no member could call this node")
        found = self.comes_to_say(
            lambda: self.doctor(1),
            ("n0", "ok", r"^direct link: round trip [0-9.]+ ms, at least [0-9.]+ .?B/s$"),
            ("n2", "note", "^linked over n0: neither end could call the other"),
            ("reach", "note", rf"^private: .* at {self.net.outside(1)}:{PORT}; .*over n0$"))
        self.assertNotIn("clock", found)  # it is the same
        self.comes_to_say(lambda: self.doctor(0, "--node", f"127.0.0.1:{PAGE}"),
                          ("reach", "ok", "^reachable"), ("relaying", "note", r"forwards [1-9]\d* links?"))
        self.comes_to_say(lambda: self.doctor(2), ("n1", "note", "^linked over n0"))
        found = self.host(1)  # its configuration: the port is taken, by the node that it asks, too
        self.says(found, "port", "ok", "is used by that node")
        self.says(found, f"{self.net.address(0)}:{PORT}", "ok", "^n0 .*answers")
        status = self.page(0)
        self.assertEqual({m["name"] for m in status["members"]}, {"n0", "n1", "n2"})
        paths = lambda: {e["name"]: (e["path"], e["via"]) for e in self.page(1)["edges"]}
        wait_until(lambda: paths() == {"n0": ("direct", None), "n2": ("relayed", "n0")}, "one direct edge and one over n0")
        told, _ = self.command(1)
        self.assertRegex(told, r"(?m)^ok +n0 +direct link")
        self.assertRegex(told, r"(?m)^No problem was found\.$")
        table = subprocess.run([DOCTOR, "top", "--once"], capture_output=True, text=True, check=True, preexec_fn=self.net.spaces[1].enter)
        self.assertRegex(table.stdout, r"(?m)^n2 .*over n0")
        self.assertRegex(table.stdout, r"(?m)^n0 .*direct")

    # -- no node runs here

    def test_before_the_start(self):
        self.homes(2, {1: "port-restricted"})
        self.begin(0)
        self.nodes[0].wait_log("listen")
        peer = f"{self.net.address(0)}:{PORT}"
        before = wait_until(lambda: self.page(0), "the page")
        found = self.host(1)
        self.says(found, "port", "ok", "free, for TCP and UDP")
        self.says(found, peer, "ok", "^n0 answers: p2pml .* round trip .*, full packets pass$")
        self.says(found, "router", "note", rf"^this host is behind a router: n0 sees it at {self.net.outside(1)}:{PORT}\.")
        after = self.page(0)
        self.assertEqual([m["name"] for m in after["members"]], ["n0"])
        for key in "condition", "missing_links", "edges", "peers":
            self.assertEqual(after[key], before[key])
        self.assertNotRegex(self.nodes[0].log(), "stranger|refused|duplicate")
        with self.subTest("a path that swallows full packets"):
            self.net.swallow(1, 1280)
            self.says(self.host(1, status=1), peer, "problem", "full ones of 1500 bytes vanish")
            self.net.swallow(1, None)
        with self.subTest("another secret"):
            other = self.file("other", "quite another secret\n", 0o600)
            self.says(self.host(1, status=1, cluster__secret_file=other), peer, "problem", "another secret")
        with self.subTest("loopback"):
            self.says(self.host(1, status=1, node__listen=f"127.0.0.1:{PORT}"), "node.listen", "problem", "no other host can call")
        with self.subTest("nothing there, nobody there, no such name, the host itself"):
            closed, itself = f"{self.net.address(0)}:7999", f"{self.net.address(1)}:{PORT}"
            silent, router = f"10.9.9.9:{PORT}", f"{self.net.outside(1)}:{PORT}"
            self.net.set("silent", "ip daddr 10.9.9.9")
            found = self.host(1, status=1, peers=f"{closed},{itself},{silent},{router},no-such-host.invalid:7400,{peer}")
            self.says(found, closed, "problem", "nothing listens there")
            self.says(found, itself, "ok", "this host itself")
            self.says(found, router, "note", "the router of this host")
            self.says(found, "no-such-host.invalid:7400", "problem", "cannot be resolved")
        with self.subTest("advertised"):
            found = self.host(1, node__advertise=f"{self.net.outside(1)}:{PORT}")
            self.says(found, "node.advertise", "note", f"a router must forward port {PORT}")
        with self.subTest("a wrong configuration is none that can be examined"):
            _, errors = self.command(1, "--set", "node.listne=1", status=2)
            self.assertIn("node.listne", errors)

    def test_an_allow_list(self):
        """A node with such a list calls with its own identity; others are told what is missing."""
        self.homes(3, {1: "port-restricted", 2: "symmetric"})
        keys = [self.identity(i) for i in (0, 1)]
        allow = self.file("allow", "\n".join(keys) + "\n")
        self.begin(0, cluster__allow_file=allow)
        self.nodes[0].wait_log("listen")
        peer = f"{self.net.address(0)}:{PORT}"
        self.says(self.host(1, cluster__allow_file=allow), peer, "ok", "node of this cluster|^n0")
        found = self.host(2)
        self.says(found, peer, "note", "lets in only listed nodes")
        self.assertNotIn("router", found)

    def identity(self, i):
        directory = os.path.join(self.directory, f"n{i}")
        os.makedirs(directory)
        made = subprocess.run([DOCTOR, "keygen", "--identity", os.path.join(directory, "identity")], capture_output=True, text=True, check=True)
        return re.search(r"\b[0-9a-f]{64}\b", made.stdout)[0]

    def test_the_kind_of_router_that_two_peers_see(self):
        self.homes(4, {2: "port-restricted", 3: "symmetric"})
        self.begin(0, 1)
        for node in self.nodes:
            node.wait_log("listen")
        peers = f"{self.net.address(0)}:{PORT},{self.net.address(1)}:{PORT}"
        self.says(self.host(2, peers=peers), "router", "note", rf"^this host is behind a router: 2 peers see it at {self.net.outside(2)}:{PORT}\.")
        self.says(self.host(3, peers=peers), "router", "note", "symmetric NAT")
        self.assertNotIn("router", self.host(1, peers=f"{self.net.address(1)}:{PORT}", node__listen=f"0.0.0.0:{PORT + 1}"))


def main():
    netns.skip_if_missing()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()

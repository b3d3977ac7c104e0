"""Two nodes that nobody can call train over a member that relays for them. It stops, and another one takes over.

Needs root, iproute2 and nftables."""


from chaos import Cluster, netns, signal, unittest

# Behind routers that give each connection another port: the two are never linked directly.
BEHIND = {2: "symmetric", 3: "symmetric"}


class RelayTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(4, behind=BEHIND, average__local_steps=8, topology__kind="complete", train__alone="go-on")
        self.addCleanup(self.cluster.close)

    def member(self, host, other):
        status = host.status() or {"members": []}
        return next((m for m in status["members"] if m["name"] == other.name), {"path": None, "via": None})

    def edge(self, host, other):
        status = host.status() or {"edges": []}
        return next((e for e in status["edges"] if e["name"] == other.name), {"state": None, "exchanges": 0, "resyncs": 0})

    def trained_over(self, relay):
        """The two have met over this relay, and meet again."""
        a, b = self.cluster.hosts[2:]
        for host, other in (a, b), (b, a):
            self.cluster.wait(lambda: self.member(host, other)["via"] == relay.name, f"{host.name} is linked with {other.name} over {relay.name}")
            before = self.edge(host, other)["exchanges"]
            self.cluster.wait(lambda: self.edge(host, other)["exchanges"] > before + 3, f"exchanges of {host.name} and {other.name} over {relay.name}")
            self.assertEqual(self.member(host, other)["path"], "relayed")

    def start_three(self):
        first, second, a, b = self.cluster.hosts
        for host in first, a, b:
            host.command += ["--set", "node.start_members=3"]
            host.start()
        self.trained_over(first)
        return first, second, a, b

    def test_last_words_pass_over_the_relay(self):
        first, _, a, b = self.start_three()
        a.signal(signal.SIGTERM)
        a.wait_exit(0)
        a.running = False
        for host, way in (b, f"relay {first.name}"), (first, r"[0-9.:]+"):
            host.wait_log(rf"link_down .*{a.name} at {way}: it left")
        self.cluster.stop()
        self.cluster.sane_logs()

    def test_a_relay_that_hangs_gives_way(self):
        hosts = self.cluster.start().hosts
        relays, (a, b) = hosts[:2], hosts[2:]
        self.cluster.wait(lambda: self.member(a, b)["via"], "the two are linked over a relay")
        via = self.member(a, b)["via"]
        hangs, other = relays if relays[0].name == via else reversed(relays)
        self.trained_over(hangs)
        hangs.signal(signal.SIGSTOP)
        self.addCleanup(hangs.signal, signal.SIGCONT)
        hangs.running = False
        self.trained_over(other)
        self.assertRegex(a.log() + b.log(), rf"link_late .* at relay {hangs.name}:")  # not only when it is dead
        for host, peer in (a, b), (b, a):
            self.assertEqual(self.edge(host, peer)["resyncs"], 0)
        hangs.kill()
        self.cluster.stop()

    def test_another_member_takes_over(self):
        first, second, a, b = self.start_three()
        self.assertGreater(first.status()["forwarded_bytes"], 0)
        self.assertEqual([a.status()["reach"], b.status()["reach"], first.status()["reach"]], ["private", "private", "reachable"])
        second.command += ["--set", "node.start_members=3"]
        second.start()
        for host in a, b, first:
            self.cluster.wait(lambda: self.edge(host, second)["exchanges"] > 0, f"exchanges of {host.name} and {second.name}")
        self.cluster.wait(lambda: second.status()["reach"] == "reachable", "members can call the second one")
        self.trained_over(first)  # what works stays

        first.signal(signal.SIGTERM)
        first.wait_exit(0)
        first.running = False
        self.trained_over(second)
        for host, other in (a, b), (b, a):
            self.assertEqual(self.edge(host, other)["resyncs"], 0)
        self.assertEqual(self.cluster.deaths(0), [])
        self.cluster.stop()
        self.cluster.sane_logs()


def main():
    netns.skip_if_missing()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()

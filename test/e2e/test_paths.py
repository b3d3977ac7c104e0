"""Paths that break while nodes train: one that swallows large packets, a router that forgets its connections, one that
gets another address. All edges exchange again soon, and go on where they were.

Needs root, iproute2 and nftables."""


import paths
from chaos import netns, unittest


class PathsTest(unittest.TestCase):
    """How soon: test/trial/paths. Here it must be before the kernel gives a connection up, after 12 s."""

    def whole_again(self, kinds, name, disturb, notices):
        with paths.Paths(kinds) as one:
            one.begin_all()
            before = one.resyncs()
            disturb(one, len(kinds) - 1)
            if notices:
                one.wait(lambda: any("link_stuck" in h.log() for h in one.hosts), "a node notices that its link is stuck", paths.PATIENCE)
            seconds, last = one.whole_again()
            print(f"\n{name}: all edges exchange again after {seconds:.1f} s{' more' * notices}, the last was {'-'.join(last or ())}", flush=True)
            logs = "".join(h.log() for h in one.hosts)
            self.assertTrue(notices or "link_stuck" not in logs)
            self.assertNotIn("Connection timed out", logs)
            self.assertEqual(one.resyncs() - before, 0)
            one.all_run()
            one.sane_logs()
            self.assertEqual(one.deaths(0), [])

    def test_large_packets_vanish_between_two(self):
        """Behind a router no node sends large ones."""
        self.whole_again(["open"] * 3, "black hole", lambda one, last: one.swallow_between(0, last), False)

    def test_a_router_forgets_its_connections(self):
        self.whole_again(["open", "open", "port-restricted"], "router", lambda one, last: one.network.forget(last), True)

    def test_the_address_of_a_home_changes(self):
        self.whole_again(["open", "open", "port-restricted"], "address", lambda one, last: one.network.move(last), True)


def main():
    netns.skip_if_missing()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()

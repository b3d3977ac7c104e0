"""Six nodes, one public and five behind routers of all kinds: each pair of the ring exchanges, and all learn and end well.

Needs root, iproute2 and nftables. test/trial/homes compares accuracies, on other graphs, too."""

import unittest

import cluster
import homes
from chaos import netns

KINDS = ("full-cone", "port-restricted", "symmetric", "firewall", "double")
ALL_STEPS = 3200
STEPS = ALL_STEPS if cluster.SLOWER == 1 else 800  # with sanitizers: too few to learn all
LEARNT = 85.0  # percent; a node that trains with half of the others has no more than 75


class BehindNat(unittest.TestCase):
    def test_a_ring(self):
        with homes.Homes(6, KINDS, train__steps=STEPS) as run:
            run.at(run.rounds // 10, lambda: self.all_meet(run))
            outcome = homes.Outcome(run, run.run())
        print(f"\n{outcome.line()}", flush=True)
        self.assertEqual(outcome.problems, [])
        if STEPS == ALL_STEPS:
            self.assertGreater(outcome.worst, LEARNT)

    def all_meet(self, run):
        """While they train: a ring with gaps takes minutes to its end. At first the nodes find out how others reach them, and the graph follows."""
        def live():
            run.look()
            edges = homes.Edges(run.last)
            return not edges.wrong() and len(edges.live) == 6
        run.wait(live, "all six edges are live", cluster.PATIENCE)


def main():
    netns.skip_if_missing()
    homes.use_default_times()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()

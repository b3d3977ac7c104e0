"""p2pml.robust, each rule against its formula. Needs numpy and pandas; P2PML_PROGRAM names p2pml."""

import importlib.util
import unittest

import numpy as np

from p2pml import lab, robust

CENTRE = np.linspace(0.5, 1.5, 40, dtype=np.float32)


def pulled(x, node, random):
    return 0.0, x - CENTRE + np.float32(0.01) * random.normal(size=x.shape).astype(np.float32)


def ended(method, honest=range(8), **more):
    """The largest distance of an honest node from the centre."""
    last = {}

    def watched(world):
        method(world)
        last["x"] = world.x.copy()
    lab.rounds(pulled, np.zeros(40), watched, nodes=8, rounds=60, rate=0.05, **more)
    return max(float(np.linalg.norm(last["x"][i] - CENTRE)) for i in honest)


class World:
    def __init__(self):
        random = np.random.default_rng(0)
        self.n, self.d, self.entries = 5, 7, 0
        self.x = random.normal(size=(self.n, self.d))
        ring = np.roll(np.eye(self.n), 1, 0)
        self.weights = (np.eye(self.n) + ring + ring.T) / 3

    def send(self, entries):
        self.entries += entries


def by_formula(world, tau):
    """tau: of a node and the distances of its two neighbours."""
    moved = world.x.copy()
    for i in range(world.n):
        others = [world.x[(i + way) % world.n] - world.x[i] for way in (-1, 1)]
        norms = [float(np.linalg.norm(other)) for other in others]
        moved[i] += sum(other * min(1, tau(norms) / norm) / 3 for other, norm in zip(others, norms))
    return moved


class Robust(unittest.TestCase):
    def test_clipped_gossip_is_its_formula(self):
        for given, tau in ((1.5, lambda norms: 1.5), (float("inf"), lambda norms: float("inf")), (0, min)):  # adaptive: the nearer of the two
            world = World()
            expected = by_formula(world, tau)
            robust.clipped_gossip(given)(world)
            np.testing.assert_allclose(world.x, expected)
            self.assertEqual(world.entries, world.d)

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "no pandas in this Python")
    def test_a_liar_moves_who_clips_less(self):
        honest = [i for i in range(8) if i != 3]
        for kind, lie in robust.LIES.items():
            near = ended(robust.lying(robust.clipped_gossip(0.05), [3], lie), honest)
            self.assertLess(near, 0.6 if kind != "alie" else 0.1, kind)
        far = ended(robust.lying(robust.clipped_gossip(float("inf")), [3], robust.LIES["negated"]), honest)
        self.assertGreater(far, 1.5)
        self.assertLess(ended(robust.clipped_gossip(0.05)), 0.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

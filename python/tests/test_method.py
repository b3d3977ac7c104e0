"""What docs/METHOD.md proves or measures, on the exchange of bench_method.py; and that this is the exchange of p2pml. Needs numpy; the last one pandas."""

import importlib.util
import unittest

import bench_method
import numpy as np
from bench_method import Cluster, factor, measured, problem, rounds_to


class Identities(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(*problem(8), k=20, gain=2, hold=0.5, rate=0.01, steps=4)
        for _ in range(30):
            self.cluster.step()

    def test_an_exchange_keeps_the_sums_of_x_and_c(self):
        x, c = self.cluster.x.sum(0), self.cluster.c
        self.assertGreater(abs(c).max(), 0.1)
        np.testing.assert_allclose(c.sum(0), 0, atol=1e-9)
        before = self.cluster.x.copy()
        for _ in range(3):
            self.cluster.exchange()
        self.assertGreater(abs(self.cluster.x - before).max(), 1e-4)
        np.testing.assert_allclose(self.cluster.x.sum(0), x, atol=1e-9)
        np.testing.assert_allclose(self.cluster.c.sum(0), 0, atol=1e-9)

    def test_what_is_not_sent_stays_and_is_all_that_two_ends_differ_by(self):
        (i, j), r = next(iter(self.cluster.r.items()))
        a = {end: self.cluster.x[end] - r for end in (i, j)}
        self.cluster.meet(i, j)
        for end in (i, j):
            q = self.cluster.packet(a[end])
            np.testing.assert_allclose(self.cluster.x[end] - r, a[end] - q, atol=1e-12)
            self.assertLess(np.linalg.norm(a[end] - q) ** 2, (1 - 20 / a[end].size) * np.linalg.norm(a[end]) ** 2)
        y = self.cluster.x - self.cluster.held
        np.testing.assert_allclose(y[i] - y[j], 0.5 * (self.cluster.x[i] - self.cluster.x[j]), atol=1e-12)  # 1 - h


class Rates(unittest.TestCase):
    def test_two_nodes_without_training_contract_by_what_is_not_sent(self):
        cluster = Cluster(*problem(2), k=20, rate=1e-9)
        cluster.x = np.random.default_rng(3).normal(size=cluster.x.shape)
        cluster.exchange()
        for _ in range(50):
            r = cluster.r[0, 1]
            before = sum(np.linalg.norm(x - r) ** 2 for x in cluster.x)
            cluster.exchange()
            self.assertLessEqual(sum(np.linalg.norm(x - r) ** 2 for x in cluster.x), (1 - 20 / cluster.d) * before + 1e-20)

    def test_the_gain(self):
        def rounds(n, gain):
            return rounds_to(Cluster(*problem(n), k=20, gain=gain, rate=0.01, steps=4), 1e-3, 1500)
        for n in (2, 8):
            self.assertIsNone(rounds(n, 0), "without correction the nodes stay apart")
            self.assertIsNotNone(rounds(n, 2))
        self.assertIsNone(rounds(8, 8), "a gain that is too large")

    def test_the_optimum_is_reached_at_a_linear_rate(self):
        cluster = Cluster(*problem(8), k=40, gain=2, rate=0.01, steps=4)
        times = [rounds_to(cluster, 10.0 ** -e, 4000) for e in range(2, 8)]
        steps = np.diff(times)
        self.assertLess(steps.max(), 2.5 * steps.min(), times)


class Hold(unittest.TestCase):
    def test_the_formula(self):
        for part in (0.0, 0.25, 0.5, 0.75):
            for delay in (4, 20, 100):
                self.assertAlmostEqual(factor(part, delay, 0.04), measured(part, delay, 0.04), places=9)

    def test_half_is_the_most_that_no_delay_makes_unstable(self):
        steps, delays = np.linspace(0.001, 1, 60), (1, 2, 5, 20, 100, 1000)
        for part in (0.0, 0.2, 0.4, 0.5):
            self.assertLessEqual(max(abs(factor(part, delay, step)) for delay in delays for step in steps), 1)
        for part in (0.51, 0.6, 0.9):
            self.assertGreater(max(abs(factor(part, delay, step)) for delay in delays for step in steps), 1)


@unittest.skipUnless(importlib.util.find_spec("pandas"), "no pandas in this Python")
class TheProduct(unittest.TestCase):
    def test_it_is_the_exchange_of_p2pml(self):
        """Of the twin in p2pml.lab, which test_compare.py compares with the library bit for bit."""
        from p2pml import lab
        cluster = Cluster(*problem(8), k=20, gain=2, rate=0.01, steps=4)

        def model(x, node, random):
            return 0.0, (cluster.bends[node] * (x - cluster.goals[node])).astype(np.float32)

        def pairs(round, nodes):
            return [(i, j) for i, j in enumerate(bench_method.butterfly(nodes)(round - 1)) if i < j]
        seen = []
        lab.rounds(model, np.zeros(cluster.d), "edge-ref", topology=pairs, nodes=8, selection="top", filter="fp32", ratio=20 / cluster.d, drift_limit=1,
                   rate=0.01, local_steps=4, rounds=40, every=40, measure=lambda x: seen.append(np.array(x)) or 0.0)
        for _ in range(40):
            cluster.step()
        np.testing.assert_allclose(np.stack(seen[1:]), cluster.x, atol=2e-3)
        self.assertGreater(abs(cluster.x).max(), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

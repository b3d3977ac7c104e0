"""The methods of the literature in `p2pml.lab` (python/p2pml/_baselines.py): each against its formula, its optimum on quadratics, its bytes. Needs numpy
and pandas."""

import importlib.util
import unittest

import numpy as np

import p2pml
from p2pml import lab

NODES, D = 4, 40
GOALS = np.random.default_rng(1).normal(size=(NODES, D)).astype(np.float32) * 3  # of each node its own
BENDS = np.random.default_rng(2).uniform(0.5, 1.5, size=(NODES, D)).astype(np.float32)
OPTIMUM = (BENDS * GOALS).sum(0) / BENDS.sum(0)


def quadratic(x, node, random):
    """Of each node another minimum and another curvature: the mean of the minima is not the optimum."""
    away = x - GOALS[node]
    return float((BENDS[node] * away ** 2).sum()), BENDS[node] * away


def still(x, node, random):
    return 0.0, 0 * x


def turning(round, nodes):
    bit = 1 << round % 2
    return [(i, i ^ bit) for i in range(nodes) if i < i ^ bit]


class Kept:
    def __init__(self):
        self.models = []

    def __call__(self, x):
        self.models.append(np.array(x))
        return 0.0

    def of_round(self, number, nodes=NODES):
        """The models of the nodes after a round; the averaged one comes first."""
        each = nodes + 1
        return np.stack(self.models[number * each:][1:each])


def models_of(method, rounds=1, model=quadratic, start=None, **more):
    kept = Kept()
    start = np.zeros(D) if start is None else start
    common = {"nodes": NODES, "topology": "butterfly", "rate": 0.05, "every": 1, "local_steps": 2, **more}
    table = lab.rounds(model, start, method, rounds=rounds, measure=kept, **common)
    return [kept.of_round(i, common["nodes"]) for i in range(rounds)], table["bytes"]


def distance(method, rounds=300, **more):
    models, _ = models_of(method, rounds, **more)
    return max(float(np.linalg.norm(x - OPTIMUM)) for x in models[-1])


@unittest.skipUnless(importlib.util.find_spec("pandas"), "no pandas in this Python")
class Baselines(unittest.TestCase):
    def setUp(self):
        self.after_steps = models_of("local")[0][0]

    def test_two_way_of_everything_is_an_all_reduce(self):
        (x,), sent = models_of("two-way", ratio=1.0, filter="fp32")
        np.testing.assert_allclose(x, np.tile(self.after_steps.mean(0), (NODES, 1)), atol=1e-6)
        self.assertEqual(sent[0], 2 * (NODES - 1) * (6 + 4 * D))

    def test_two_way_loses_nothing_that_it_does_not_send(self):
        """With steps that stop after one round what is missing arrives in d/k more."""
        def once(x, node, random):
            once.steps += 1
            return 0.0, -GOALS[node] if once.steps <= NODES else 0 * x
        once.steps = 0
        models, _ = models_of("two-way", 40, model=once, local_steps=1, ratio=0.1, filter="fp32", rate=1.0)
        self.assertGreater(abs(models[0][0] - GOALS.mean(0)).max(), 0.1)
        np.testing.assert_allclose(models[-1], np.tile(GOALS.mean(0), (NODES, 1)), atol=1e-5)

    def test_gradient_tracking_reaches_the_optimum_and_averaging_alone_does_not(self):
        self.assertGreater(distance("dpsgd", topology="ring"), 0.3)
        self.assertLess(distance("gradient-tracking", topology="ring"), 1e-3)
        (x,), sent = models_of("gradient-tracking", topology="complete", nodes=NODES)
        np.testing.assert_allclose(x, np.tile(self.after_steps.mean(0), (NODES, 1)), atol=1e-6)
        self.assertEqual(sent[0], NODES * (NODES - 1) * 2 * 4 * D)

    def test_gradient_tracking_is_dsgt_with_one_local_step(self):
        """x' = W (x - rate y), y' = W y + g(x') - g(x), y = g(x) at the start, in the notation in which the steps are averaged, too."""
        rate, weights = 0.05, np.eye(NODES) / 3 + np.array([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]]) / 3
        x = np.zeros((NODES, D))
        tracked = gradients = BENDS * (x - GOALS)
        models, _ = models_of("gradient-tracking", 30, topology="ring", local_steps=1, rate=rate)
        for of_round in models:
            x = weights @ (x - rate * tracked)
            np.testing.assert_allclose(of_round, x, atol=1e-4)
            before, gradients = gradients, BENDS * (x - GOALS)
            tracked = weights @ tracked + gradients - before

    def test_gasloc_without_momentum_are_exact_pairs(self):
        exact, sent = models_of("model-average", 3)
        same, also = models_of("gasloc", 3, momentum=0.0)
        np.testing.assert_allclose(same, exact, atol=1e-6)
        self.assertEqual(list(sent), list(also))

    def test_gasloc_follows_its_formula(self):
        outer, gossip, momentum = 0.8, 0.6, 0.4
        began = before = np.zeros((NODES, D))
        models, _ = models_of("gasloc", 6, topology=turning, outer_rate=outer, gossip_rate=gossip, momentum=momentum)
        for number, x in enumerate(models):
            steps = began.copy()
            for _ in range(2):
                steps = steps - 0.05 * BENDS * (steps - GOALS)
            proposed = began + outer * (steps - began)
            partner = np.arange(NODES) ^ (1 << (number + 1) % 2)
            began = proposed + gossip * 0.5 * (proposed[partner] - proposed) + momentum * (proposed - before)
            before = proposed
            np.testing.assert_allclose(x, began, atol=1e-5)

    def test_powergossip_of_a_rank_one_difference_is_exact(self):
        left, right = np.arange(1, 5, dtype=np.float32), np.arange(2, 12, dtype=np.float32)

        def apart(x, node, random):
            return 0.0, np.outer(left, right).ravel().astype(np.float32) * (node + 1)
        (x,), sent = models_of("powergossip", model=apart, nodes=2, shapes=[(4, 10)])
        np.testing.assert_allclose(x[0], x[1], rtol=1e-4)
        self.assertEqual(sent[0], 2 * 4 * (4 + 10))

    def test_powergossip_keeps_the_mean_and_comes_together(self):
        begins = []

        def scattered(x, node, random):
            begins.append(node)
            return 0.0, -GOALS[node] if len(begins) <= NODES else 0 * x
        models, _ = models_of("powergossip", 200, model=scattered, local_steps=1, rate=1.0, shapes=[(5, 7), (5,)])
        for x in models:
            np.testing.assert_allclose(x.mean(0), GOALS.mean(0), atol=1e-4)
        self.assertLess(abs(models[-1] - GOALS.mean(0)).max(), 0.01)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "shapes: found 35 elements in all, expected the 40"):
            models_of("powergossip", shapes=[(5, 7)])

    def test_diloco_with_short_values_sends_their_bytes_and_still_arrives(self):
        exact, sent = models_of("diloco")
        whole, of_fp32 = models_of("diloco", filter="fp32")
        np.testing.assert_array_equal(exact, whole)
        self.assertEqual((sent[0], of_fp32[0]), (2 * 3 * 4 * D,) * 2)
        for filter, size in (("uniform4", 4 + D / 2), ("sign", 4 + D / 8)):
            models, sent = models_of("diloco", 300, filter=filter, outer_rate=0.4, outer_nesterov=0.0, local_steps=1)
            self.assertEqual(sent[0], 2 * 3 * size)
            self.assertLess(np.linalg.norm(np.mean(models[-50:], 0)[0] - OPTIMUM), 0.3, filter)

    def test_signs_are_those_of_the_library(self):
        there, _ = models_of("edge-ref", 8, topology="ring", average__values="sign", average__ratio=0.2)
        here, _ = models_of("edge-ref", 8, topology="ring", filter="sign", selection="top", ratio=0.2)
        np.testing.assert_allclose(here, there, atol=1e-5)

    def test_a_rate_that_falls(self):
        models, _ = models_of("local", 4, rate=lambda done: 0.05 * (1 - done), local_steps=1)
        x = np.zeros((NODES, D))
        for number, of_round in enumerate(models):
            x = x - 0.05 * (1 - number / 4) * BENDS * (x - GOALS)
            np.testing.assert_allclose(of_round, x, atol=1e-5)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "rate: found -1, expected a number above 0"):
            models_of("local", rate=lambda done: -1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

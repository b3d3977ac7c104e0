"""p2pml.lab: experiments from Python. Needs numpy and pandas; P2PML_PROGRAM names p2pml, P2PML_LIBRARY libp2pml.so."""

import importlib.util
import shutil
import tempfile
import unittest
import unittest.mock

import numpy as np

import p2pml
from p2pml import lab

SMALL = {"experiment": {"nodes": 3, "baselines": []}, "model": {"kind": "softmax"}, "train": {"steps": 24, "eval_rounds": 2}}


@unittest.skipUnless(importlib.util.find_spec("pandas"), "no pandas in this Python")
class Experiments(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_a_simulation_has_frames(self):
        result = lab.sim(SMALL, average__mode="sync")
        self.assertEqual(result.summary["status"], "complete")
        self.assertEqual(list(result.results["nodes"]), [3])
        self.assertIn("to_93.averaged_bytes", result.results)
        self.assertEqual(list(result.rounds["round"]), [0, 2, 4, 6])
        self.assertTrue(result.rounds["bytes"].is_monotonic_increasing)
        self.assertEqual(list(result.metrics.groupby("node")["step"].max()), [24, 24, 24])
        self.assertEqual(result.events["node"].nunique(), 3)
        self.assertTrue(result.averaged.exists())
        folder = result.directory
        del result
        self.assertFalse(folder.exists())  # nothing named it any more

    def test_a_sweep_has_a_row_a_run(self):
        result = lab.sim(SMALL, out=f"{self.folder}/sweep", sweep=[{"average.ratio": [1 / 32, 1 / 100]}])
        self.assertEqual(sorted(result.results["average.ratio"].astype(float)), [0.01, 0.03125])
        self.assertEqual(len(result.runs), 2)
        self.assertEqual(result.rounds["run"].nunique(), 2)
        self.assertEqual(len(lab.load(f"{self.folder}/sweep").results), 2)
        with self.assertRaisesRegex(p2pml.OrderError, "a sweep's runs are in `results`"):
            result.summary

    def test_real_processes(self):
        result = lab.run(SMALL, out=f"{self.folder}/run")
        self.assertEqual(result.summary["kind"], "run")
        self.assertEqual(list(result.metrics.groupby("node")["step"].max()), [24, 24, 24])

    def test_errors_have_words(self):
        with self.assertRaisesRegex(p2pml.ConfigurationError, "train.stepss"):
            lab.sim(SMALL, train__stepss=1)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "nowhere.yaml"):
            lab.sim(f"{self.folder}/nowhere.yaml")
        with self.assertRaisesRegex(p2pml.ConfigurationError, "no results.jsonl"):
            lab.load(self.folder)
        with self.assertRaises(lab.Failed) as failed:
            lab.run(SMALL, out=f"{self.folder}/late", train__steps=10 ** 9, experiment__time_limit="1s")
        self.assertTrue((failed.exception.result.directory / "summary.json").exists())


def dpsgd(world):
    world.send(world.d)
    world.x = world.weights @ world.x


def choco(world):
    y = world.state.setdefault("y", 0 * world.x)
    y += world.top(world.x - y, 0.25)
    world.x += 0.4 * (world.weights @ y - y)


def quadratic(x, node, random):
    """Each node has a minimum of its own; their mean is 1."""
    away = x - (1 + (node % 2 - 0.5) * 4)
    return float((away ** 2).mean()), away + 0.01 * random.normal(size=x.shape)


@unittest.skipUnless(importlib.util.find_spec("pandas"), "no pandas in this Python")
class Rounds(unittest.TestCase):
    def far(self, method, **more):
        def nearness(x):
            return -abs(x - 1).max()
        return lab.rounds(quadratic, np.zeros(40), method, nodes=4, rounds=60, rate=0.02, measure=nearness, **more)

    def test_methods_of_one_s_own(self):
        for method, least in ((dpsgd, 60 * 2 * 4 * 40 * 4), (choco, 60 * 2 * 4 * 10 * 8)):
            table = self.far(method)
            self.assertEqual(list(table["round"]), list(range(5, 61, 5)))
            self.assertEqual(table["bytes"].iloc[-1], least)
            self.assertGreater(table["measure"].iloc[-1], -0.2)  # of the mean
            self.assertGreater(table["worst"].iloc[-1], -1)  # alone: -2
            self.assertTrue(table.equals(self.far(method)))  # one seed, one result

    def test_all_that_a_method_does_is_seen(self):
        alone = self.far(lambda world: None)
        self.assertLess(alone["worst"].iloc[-1], -1.5)
        self.assertEqual(alone["bytes"].iloc[-1], 0)
        exact = self.far(lambda world: world.x.__setitem__(slice(None), world.x.mean(0)), topology="complete")
        self.assertLess(exact["consensus"].iloc[-1], 1e-9)

    def test_the_product_itself_on_the_same_model(self):
        table = self.far("edge-ref", average__ratio=0.25)
        self.assertGreater(table["measure"].iloc[-1], -0.2)
        self.assertGreater(table["worst"].iloc[-1], -1)
        self.assertGreater(table["bytes"].iloc[-1], 0)

    def test_nodes_that_do_not_begin_are_told(self):
        with unittest.mock.patch("p2pml._nodes._PATIENCE", 0), unittest.mock.patch("p2pml._nodes._starts", return_value=False):
            with self.assertRaisesRegex(TimeoutError, "4 of 4 nodes have not begun within 0 s"):
                self.far("edge-ref")

    def test_what_is_no_method_has_words(self):
        with self.assertRaisesRegex(p2pml.ConfigurationError, "found 'chaco'"):
            self.far("chaco")
        with self.assertRaisesRegex(p2pml.ConfigurationError, "rinng"):
            self.far(dpsgd, topology="rinng")
        with self.assertRaisesRegex(p2pml.ConfigurationError, "average.ration"):
            self.far("edge-ref", average__ration=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

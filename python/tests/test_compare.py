"""lab.compare, and what lab.rounds takes: methods, graphs, optimisers, PyTorch modules, selections and filters. Needs numpy and pandas; P2PML_PROGRAM
names p2pml, P2PML_LIBRARY libp2pml.so. Parts that need networkx, torch or matplotlib are skipped without them."""

import importlib.util
import math
import os
import re
import shutil
import tempfile
import unittest
import unittest.mock

import numpy as np

import p2pml
from p2pml import lab

README = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "README.md")


def needs(*names):
    missing = [name for name in names if not importlib.util.find_spec(name)]
    return unittest.skipIf(missing, f"no {' and no '.join(missing)} in this Python")


def quadratic(x, node, random):
    """Each node has a minimum of its own; with an even number of nodes their mean is 1."""
    away = x - (1 + (node % 2 - 0.5) * 4) * np.linspace(0.5, 1.5, x.size, dtype=np.float32)
    return float((away ** 2).mean()), away + np.float32(0.01) * random.normal(size=x.shape).astype(np.float32)


def nearness(x):
    return -float(abs(x - np.linspace(0.5, 1.5, x.size)).max())


class Traced:
    """Keeps what it measures: the averaged model and every node's, round after round."""

    def __init__(self):
        self.models = []

    def __call__(self, x):
        self.models.append(np.array(x))
        return 0.0


def models_of(method, d=200, rounds=12, **more):
    traced = Traced()
    lab.rounds(quadratic, np.zeros(d), method, rounds=rounds, every=1, rate=0.02, measure=traced, **more)
    return np.stack(traced.models)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def file(self, text):
        path = os.path.join(self.folder, "graph.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path


@needs("pandas")
class Readme(unittest.TestCase):
    def test_its_examples_typed_literally(self):
        with open(README, encoding="utf-8") as f:
            section = re.search(r"\n## Experiments.*?(?=\n## |\Z)", f.read(), re.S).group()
        blocks = re.findall(r"```python\n(.*?)```", section, re.S)
        names = {"lab": lab, "np": np, "model": quadratic, "start": np.zeros(60), "accuracy": nearness}
        for block in blocks[1:]:  # the first is a simulation of 8 nodes, with a sweep
            exec(compile(block, README, "exec"), names)
        epidemic = next(block for block in blocks if "def epidemic" in block)
        self.assertLessEqual(len([line for line in epidemic.splitlines() if line]), 9)
        result = names["result"]
        self.assertEqual(len(result.frame), 2 * 3 * 3)
        self.assertEqual(set(result.summary["method"]), {"edge-ref", "dpsgd", "epidemic"})
        alone = lab.rounds(quadratic, np.zeros(60), "local", nodes=9, measure=nearness)["worst"].iloc[-1]
        self.assertGreater(result.summary["worst"].min(), alone)
        for table in (names["mine"], names["ours"], names["hooks"]):
            self.assertGreater(table["worst"].iloc[-1], alone)


@needs("pandas")
class Compare(Folder):
    def small(self, **more):
        return lab.compare(quadratic, np.zeros(10), **{"methods": ["dpsgd", "local"], "seeds": 3, "nodes": 4, "rounds": 6, "measure": nearness, **more})

    def test_a_row_for_each_run_and_the_same_numbers_each_time(self):
        result = self.small(graphs=["ring", ("random", {"rings": 3})], methods=["dpsgd", ("choco", {"ratio": 0.5}), ("choco", {"ratio": 1.0})])
        self.assertEqual(len(result.frame), 3 * 2 * 3)
        self.assertEqual(list(result.frame["method"].unique()), ["dpsgd", "choco ratio=0.5", "choco ratio=1"])
        self.assertEqual(list(result.frame["graph"].unique()), ["ring", "random rings=3"])
        self.assertEqual(set(result.frame["rounds"]), {6})
        self.assertLessEqual({"measure", "worst", "mean", "consensus", "bytes", "seed", "seconds", "loss"}, set(result.frame))
        self.assertEqual(result.frame.groupby("method")["measure"].nunique().min(), 3)  # of each seed
        again = self.small(graphs=["ring", ("random", {"rings": 3})], methods=["dpsgd", ("choco", {"ratio": 0.5}), ("choco", {"ratio": 1.0})])
        self.assertTrue(result.frame.drop(columns="seconds").equals(again.frame.drop(columns="seconds")))
        one = lab.rounds(quadratic, np.zeros(10), "dpsgd", nodes=4, rounds=6, measure=nearness, seed=2)
        self.assertEqual(result.frame["measure"][2], one["measure"].iloc[-1])

    def test_intervals_and_paired_differences(self):
        result = self.small()
        by_method = {name: runs["measure"].to_numpy() for name, runs in result.frame.groupby("method")}
        summary = result.summary.set_index("method")
        self.assertAlmostEqual(summary["measure"]["dpsgd"], by_method["dpsgd"].mean())
        self.assertAlmostEqual(summary["measure_95"]["dpsgd"], 4.302653 * by_method["dpsgd"].std(ddof=1) / 3 ** 0.5, places=6)
        paired = by_method["local"] - by_method["dpsgd"]
        row = result.differences.iloc[0]
        self.assertEqual((row["method"], row["against"], row["seeds"], len(result.differences)), ("local", "dpsgd", 3, 1))
        self.assertAlmostEqual(row["measure"], paired.mean())
        self.assertAlmostEqual(row["measure_95"], 4.302653 * paired.std(ddof=1) / 3 ** 0.5, places=6)
        self.assertLess(row["bytes"], 0)
        self.assertTrue(math.isnan(self.small(seeds=1).summary["measure_95"].iloc[0]))
        self.assertIn("dpsgd", repr(result))

    def test_students_t(self):
        """The table of every textbook."""
        from p2pml._students_t import quantile
        for degrees, t in ((1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (30, 2.04227), (120, 1.97993)):
            self.assertAlmostEqual(quantile(degrees), t, delta=1e-4)

    def test_seeds_are_numbers_of_your_own_too_and_draw_the_start(self):
        result = lab.compare(quadratic, lambda random: random.normal(size=5), methods=["local"], seeds=[7, 3], rounds=1, rate=1e-9, nodes=2, measure=nearness)
        self.assertEqual(list(result.frame["seed"]), [7, 3])
        self.assertEqual(result.frame["measure"].nunique(), 2)

    @needs("matplotlib")
    def test_a_figure(self):
        path = os.path.join(self.folder, "result.svg")
        figure = self.small(graphs=["ring", "complete"]).figure(path=path)
        self.assertEqual([axes.get_title() for axes in figure.axes], ["ring", "complete"])
        self.assertEqual([len(axes.lines) for axes in figure.axes], [2, 2])
        self.assertGreater(os.path.getsize(path), 1000)

    def test_without_matplotlib_it_says_what_to_install(self):
        with unittest.mock.patch.dict("sys.modules", {"matplotlib": None, "matplotlib.figure": None}):
            with self.assertRaisesRegex(p2pml.EnvironmentFailed, "pip install matplotlib"):
                self.small().figure()


@needs("pandas")
class Graphs(Folder):
    LINE = "b a\nb c\nc d # the end\n"

    def test_a_file_with_a_method_of_your_own_and_with_the_library(self):
        seen = []
        lab.rounds(quadratic, np.zeros(4), lambda world: seen.append((world.n, world.edges, world.meetings())), topology=self.file(self.LINE), rounds=4)
        n, edges, _ = seen[0]
        self.assertEqual((n, sorted(map(sorted, edges))), (4, [[0, 1], [1, 2], [2, 3]]))
        self.assertEqual(seen[0][2], seen[2][2])
        self.assertEqual(sorted(sorted((a, b)) for a, b, _ in seen[0][2] + seen[1][2]), [[0, 1], [1, 2], [2, 3]])
        there = models_of("edge-ref", topology=self.file(self.LINE))
        np.testing.assert_allclose(models_of("edge-ref", topology=self.file(self.LINE), selection="top"), there, rtol=0, atol=2e-5)

    @needs("networkx")
    def test_a_graph_of_networkx(self):
        import networkx
        graph = networkx.relabel_nodes(networkx.star_graph(4), dict(enumerate("abcde")))
        seen = []
        lab.rounds(quadratic, np.zeros(4), lambda world: seen.append(world.edges), topology=graph, rounds=1)
        self.assertEqual(sorted(seen[0]), [(0, 1), (0, 2), (0, 3), (0, 4)])
        np.testing.assert_allclose(models_of("edge-ref", topology=graph, selection="top"), models_of("edge-ref", topology=graph), rtol=0, atol=2e-5)
        result = lab.compare(quadratic, np.zeros(4), methods=["dpsgd"], graphs=[graph, networkx.path_graph(5)], seeds=2, rounds=2)
        self.assertEqual(result.frame["graph"].nunique(), 2)

    def test_a_function_of_the_round(self):
        def turning(round, nodes):
            return [(i, (i + round) % nodes) for i in range(nodes) if i < (i + round) % nodes]
        seen = []
        lab.rounds(quadratic, np.zeros(4), lambda world: seen.append(world.edges), topology=turning, nodes=3, rounds=2)
        self.assertEqual(seen, [[(0, 1), (1, 2)], [(0, 2)]])

        def pairs(round, nodes):
            return [(i, i ^ (1 << round % 2)) for i in range(nodes) if i < i ^ (1 << round % 2)]
        exact = models_of("model-average", topology=pairs, nodes=4, rounds=2, local_steps=1)
        self.assertLess(abs(exact[-4:] - exact[-5]).max(), 0.2)  # a butterfly: only the last round's steps are apart
        models_of("edge-ref", topology=pairs, nodes=4, selection="top")


@needs("pandas")
class Methods(unittest.TestCase):
    def one_round(self, method, **more):
        """Models after local steps, models after the method, bytes."""
        before = models_of("local", rounds=1, nodes=4, d=40)[1:]
        traced = Traced()
        table = lab.rounds(quadratic, np.zeros(40), method, rounds=1, every=1, rate=0.02, nodes=4, measure=traced, **more)
        return before, np.stack(traced.models[1:]), table["bytes"][0]

    def test_each_against_its_formula(self):
        x, mixed, sent = self.one_round("allreduce")
        np.testing.assert_allclose(mixed, np.tile(x.mean(0), (4, 1)), atol=1e-6)
        self.assertEqual(sent, 2 * 3 * 4 * 40)
        metropolis = (np.eye(4) + np.array([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]])) / 3  # the ring 0 2 1 3
        for method, more in (("dpsgd", {}), ("choco", {"ratio": 1.0, "filter": "fp32", "step_size": 1})):
            _, mixed, sent = self.one_round(method, **more)
            np.testing.assert_allclose(mixed, metropolis @ x, atol=1e-6)
            self.assertGreaterEqual(sent, 8 * 4 * 40)
        _, mixed, _ = self.one_round("diloco", outer_rate=1, outer_nesterov=0)
        np.testing.assert_allclose(mixed, np.tile(x.mean(0), (4, 1)), atol=1e-6)
        _, mixed, _ = self.one_round("diloco", average__outer_rate=0.5, average__outer_nesterov=0.5)
        np.testing.assert_allclose(mixed, np.tile(0.75 * x.mean(0), (4, 1)), atol=1e-6)  # 0.5 (1 + 0.5)
        _, mixed, sent = self.one_round("sparseloco", ratio=1.0, filter="fp32", outer_rate=0.5)
        np.testing.assert_allclose(mixed, np.tile(0.5 * x.mean(0), (4, 1)), atol=1e-6)
        self.assertEqual(sent, 4 * 3 * (6 + 4 * 40))
        pairs = x[[2, 3, 0, 1]]
        for method, expected in (("model-average", (x + pairs) / 2), ("noloco", 0.7 * (x + pairs) / 2)):
            _, mixed, _ = self.one_round(method)
            np.testing.assert_allclose(mixed, expected, atol=1e-6)

    def test_all_but_local_come_together(self):
        for method in ("choco", "dpsgd", "model-average", "allreduce", "diloco", "noloco", "sparseloco"):
            table = lab.rounds(quadratic, np.zeros(40), method, nodes=4, rounds=80, rate=0.02, measure=nearness)
            self.assertGreater(table["worst"].iloc[-1], -1.5, method)  # alone: -3

    def test_edge_ref_in_numpy_has_the_models_of_the_library(self):
        for values in ("fp32", "int8"):
            there = models_of("edge-ref", nodes=4, average__values=values, average__ratio=0.1)
            np.testing.assert_array_equal(models_of("edge-ref", nodes=4, selection="top", filter=values, ratio=0.1), there)
        np.testing.assert_array_equal(models_of("edge-ref", nodes=8, topology="butterfly", rounds=7, selection="top"),
                                      models_of("edge-ref", nodes=8, topology="butterfly", rounds=7))
        other = models_of("edge-ref", nodes=4, selection="top", ratio=0.1, drift_gain=2.5)
        self.assertGreater(abs(other - there).max(), 1e-3)  # so the comparison can fail
        there = models_of("edge-ref", nodes=5, topology="complete", average__drift_gain=3, average__drift_limit=1)
        here = models_of("edge-ref", nodes=5, topology="complete", filter="int8", drift_gain=3, drift_limit=1)
        np.testing.assert_allclose(here, there, rtol=0, atol=2e-5)

    def test_its_bytes_are_those_of_the_library_without_hello_and_membership(self):
        common = dict(nodes=2, rounds=40, every=20, rate=0.02)
        there = lab.rounds(quadratic, np.zeros(4000), "edge-ref", **common)["bytes"]
        here = lab.rounds(quadratic, np.zeros(4000), "edge-ref", selection="top", **common)["bytes"]
        self.assertAlmostEqual(here[1] - here[0], there[1] - there[0], delta=0.02 * (there[1] - there[0]))

    def test_a_selection_and_a_filter_of_your_own(self):
        seen = []

        def first(difference, entries, random):
            seen.append((difference.size, entries))
            return [2, 0]

        def doubled(values):
            return 0 * values + 1, 100
        there = lab.rounds(lambda x, node, random: (0.0, 0 * x), np.zeros(40), "edge-ref", nodes=2, rounds=1, selection=first, filter=doubled, ratio=0.1)
        self.assertEqual(seen, [(40, 4)] * 2)
        self.assertEqual(there["bytes"][0], 2 * (48 + 6 + 1 + 100))  # the two indices fit a bitmap of a byte
        self.assertEqual(there["consensus"][0], 0)
        own = models_of("edge-ref", nodes=4, selection=lambda difference, entries, random: np.argsort(-abs(difference), kind="stable")[:entries],
                        filter=lambda values: (values, 4 * len(values)))
        np.testing.assert_array_equal(own, models_of("edge-ref", nodes=4, average__values="fp32"))


@needs("pandas")
class Optimizers(unittest.TestCase):
    @needs("torch")
    def test_those_of_torch(self):
        import torch
        for name, made in (("sgd", lambda p: torch.optim.SGD(p, lr=0.02)), ("momentum", lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9)),
                           ("adamw", lambda p: torch.optim.AdamW(p, lr=0.02)),
                           (("adamw", {"weight_decay": 0.3, "beta2": 0.9}), lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.3, betas=(0.9, 0.9)))):
            x = torch.full((5,), 2.0, requires_grad=True)
            optimizer = made([x])
            for _ in range(8):
                optimizer.zero_grad()
                ((x - 1) ** 2).sum().backward()
                optimizer.step()
            traced = Traced()
            lab.rounds(lambda v, node, random: (0.0, 2 * (v - 1)), np.full(5, 2.0), "local", nodes=2, rounds=2, rate=0.02, optimizer=name, measure=traced)
            np.testing.assert_allclose(traced.models[-1], x.detach().numpy(), atol=1e-5)

    def test_methods_and_the_library_take_them(self):
        for optimizer in ("momentum", "adamw"):
            for method in ("dpsgd", "edge-ref"):
                table = lab.rounds(quadratic, np.zeros(40), method, nodes=4, rounds=40, rate=0.005, optimizer=optimizer, measure=nearness)
                self.assertGreater(table["worst"].iloc[-1], -2.2, (optimizer, method))


@needs("pandas", "torch")
class Modules(unittest.TestCase):
    def setUp(self):
        import torch
        torch.manual_seed(0)
        self.module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(4, 1))

    @staticmethod
    def batch(node, random):
        import torch
        x = torch.from_numpy(random.normal(size=(16, 3)).astype(np.float32)) + node
        return x, x.sum(1, keepdim=True) / 4 + 1 - 2 * (node % 2)  # opposite errors

    def loss(self, module, node, random):
        import torch
        x, y = self.batch(node, random)
        return torch.nn.functional.mse_loss(module(x), y)

    def fit(self, module):
        import torch
        self.assertFalse(module.training)
        x, y = self.batch(1, np.random.default_rng(1))
        return -float(torch.nn.functional.mse_loss(module(x), y + 1))

    def test_a_module_with_a_loss(self):
        result = lab.compare(self.module, methods=["edge-ref", "allreduce", "local"], seeds=2, nodes=4, rounds=40, optimizer="adamw", rate=0.01,
                             loss=self.loss, measure=self.fit)
        worst = result.summary.set_index("method")["worst"]
        self.assertGreater(worst["edge-ref"], worst["local"])
        self.assertGreater(worst["allreduce"], worst["local"])
        self.assertTrue(self.module.training)

    def test_one_seed_one_result_and_the_program_s_random_numbers_stay(self):
        import torch
        torch.manual_seed(5)
        expected = torch.rand(1)
        tables = []
        start = [p.detach().clone() for p in self.module.parameters()]
        for _ in range(2):
            for p, first in zip(self.module.parameters(), start):
                p.data = first.clone()
            torch.manual_seed(5)
            tables.append(lab.rounds(self.module, None, "dpsgd", loss=self.loss, measure=self.fit, nodes=3, rounds=5))
            self.assertTrue(torch.equal(torch.rand(1), expected))
        self.assertTrue(tables[0].equals(tables[1]))

    def test_gradients_are_those_of_the_module(self):
        import torch
        module = torch.nn.Linear(2, 1)
        module.bias.requires_grad_(False)
        with torch.no_grad():
            module.weight.fill_(1.0)
        table = lab.rounds(module, None, "local", loss=lambda m, node, random: (m.weight * torch.tensor([1.0, 3.0])).sum(), nodes=1, topology="complete",
                           rounds=1, local_steps=2, rate=0.1, measure=lambda m: float(m.weight[0, 1]))
        self.assertAlmostEqual(table["measure"][0], 1 - 2 * 0.1 * 3, places=6)


@needs("pandas")
class Misuse(Folder):
    def refused(self, words, **wrong):
        arguments = {"model": quadratic, "start": np.zeros(4), "methods": ["dpsgd"], "graphs": ["ring"], "seeds": 1, "nodes": 4, "rounds": 2, **wrong}
        with self.subTest(words), self.assertRaisesRegex(p2pml.ConfigurationError, words):
            lab.compare(arguments.pop("model"), **arguments)

    def test_arguments(self):
        self.refused("methods: found 'dpsgd', expected a list", methods="dpsgd")
        self.refused("methods: found \\[\\], expected a list", methods=[])
        self.refused("graphs: found 'ring', expected a list", graphs="ring")
        self.refused("method: found 'chaco', expected a function of a world, or one of edge-ref, choco", methods=["chaco"])
        self.refused("method: found 3, expected", methods=[3])
        self.refused("methods: found \\('choco', 0.1\\), expected a method, or a pair", methods=[("choco", 0.1)])
        self.refused("method choco: found the setting 'ration', expected some of ratio, selection", methods=[("choco", {"ration": 1})])
        self.refused("method local: found the setting 'ratio', expected none", methods=[("local", {"ratio": 1})])
        self.refused("method mine: .*fanuot", methods=[(mine, {"fanuot": 1})])
        self.refused("average.ration", methods=[("edge-ref", {"average__ration": 1})])
        self.refused("average.ratio: found 2, expected a number above 0 and at most 1", methods=[("choco", {"ratio": 2})])
        self.refused("selection: found 'larges', expected a function, or one of top, random", methods=[("edge-ref", {"selection": "larges"})])
        self.refused("filter: found 'int7', expected a function, or one of fp32", methods=[("edge-ref", {"filter": "int7"})])
        self.refused("seeds: found 0, expected a whole number of at least 1", seeds=0)
        self.refused("seeds: found \\[1, 1\\], expected a number, or different", seeds=[1, 1])
        self.refused("seed: found one, expected seeds, a list", seed=3)
        self.refused("topology: found one, expected graphs, a list", topology="ring")
        self.refused("rounds: found 0, expected a whole number", rounds=0)
        self.refused("nodes: found 2.5, expected a whole number", nodes=2.5)
        self.refused("local_steps: found True", local_steps=True)
        self.refused("rate: found -1, expected a number above 0", rate=-1)
        self.refused("rate: found nan", rate=math.nan)
        self.refused("optimizer: found 'adam', expected one of sgd, momentum, adamw", optimizer="adam")
        self.refused("optimizer adamw: found the setting 'beta3', expected some of beta1", optimizer=("adamw", {"beta3": 1}))
        self.refused("measure: found 3, expected a function", measure=3)
        self.refused("start: found None", start=None)
        self.refused("start: .*expected a vector of finite", start=[math.nan])

    def test_graphs(self):
        self.refused("rinng", graphs=["rinng"])
        self.refused("graph: found 3, expected a kind such as \"ring\"", graphs=[3])
        self.refused("graph random: found the options {'ring': 3}, expected a dict of seed, rings", graphs=[("random", {"ring": 3})])
        self.refused("nowhere.txt'?: No such file", graphs=[f"{self.folder}/nowhere.txt"])
        self.refused("graph.txt:2: not connected", graphs=[self.file("a b\nc d\n")])
        self.refused("found 3 nodes, expected nodes=4", graphs=[self.file("a b\nb c\n")])
        self.refused(r"graph beyond: found \(0, 9\) in round 1, expected pairs of two different nodes from 0 to 3", graphs=[beyond])
        self.refused("graph path: a node meets two others in round 1", graphs=[path], methods=["model-average"])
        self.refused("graph path: the library's nodes have no schedule of your own", graphs=[path], methods=["edge-ref"])

    @needs("networkx")
    def test_graphs_of_networkx(self):
        import networkx
        self.refused("directed or parallel edges, expected a networkx.Graph", graphs=[networkx.DiGraph([(0, 1)])], nodes=None)
        self.refused("graph of networkx with 4 nodes: .*not connected", graphs=[networkx.Graph([(0, 1), (2, 3)])])

    def test_functions_that_give_something_else(self):
        self.refused("model: found float for node 0, expected \\(loss, gradient\\)", model=lambda x, node, random: 0.5)
        self.refused("model: found a gradient of shape \\(3,\\) for node 0, expected .* shape \\(4,\\)", model=lambda x, node, random: (0.0, np.zeros(3)))
        self.refused("model: found 'None'", model=None)
        self.refused("method: found models of shape \\(4,\\) in world.x", methods=[flat])
        for selection, words in ((lambda d, k, r: [0, 0], "an index twice"), (lambda d, k, r: [4], "outside 0 to 3"),
                                 (lambda d, k, r: [0.5], "type float64, expected a list of indices")):
            self.refused(f"selection: found .*{words}", methods=[("edge-ref", {"selection": selection})])
        for given, words in ((lambda v: v, "an array of shape"), (lambda v: (v[:0], 4), "\\(an array of shape \\(0,\\), 4\\)"), (lambda v: (v, -1), "-1")):
            self.refused(f"filter: found .*{words}.*expected the 1 values as the receiver has them, and their bytes", methods=[("edge-ref", {"filter": given})])

    @needs("torch")
    def test_modules(self):
        import torch
        module = torch.nn.Linear(2, 1)
        module_alone = {"model": module, "start": None}
        self.refused("loss: found None, expected a function of the module", **module_alone)
        self.refused("start: found one beside a PyTorch module", model=module, loss=lambda m, node, random: m.weight.sum())
        self.refused("loss: found float 0.5, expected one number as a tensor", loss=lambda m, node, random: 0.5, **module_alone)
        self.refused("'1' keeps running statistics", model=torch.nn.Sequential(module, torch.nn.BatchNorm1d(1)), start=None, loss=print)
        self.refused("without trainable parameters", model=torch.nn.ReLU(), start=None, loss=print)

    def test_the_only_method_and_no_column(self):
        result = lab.compare(quadratic, np.zeros(4), methods=["dpsgd"], seeds=1, nodes=4, rounds=2)
        with self.assertRaisesRegex(p2pml.OrderError, "'dpsgd' is the only method"):
            result.differences
        with self.assertRaisesRegex(p2pml.ConfigurationError, "figure: found 'measure', expected one of .*consensus"):
            result.figure()


def mine(world, fanout=1):
    pass


def flat(world):
    world.x = world.x.mean(1)


def beyond(round, nodes):
    return [(0, 9)]


def path(round, nodes):
    return [(i, i + 1) for i in range(nodes - 1)]


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Sparse linear models, from a LIBSVM file to weights that are mostly 0: three nodes, and a single one, find the optimum
of L1; invalid files are refused with file, line, what was found and what was expected."""

import glob
import json
import math
import os
import random
import shutil
import struct
import subprocess
import tempfile
import unittest

from cluster import PROGRAM

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
FEATURES, L1 = 30, 0.02
SEED = int(os.environ.get("P2PML_SEED", "5"))
EXPERIMENT = """
experiment: {nodes: 3, baselines: []}
model: {kind: logistic}
data: {kind: libsvm, train_file: FILE, test_file: FILE, features: 30, classes: 2, partition: iid}
train: {l1: 0.02, rate: 0.1, momentum: 0.8, batch: 1000, steps: 400, schedule: [], eval_rounds: 0}
average: {mode: sync, local_steps: 1, ratio: 1/2, values: fp32, deadline_floor: 10s}
node: {start_timeout: 60s}
checkpoint: {every: 0}
"""


def draw():
    """300 rows of (label, {feature: value}); 5 of 30 features count."""
    chance = random.Random(SEED)
    weight = [2, -2, 1.5, -1.5, 1] + [0] * (FEATURES - 5)
    rows = []
    for _ in range(300):
        x = {f: round(chance.gauss(0, 1), 3) for f in range(FEATURES) if chance.random() < 0.4}
        p = 1 / (1 + math.exp(-sum(weight[f] * v for f, v in x.items()) - 0.3))
        rows.append((int(chance.random() < p), x))
    return rows


def text(rows):
    return "".join(f"{'+1' if y else '-1'}{''.join(f' {f + 1}:{v}' for f, v in x.items())}\n" for y, x in rows)


def slopes(rows, w):
    """The gradient of the mean loss; the last entry is that of the bias."""
    g = [0.0] * (FEATURES + 1)
    for y, x in rows:
        d = 1 / (1 + math.exp(-sum(w[f] * v for f, v in x.items()) - w[FEATURES])) - y
        for f, v in x.items():
            g[f] += d * v / len(rows)
        g[FEATURES] += d / len(rows)
    return g


def objective(rows, w):
    losses = ((sum(w[f] * v for f, v in x.items()) + w[FEATURES], y) for y, x in rows)
    return sum(math.log1p(math.exp(m)) - y * m for m, y in losses) / len(rows) + L1 * sum(map(abs, w[:FEATURES]))


def weights(path):
    with open(path, "rb") as f:
        data = f.read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    found = {name.split(".")[-1]: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                                data[end + t["data_offsets"][0]:end + t["data_offsets"][1]])
             for name, t in json.loads(data[8:end]).items() if name != "__metadata__"}
    return [*found["weight"], *found["bias"]]


class SparseTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-sparse-")
        self.data = self.write("rows", text(draw()))
        self.experiment = self.write("l1.yaml", EXPERIMENT.replace("FILE", self.data))
        self.out = os.path.join(self.directory, "out")

    def tearDown(self):
        shutil.rmtree(self.directory)

    def write(self, name, content):
        path = os.path.join(self.directory, name)
        with open(path, "w") as f:
            f.write(content)
        return path

    def p2pml(self, command, *settings):
        arguments = [a for s in settings for a in ("--set", s)]
        return subprocess.run([P2PML, command, self.experiment, "--out", self.out, *arguments], capture_output=True,
                              text=True, timeout=200, env=ENVIRONMENT)

    def assert_optimal(self, w):
        g = slopes(draw(), w)
        for i in range(FEATURES):
            if w[i] == 0:
                self.assertLessEqual(abs(g[i]), L1 + 1e-4, f"feature {i}")
            else:
                self.assertAlmostEqual(g[i], -math.copysign(L1, w[i]), delta=2e-4, msg=f"feature {i}")
        self.assertAlmostEqual(g[FEATURES], 0, delta=2e-4)
        left = sum(v != 0 for v in w[:FEATURES])
        self.assertTrue(5 <= left <= 20, f"{left} weights are left")

    def test_three_nodes_find_the_optimum(self):
        ran = self.p2pml("run")
        self.assertEqual(ran.returncode, 0, ran.stderr + ran.stdout)
        averaged = weights(os.path.join(self.out, "averaged.safetensors"))
        self.assert_optimal(averaged)
        support = [v != 0 for v in averaged]
        for node in range(3):
            own = weights(os.path.join(self.out, f"node-0{node}", "model.safetensors"))
            self.assertEqual([v != 0 for v in own], support)

    def node(self, *arguments):
        """Runs a single node to its end; returns its model."""
        directory = os.path.join(self.directory, "node")
        config = self.write("node.yaml", "\n".join(line for line in EXPERIMENT.replace("FILE", self.data).splitlines()
                                                  if not line.startswith(("experiment", "node"))))
        ran = subprocess.run([PROGRAM, "--config", config, "--set", f"node.dir={directory}", "--set",
                              "node.listen=127.0.0.1:0", "--set", "node.http=", *arguments], capture_output=True,
                             text=True, timeout=100, env=ENVIRONMENT)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return weights(os.path.join(directory, "model.safetensors"))

    def test_a_single_node_finds_the_optimum(self):
        self.assert_optimal(self.node())

    def test_a_resumed_node_continues_bit_for_bit(self):
        """The checkpoint is between an exchange and its proximal step."""
        often = ["--set", "checkpoint.every=1ms"]
        straight = self.node(*often)
        kept = sorted(glob.glob(os.path.join(self.directory, "node", "checkpoint-*")),
                      key=lambda path: int(path.split("-")[-1].split(".")[0]))
        self.assertGreater(len(kept), 1)
        os.remove(kept[-1])  # the last one was written after the end
        with open(kept[-2], "rb") as f:
            self.assertIn(b'"unsettled"', f.read())
        self.assertEqual(self.node("--resume", *often), straight)

    def test_blocks_find_the_optimum(self):
        ran = self.p2pml("sim", "train.blocks=5", "train.steps=2000")
        self.assertEqual(ran.returncode, 0, ran.stderr + ran.stdout)
        self.assert_optimal(weights(os.path.join(self.out, "averaged.safetensors")))

    def test_delayed_nodes_come_close(self):
        """The last exchange may come after a node's last proximal step: the objective is as good, with a few more weights not 0."""
        found = []
        for settings in ([], ["average.mode=bounded", "average.max_delay=2"]):
            shutil.rmtree(self.out, ignore_errors=True)
            ran = self.p2pml("sim", *settings)
            self.assertEqual(ran.returncode, 0, ran.stderr + ran.stdout)
            found.append(objective(draw(), weights(os.path.join(self.out, "averaged.safetensors"))))
        self.assertLess(found[1], 1.001 * found[0])
        self.assertGreater(found[1], found[0] - 1e-6)

    def test_invalid_files_are_refused(self):
        good = text(draw()[:5])
        for bad, found, expected in (("+1 31:1\n", "index 31", "30 features"), ("+1 3:nan\n", '"nan"', "finite"),
                                     ("7 3:1\n", "from -1 to 7", "-1/+1 of 2 classes"),
                                     ("+1 4:1 2:1\n", "index 2 after index 4", "ascending")):
            with self.subTest(bad=bad):
                self.write("rows", good + bad + good)
                ran = self.p2pml("run")
                self.assertNotEqual(ran.returncode, 0)
                self.assertIn("rows:6", ran.stderr)
                self.assertIn(found, ran.stderr)
                self.assertIn(expected, ran.stderr)
        ran = self.p2pml("run", "train.l1=-0.1")
        self.assertEqual(ran.returncode, 2)
        self.assertIn('train.l1: found "-0.1", expected a number from 0 to 1000', ran.stderr)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()

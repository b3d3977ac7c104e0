"""The two engines of p2pml sim on one experiment: nodes in virtual time, message by message, give what the lock-step
engine computes, to the last digit of every accuracy and loss."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = os.path.join(os.path.dirname(os.environ["P2PML_E2E_NODE"]), "p2pml")
EXPERIMENT = """
experiment: {nodes: 6, baselines: []}
model: {kind: softmax}
data: {kind: digits, train_count: 600, test_count: 200, partition: dirichlet, alpha: 0.3}
train: {steps: 40, batch: 10, eval_rounds: 2}
average: {local_steps: 2, mode: sync, deadline_floor: 5s, finish: none}
checkpoint: {every: 0}
sim: {step_time: 1ms}
"""
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("P2PML_")}
EXACT = ("round", "step", "nodes", "accuracy", "loss", "worst", "mean", "best")


class Engines(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-engines-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = os.path.join(self.directory, "experiment.yaml")
        with open(self.path, "w") as f:
            f.write(EXPERIMENT)

    def points(self, engine, settings):
        out = os.path.join(self.directory, engine)
        arguments = [f"--set={s}" for s in [*settings, f"sim.engine={engine}"]]
        done = subprocess.run([PROGRAM, "sim", self.path, "--fresh", "--out", out, *arguments], capture_output=True,
                              text=True, timeout=300, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(out, "rounds.jsonl")) as f:
            return [json.loads(line) for line in f]

    def compare(self, *settings):
        nodes, rounds = self.points("nodes", settings), self.points("rounds", settings)
        self.assertEqual([p["round"] for p in nodes], [p["round"] for p in rounds])
        self.assertGreater(rounds[-1]["accuracy"], rounds[0]["accuracy"])
        for a, b in zip(nodes, rounds):
            self.assertEqual([a[key] for key in EXACT], [b[key] for key in EXACT], a["round"])
            self.assertAlmostEqual(a["consensus"], b["consensus"], delta=1e-6 * b["consensus"])
        return nodes[-1], rounds[-1]

    def test_the_engines_agree_on_the_exchange(self):
        for kind in ("ring", "butterfly", "random"):
            with self.subTest(kind):
                nodes, rounds = self.compare(f"topology.kind={kind}", "average.ratio=1/8")
                self.assertLess(rounds["bytes"], nodes["bytes"])  # nodes also have handshakes and membership

    def test_the_engines_agree_on_adam_and_weights(self):
        self.compare("train.optimizer=adamw", "train.rate=0.002", "average.share_second_moment=4")
        self.compare("topology.kind=base", "average.drift_correction=false")

    def test_the_engines_agree_on_what_is_held_back(self):
        held, _ = self.compare("average.ratio=1/8", "average.hold=0.5")
        self.assertNotEqual(held["loss"], self.points("nodes", ["average.ratio=1/8"])[-1]["loss"])

    # No node waits for another: one that begins a little later stays behind until the end.
    def test_the_engines_agree_without_averaging(self):
        settings = ["average.method=local"]
        nodes, rounds = self.points("nodes", settings)[-1], self.points("rounds", settings)[-1]
        self.assertEqual([nodes[key] for key in EXACT], [rounds[key] for key in EXACT])
        self.assertEqual(rounds["bytes"], 0)

    # Nodes exchange whole models, which rounds at another place.
    def test_the_engines_agree_on_model_average(self):
        settings = ["average.method=model-average", "topology.kind=butterfly"]
        nodes, rounds = self.points("nodes", settings), self.points("rounds", settings)
        for a, b in zip(nodes, rounds):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3)
            self.assertAlmostEqual(a["accuracy"], b["accuracy"], delta=0.01)


if __name__ == "__main__":
    unittest.main()

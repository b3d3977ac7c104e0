"""`p2pml run` with real nodes: a whole experiment, an interruption, a node that dies, and a runner that is killed."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from cluster import PROGRAM, wait_until

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
SMALL = """
experiment: {nodes: 4}
model: {hidden: [32]}
data: {train_count: 800, test_count: 200, partition: dirichlet}
train: {steps: 80, batch: 16, eval_rounds: 10}
average: {mode: sync, deadline_floor: 10s}
topology: {kind: butterfly}
node: {start_timeout: 60s}
checkpoint: {every: 0}
"""
ENDLESS = ["--set", "train.steps=100000000", "--set", "average.mode=async"]


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}


def p2pml(*arguments):
    return subprocess.run([P2PML, *arguments], capture_output=True, text=True, timeout=60, env=environment())


def processes_of(directory):
    """Ids of the processes with the directory on their command line, without zombies."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if directory.encode() in f.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


class RunTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-run-")
        self.out = os.path.join(self.directory, "out")
        self.file = os.path.join(self.directory, "small.yaml")
        with open(self.file, "w") as f:
            f.write(SMALL)
        self.runner = None

    def tearDown(self):
        if self.runner and self.runner.poll() is None:
            self.runner.kill()
            self.runner.wait()
        wait_until(lambda: not processes_of(self.out), "the end of all processes")
        shutil.rmtree(self.directory)

    def start(self, *arguments, **variables):
        self.said = open(os.path.join(self.directory, "said"), "w+")
        self.runner = subprocess.Popen([P2PML, "run", self.file, "--out", self.out, *arguments], text=True,
                                       env={**environment(), **variables}, stdout=subprocess.PIPE, stderr=self.said)

    def end(self, status):
        table, _ = self.runner.communicate(timeout=200)
        self.said.seek(0)
        said = self.said.read()
        self.said.close()
        self.assertEqual(self.runner.returncode, status, said + table)
        if status == -signal.SIGKILL:
            wait_until(lambda: not processes_of(self.out), "the end of all nodes")
        self.assertEqual(processes_of(self.out), [])
        return table, said

    def summary(self):
        with open(os.path.join(self.out, "summary.json")) as f:
            return json.load(f, parse_constant=lambda name: self.fail(f"{name} in summary.json"))

    def rows(self, node):
        try:
            with open(os.path.join(self.out, f"node-0{node}", "metrics.jsonl")) as f:
                return f.read().count("\n")
        except FileNotFoundError:
            return 0

    def wait_training(self):
        def all_train():
            self.assertIsNone(self.runner.poll(), "the runner has ended")
            return all(self.rows(i) >= 2 for i in range(4))
        wait_until(all_train, "two rounds of every node")

    def node_process(self, node):
        found = processes_of(os.path.join(self.out, f"node-0{node}"))
        self.assertEqual(len(found), 1)
        return found[0]

    def test_an_experiment_runs_to_its_end(self):
        self.start()
        table, said = self.end(0)
        s = self.summary()
        self.assertEqual((s["status"], s["experiment"], s["nodes"]), ("complete", "small", 4))
        self.assertEqual((s["model"], s["train_examples"], s["test_examples"]), ("mlp 784-32-10", 800, 200))
        self.assertEqual([(n["step"], n["own_steps"]) for n in s["per_node"]], [(80, 80)] * 4)
        self.assertEqual(s["shortfall"], None)
        self.assertEqual([n["exchanges"] for n in s["per_node"]], [20] * 4)
        self.assertTrue(all(n["succeeded"] and 0 < n["accuracy"] <= 1 for n in s["per_node"]))
        self.assertEqual(s["averaged"]["nodes"], 4)
        self.assertEqual(s["consensus"], 0)  # all end with one model
        worst, mean, best = (s["node"][k]["accuracy"] for k in ("worst", "mean", "best"))
        self.assertTrue(worst <= mean <= best)
        self.assertAlmostEqual(mean, sum(n["accuracy"] for n in s["per_node"]) / 4)
        self.assertEqual(len(s["lone"]["shards"]), 4)
        self.assertEqual(sum(r["examples"] for r in s["lone"]["shards"]), 800)
        self.assertEqual((s["central"]["steps"], s["central_total"]["steps"]), (80, 320))
        self.assertTrue(all(r["done"] for r in [s["central"], s["central_total"], *s["lone"]["shards"]]))
        self.assertEqual(s["bytes"]["sent"], sum(n["bytes_sent"] for n in s["per_node"]))
        parameters = 784 * 32 + 32 + 32 * 10 + 10
        self.assertEqual(s["parameters"], parameters)
        self.assertEqual(s["bytes"]["dense"], 4 * 20 * 4 * parameters)
        self.assertTrue(s["bytes"]["sent"] > s["bytes"]["packets"] > 0)
        for part in ("averaged model", "central, total", "node-03", "80", "summary.json"):
            self.assertIn(part, table)
        self.assertRegex(said, r"node-03  round 20  step 80 .* done")
        # The experiment as it was run: only the owner may read the secret, and the file has all keys.
        self.assertEqual(os.stat(os.path.join(self.out, "secret")).st_mode & 0o777, 0o600)
        check = p2pml("run", "--check", os.path.join(self.out, "experiment.yaml"))
        self.assertEqual(check.returncode, 0, check.stderr)

    def test_a_run_can_be_repeated(self):
        figures = []
        for _ in range(2):  # the second run uses the directory of the first
            self.start("--fresh", "--set", "experiment.baselines=[]")
            self.end(0)
            s = self.summary()
            figures.append((s["averaged"]["accuracy"], s["consensus"], [n["accuracy"] for n in s["per_node"]]))
            self.assertIsNone(s["lone"])
        self.assertEqual(figures[0], figures[1])

    def test_ctrl_c_still_writes_a_summary(self):
        self.start(*ENDLESS)
        self.wait_training()
        self.runner.send_signal(signal.SIGINT)
        table, said = self.end(130)
        s = self.summary()
        self.assertEqual(s["status"], "interrupted")
        self.assertIn("interrupted: stopping the nodes", said)
        self.assertEqual([n["status"] for n in s["per_node"]], ["done"] * 4)
        self.assertEqual(s["averaged"]["nodes"], 4)  # each has written a checkpoint
        self.assertIsNotNone(s["averaged"]["accuracy"])
        self.assertIsNone(s["central"]["accuracy"])
        self.assertIn("interrupted", table)

    def test_a_node_that_dies_is_reported_and_the_others_go_on(self):
        self.start(*ENDLESS, "--set", "experiment.baselines=[]")
        self.wait_training()
        os.kill(self.node_process(2), signal.SIGKILL)
        rows = [self.rows(i) for i in range(4)]
        wait_until(lambda: all(self.rows(i) >= rows[i] + 5 for i in (0, 1, 3)), "five more rounds of the others")
        self.runner.send_signal(signal.SIGTERM)
        table, said = self.end(130)
        self.assertIn("node-02 ended: killed by signal 9 (Killed); the end of ", said)
        self.assertIn("info  node-02", said)  # its log
        s = self.summary()
        self.assertEqual([n["succeeded"] for n in s["per_node"]], [True, True, False, True])
        self.assertEqual(s["averaged"]["nodes"], 3)

    def test_after_a_failed_node_the_exit_status_is_1(self):
        self.start("--set", "train.rate=1000", "--set", "experiment.baselines=[]", P2PML_NODE="/bin/false")
        _, said = self.end(1)
        self.assertEqual(self.summary()["status"], "failed")
        self.assertEqual(said.count(" ended: exit status 1"), 4)

    def test_nodes_end_with_a_killed_runner(self):
        self.start(*ENDLESS)
        self.wait_training()
        self.assertEqual(len(processes_of(self.out)), 5)
        self.runner.kill()
        self.end(-signal.SIGKILL)

    def test_the_time_limit_ends_the_run(self):
        self.start(*ENDLESS, "--set", "experiment.time_limit=1s")
        _, said = self.end(1)
        self.assertIn("experiment.time_limit has passed", said)
        self.assertEqual(self.summary()["status"], "failed")

    def test_a_finished_result_is_kept(self):
        self.start()
        self.end(0)
        before = self.summary()
        self.start()
        _, said = self.end(2)
        self.assertIn("holds a finished result", said)
        self.assertEqual(self.summary(), before)
        self.start("--fresh", "--set", "sim.latency=5ms")
        _, said = self.end(0)
        self.assertIn("sim.latency: has no effect with p2pml run, only with p2pml sim", said)

    def test_filters_that_send_little_anew_are_told(self):
        self.start("--check", "--set", "average.ratio=1/32", "--set", "average.filters=[significantly-modified:0.001,random-skip:0.1,same-keys:4]")
        _, said = self.end(0)
        self.assertIn("average.filters: with average.ratio 1/32, an exchange sends only 1/178 of the model anew", said)
        self.start("--check", "--set", "average.ratio=1/32", "--set", "average.filters=[random-skip:0.1,same-keys:1]")
        self.assertNotIn("anew", self.end(0)[1])

    def test_nodes_that_never_meet_are_reported(self):
        alone = ["unshare", "-n"]  # a network without a working loopback interface
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("this user may not make a network namespace")
        ran = subprocess.run([*alone, P2PML, "run", self.file, "--out", self.out, "--set", "node.start_timeout=1s"],
                             capture_output=True, text=True, timeout=200, env=environment())
        self.assertEqual(ran.returncode, 1, ran.stderr + ran.stdout)
        self.assertIn("no node reached another node", ran.stderr)
        self.assertIn("ip link set lo up", ran.stderr)
        self.assertEqual(self.summary()["status"], "failed")

    def test_usage(self):
        os.mkdir(self.out)
        with open(os.path.join(self.out, "thesis.txt"), "w"):
            pass
        for arguments, status, part in [
                ([], 2, "a command is missing"),
                (["train"], 2, "found the command 'train', expected run"),
                (["run"], 2, "found 0 files, expected one experiment"),
                (["run", "--frsh", self.file], 2, "p2pml help run"),
                (["run", self.file + ".no"], 2, "small.yaml.no"),
                (["run", self.file, "--set", "node.http=127.0.0.1:80"], 2, "--set: node.http: "),
                (["run", self.file, "--out", self.out], 2, "is not empty"),
                (["keygen"], 2, "expected --identity FILE or --secret FILE"),
                (["inspect"], 2, "expected one file"),
                (["inspect", self.file], 1, "small.yaml"),
                (["help", "everything"], 2, "expected run, sim, data, eval, predict, generate, export, "
                 "report, plot, top, collect, set, why, doctor, topology, keygen or inspect"),
                (["help"], 0, "p2pml run EXPERIMENT.yaml"),
                (["help", "run"], 0, "experiment.nodes = 8"),
                (["run", "--help"], 0, "experiment.nodes = 8"),
                (["version"], 0, "p2pml 0.")]:
            ran = p2pml(*arguments)
            self.assertEqual(ran.returncode, status, f"{arguments}: {ran.stderr}")
            self.assertIn(part, ran.stderr if status else ran.stdout)
        self.assertEqual(os.listdir(self.out), ["thesis.txt"])

    def test_keygen(self):
        identity, secret = os.path.join(self.directory, "identity"), os.path.join(self.directory, "secret")
        ran = p2pml("keygen", "--identity", identity, "--secret", secret)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(re.fullmatch(r"[0-9a-f]{64}\n", ran.stdout))
        for path in (identity, secret):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with open(path) as f:
                before = f.read()
            option = "--identity" if path == identity else "--secret"
            again = p2pml("keygen", option, path)
            self.assertEqual(again.returncode, 1)
            self.assertIn(path, again.stderr)
            with open(path) as f:
                self.assertEqual(f.read(), before)


if __name__ == "__main__":
    unittest.main()

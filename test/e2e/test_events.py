"""`p2pml run` with events: nodes that are killed, stopped, started again, that come late or leave, and their entries in
the summary."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from cluster import PROGRAM

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
SMALL = """
experiment: {nodes: 5, baselines: []}
model: {kind: softmax}
data: {train_count: 1000, test_count: 200}
train: {batch: 16, eval_rounds: 20}
average: {mode: async, local_steps: 4}
topology: {kind: ring}
node: {start_timeout: 60s, linger: 20s}
checkpoint: {every: 1s}
"""


class EventsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-events-")
        self.out = os.path.join(self.directory, "out")
        self.file = os.path.join(self.directory, "small.yaml")

    def tearDown(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def p2pml(self, events, *arguments, command="run"):
        with open(self.file, "w") as f:
            f.write(SMALL + "events:\n" + "".join(f"  - {e}\n" for e in events))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
        return subprocess.run([P2PML, command, self.file, "--out", self.out, *arguments], capture_output=True, text=True,
                              timeout=300, env=environment)

    def run_for(self, seconds, events):
        """Nodes train until they are stopped, so that the events happen during training on any machine."""
        ran = self.p2pml(events, "--set", "train.steps=100000000", "--set", f"experiment.time_limit={seconds}s",
                         "--set", "experiment.stop_grace=120s")  # the last checkpoints of five nodes, on a busy disk
        self.assertEqual(ran.returncode, 1, ran.stderr)  # the time limit has passed
        self.assertIn("experiment.time_limit has passed", ran.stderr)
        with open(os.path.join(self.out, "summary.json")) as f:
            summary = json.load(f, parse_constant=lambda name: self.fail(f"{name} in summary.json"))
        logs = "".join(self.log(n["name"]) for n in summary["per_node"])
        return summary, ran.stdout, ran.stderr + ran.stdout + logs

    def log(self, name):
        try:
            with open(os.path.join(self.out, name, "log"), errors="replace") as f:
                return f"--- {name}\n" + "".join(f.readlines()[-15:])
        except FileNotFoundError:
            return f"--- {name}: no log\n"

    def seen_by_all(self, times, of, within, said):
        self.assertEqual((times["seen"], times["of"]), (of, of), said)
        self.assertTrue(0 <= times["median"] <= times["last"] <= within, said)

    def test_nodes_are_killed_stopped_and_started_again(self):
        s, table, said = self.run_for(30, ["{at: 2s, kill: 3}", "{at: 6s, stop: 1, for: 2s}", "{at: 9s, start: 3}"])
        kill, stop, start = s["events"]
        self.assertEqual([e["happened"] for e in s["events"]], [True] * 3, said)
        self.assertEqual((kill["event"], kill["node"], kill["at"]), ("kill", "node-03", 2))
        self.seen_by_all(kill["detected"], 4, 10, said)
        self.seen_by_all(kill["rewired"], 4, 10, said)
        self.assertEqual((stop["event"], stop["node"], stop["for"]), ("stop", "node-01", 2))
        self.assertEqual(stop["declared_dead_by"], 0, said)  # 2 s are not enough for a death
        self.assertEqual(stop["recovered"]["seen"], stop["recovered"]["of"], said)
        self.seen_by_all(start["detected"], 4, 20, said)  # a process starts beside four that train at full speed
        self.assertTrue(0 < start["first_round"] < 20, said)
        self.assertGreaterEqual(start["rewired"]["seen"], 2, said)  # both of its neighbours
        for e in s["events"]:
            self.assertIsNotNone(e["stalled"]["rounds"], said)
            self.assertIsNotNone(e["accuracy"]["before"], said)
            self.assertEqual(len(e["witnesses"]), e["detected"]["of"])
        self.assertEqual(s["false_deaths"], 0, said)
        self.assertEqual([n["starts"] for n in s["per_node"]], [1, 1, 1, 2, 1])
        self.assertTrue(all(n["succeeded"] and n["gone"] is None for n in s["per_node"]), said)
        self.assertEqual(s["averaged"]["nodes"], 5)
        for part in ("node-03 was killed\n", "known as dead by 4 of 4", "node-01 was stopped for 2 s", "node-03 was started\n"):
            self.assertIn(part, table)

    def test_events_at_rounds_are_the_same_in_run_and_sim(self):
        events = ["{at: {round: 100}, kill: 3}", "{at: {round: 150}, stop: 1, for: {rounds: 20}}", "{at: {round: 250}, start: 3}"]
        settings = ("train.steps=1600", "average.mode=sync", "average.deadline_floor=5s", "sim.step_time=5ms")
        results = {}
        for command in ("run", "sim"):
            ran = self.p2pml(events, "--fresh", *[a for s in settings for a in ("--set", s)], command=command)
            said = ran.stderr + ran.stdout
            self.assertEqual(ran.returncode, 0, said)
            with open(os.path.join(self.out, "summary.json")) as f:
                s = results[command] = json.load(f)
            self.assertEqual([(e["event"], e["at_round"], e["for_rounds"], e["happened"]) for e in s["events"]],
                             [("kill", 100, None, True), ("stop", 150, 20, True), ("start", 250, None, True)], said)
            for e in s["events"]:
                late = e["round"] - e["at_round"]
                self.assertTrue(0 <= late <= (0 if command == "sim" else 40), said)  # processes are checked at intervals
                self.assertAlmostEqual(e["at"], e["time"] - s["events"][0]["time"] + s["events"][0]["at"], delta=0.1)
            self.assertGreater(s["events"][1]["for"], 0)
            self.assertEqual([n["starts"] for n in s["per_node"]], [1, 1, 1, 2, 1])
            self.assertIn(f"round {s['events'][0]['round']}  node-03 was killed\n", ran.stdout)
            self.assertIn("node-01 was stopped for 20 rounds\n", ran.stdout)
            self.assertIn("event at round 250: node-03 started again\n", ran.stderr)
        self.assertAlmostEqual(*[r["averaged"]["accuracy"] for r in results.values()], delta=0.06)

    def test_one_node_comes_late_and_one_leaves(self):
        s, table, said = self.run_for(20, ["{at: 2s, start: 4}", "{at: 10s, leave: 0}"])
        start, leave = s["events"]
        self.seen_by_all(start["detected"], 4, 10, said)
        self.assertTrue(0 < start["first_round"] < 15, said)
        self.seen_by_all(leave["detected"], 4, 5, said)
        self.assertEqual([n["gone"] for n in s["per_node"]], ["left"] + [None] * 4)
        self.assertEqual(s["averaged"]["nodes"], 4)
        self.assertEqual(s["false_deaths"], 0, said)

    def test_a_killed_node_is_no_failure(self):
        ran = self.p2pml(["{at: 0s, kill: 2}", "{at: 1h, kill: 0}"], "--set", "train.steps=2000", "--set", "train.alone=go-on")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        with open(os.path.join(self.out, "summary.json")) as f:
            s = json.load(f)
        self.assertEqual(s["status"], "complete")
        self.assertEqual([n["succeeded"] for n in s["per_node"]], [True, True, False, True, True])
        self.assertEqual([(e["happened"], e["instead"]) for e in s["events"]], [(True, None), (False, "the run ended first")])
        self.assertIn("event at 0 s: node-02 killed", ran.stderr)

    def test_wrong_events_are_refused(self):
        for events, part in [
                (["{at: 1s, kill: 5}"], "small.yaml:11: events: kill: found \"5\", expected a node from 0 to 4"),
                (["{at: 1s, kill: 1}", "{at: 2s, stop: 1, for: 1s}"], "small.yaml:12: events: stop: found node 1 at 2 s"),
                (["{at: 1s, bomb: 1}"], "small.yaml:11: events: found the unknown word \"bomb\"")]:
            ran = self.p2pml(events, "--check")
            self.assertEqual(ran.returncode, 2)
            self.assertIn(part, ran.stderr)
        self.assertEqual(self.p2pml(["{at: 1s, kill: 1}"], "--check").returncode, 0)


if __name__ == "__main__":
    unittest.main()

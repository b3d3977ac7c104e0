"""A sweep with real runs: a killed sweep continues with the same command and repeats no complete run; an invalid one is
refused before anything starts."""

import csv
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from cluster import PROGRAM, wait_until

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
COMMAND = "sim"
SWEEP = """
experiment: {nodes: 2, baselines: [], repeats: 2}
model: {hidden: [64]}
data: {train_count: 400, test_count: 100}
train: {steps: 2000, batch: 16, eval_rounds: 250}
average: {mode: sync, deadline_floor: 10s}
node: {start_timeout: 60s}
checkpoint: {every: 0}
sweep:
  - {topology.kind: [ring, butterfly]}
  - {average.ratio: [1/32, 1/4]}
"""
LABELS = [f"topology.kind={kind},average.ratio={ratio},seed={seed}"
          for seed in (0, 1) for kind in ("ring", "butterfly") for ratio in ("1_32", "1_4")]


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}


def processes_of(directory):
    """Ids of the processes with the directory on their command line, without zombies."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                if entry.isdigit() and directory.encode() in f.read():
                    found.append(int(entry))
        except OSError:
            pass
    return found


class SweepTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-sweep-")
        self.out = os.path.join(self.directory, "out")
        self.file = os.path.join(self.directory, "small.yaml")
        self.sweep = None
        with open(self.file, "w") as f:
            f.write(SWEEP)

    def tearDown(self):
        if self.sweep and self.sweep.poll() is None:
            self.sweep.kill()
            self.sweep.communicate()
        wait_until(lambda: not processes_of(self.out), "the end of all processes")
        shutil.rmtree(self.directory)

    def start(self, *arguments):
        self.sweep = subprocess.Popen([P2PML, COMMAND, self.file, "--out", self.out, *arguments], text=True,
                                      env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, status):
        table, said = self.sweep.communicate(timeout=300)
        self.assertEqual(self.sweep.returncode, status, said + table)
        wait_until(lambda: not processes_of(self.out), "the end of all runs")
        return table, said

    def load(self, *names):
        with open(os.path.join(self.out, *names)) as f:
            return json.load(f, parse_constant=lambda name: self.fail(f"{name} in {names}"))

    def complete(self):
        try:
            return [run["label"] for run in self.load("sweep.json")["runs"] if run["status"] == "complete"]
        except FileNotFoundError:
            return []

    def written(self, labels):
        return [os.stat(os.path.join(self.out, "runs", label, "summary.json")).st_mtime_ns for label in labels]

    def stop_in_the_middle(self, number, status):
        self.start()
        wait_until(lambda: len(self.complete()) >= 2 or self.sweep.poll() is not None, "two complete runs")
        self.sweep.send_signal(number)
        self.end(status)
        kept = self.complete()
        self.assertTrue(2 <= len(kept) < 8, kept)
        return kept, self.written(kept)

    def test_a_killed_sweep_continues(self):
        kept, before = self.stop_in_the_middle(signal.SIGKILL, -signal.SIGKILL)
        # A run may have become complete after the list was written; the runs in the list are enough here.
        self.start()
        table, said = self.end(0)
        self.assertRegex(said, r"8 runs in .*; [2-7] are complete and kept")
        self.assertEqual(self.written(kept), before)
        self.check_results(table)
        self.start()  # now there is nothing left to do
        everything = self.written(LABELS)
        table, said = self.end(0)
        self.assertIn("; 8 are complete and kept", said)
        self.assertEqual(self.written(LABELS), everything)
        self.check_results(table)

    def check_results(self, table):
        listed = self.load("sweep.json")
        self.assertEqual(listed["keys"], ["topology.kind", "average.ratio"])
        self.assertEqual([run["label"] for run in listed["runs"]], LABELS)
        self.assertEqual(listed["runs"][6]["settings"], {"topology.kind": "butterfly", "average.ratio": "1/32"})
        self.assertEqual([run["seed"] for run in listed["runs"]], [0] * 4 + [1] * 4)
        with open(os.path.join(self.out, "results.jsonl")) as f:
            rows = [json.loads(line) for line in f]
        self.assertEqual([row["run"] for row in rows], LABELS)
        for row in rows:
            summary = self.load("runs", row["run"], "summary.json")
            self.assertEqual((row["status"], row["nodes"], row["step"]), ("complete", 2, 2000))
            self.assertEqual(row["accuracy"], summary["averaged"]["accuracy"])
            self.assertEqual(row["bytes"], summary["bytes"]["sent"])
            self.assertTrue(row["worst"] <= row["mean"] <= row["best"])
        with open(os.path.join(self.out, "results.csv"), newline="") as f:
            flat = list(csv.DictReader(f))
        self.assertEqual([row["run"] for row in flat], LABELS)
        self.assertEqual([row["set.average.ratio"] for row in flat], ["1/32", "1/4"] * 4)
        self.assertEqual([float(row["accuracy"]) for row in flat], [row["accuracy"] for row in rows])
        # Sending a quarter of the values costs more than sending a 32nd, in every pair.
        for little, much in zip(rows[::2], rows[1::2]):
            self.assertLess(little["bytes"], much["bytes"])
        self.assertEqual(table.count(" 2/2 "), 4)

    def test_ctrl_c_and_a_changed_file_keep_complete_runs(self):
        kept, before = self.stop_in_the_middle(signal.SIGINT, 130)
        with open(self.file, "w") as f:  # one point has changed, one is new
            f.write(SWEEP.replace("[1/32, 1/4]", "[1/32, 1/2]").replace("repeats: 2", "repeats: 1"))
        self.start()
        self.end(0)
        self.assertEqual(sorted(self.complete()), sorted(
            f"topology.kind={kind},average.ratio={ratio},seed=0" for kind in ("ring", "butterfly")
            for ratio in ("1_32", "1_2")))
        same = [label for label in kept if "1_32" in label and "seed=0" in label]
        self.assertTrue(same)
        self.assertEqual(self.written(same), [before[kept.index(label)] for label in same])

    def test_a_failed_run_is_reported(self):
        self.start("--set", "experiment.time_limit=1ms", "--set", "experiment.repeats=1")
        _, said = self.end(1)
        self.assertIn(f"{LABELS[0]} failed: exit status 1; the end of ", said)
        self.assertIn("experiment.time_limit has passed", said)
        self.assertIn("4 of 4 runs failed", said)
        self.assertEqual({run["status"] for run in self.load("sweep.json")["runs"]}, {"failed"})

    def test_bad_input_is_refused(self):
        def refused(text, *arguments):
            with open(self.file, "w") as f:
                f.write(text)
            self.start(*arguments)
            _, said = self.end(2)
            self.assertFalse(os.path.exists(self.out))
            return said
        self.assertIn("small.yaml:11: found the unknown key \"average.ration\", did you mean average.ratio?",
                      refused(SWEEP.replace("average.ratio:", "average.ration:")))
        self.assertIn("small.yaml:10: topology.kind: found \"butterfy\"", refused(SWEEP.replace("butterfly", "butterfy")))
        self.assertIn("small.yaml:11: average.ratio: found \"4\"", refused(SWEEP.replace("1/4", "4"), "--check"))
        self.assertIn("swept here and given by --set", refused(SWEEP, "--set", "average.ratio=1/8"))
        self.start("--check")
        table, _ = self.end(0)
        self.assertEqual(table, "experiment is fine: 8 runs, 4 points with 2 seeds each\n")
        self.assertFalse(os.path.exists(self.out))


if __name__ == "__main__":
    unittest.main()

"""Trainings over 1 and 10 Mbit/s, each node in its own network namespace: nodes are killed and started again, half of
them die at once, one is cut off, deaf or mute.

    test_slow_links.py [--long] [--seed N] [options of unittest]

Without --long: a training of four nodes at 1 Mbit/s, one of them killed and started again, half a minute. With it: six
nodes and all of the above, nine minutes. test/trial/churn is even longer.

Needs root, iproute2 and nftables."""

import argparse
import os
import random
import sys

import trial
from chaos import netns, unittest

NODES = 6
# At 1 Mbit/s the job of trial.py, 25,450 parameters; at 10 Mbit/s a model of 203,530, and more time for ten kills.
JOBS = {1: {}, 10: {"model__hidden": 256, "train__steps": 4000, "average__ratio": "1/32"}}
KILLED_MAX, SILENT_MAX = 5.0, 12.0  # seconds until all know; an overloaded machine is late
LEARNT = 75.0  # percent; a node that trained alone has no more than 50
SEED = 0


class Short(unittest.TestCase):
    """Seconds: the training is too short to compare accuracies to a percentage point."""

    def test_a_killed_node_comes_back(self):
        result = trial.run("kill-one", 4, 1, "sync", random.Random(SEED), train__steps=1600)
        print(f"\nkill-one, 4 nodes at 1 Mbit/s: {result.line()}", flush=True)
        problems = result.check()
        problems += [f"known as dead by all after {t} s" for t in result.dead_after if (t or 1e9) > KILLED_MAX]
        problems += [f"{name} ends at {a}%" for name, a in result.accuracies.items() if not a or a < LEARNT]
        self.assertEqual(len(result.accuracies), 4)
        self.assertEqual(problems, [])


class SlowLinks(unittest.TestCase):
    """One undisturbed job, and the same job with events."""
    plain = {}

    def run_one(self, name, rate):
        result = trial.run(name, NODES, rate, "sync", random.Random(SEED), **JOBS[rate])
        print(f"\n{name} at {rate:g} Mbit/s: {result.line()}", flush=True)
        return result

    def undisturbed(self, rate):
        if rate not in self.plain:
            self.plain[rate] = self.run_one("undisturbed", rate)
            self.assertEqual(self.plain[rate].check(), [])
        return self.plain[rate]

    def holds(self, name, rate, known=KILLED_MAX, leads=None):
        plain = self.undisturbed(rate)
        result = self.run_one(name, rate)
        problems = result.check(plain, leads=leads)
        problems += [f"known as dead by all after {t} s; {known} is the most" for t in result.dead_after if (t or 1e9) > known]
        self.assertEqual(problems, [])

    def test_one_is_killed(self):
        self.holds("kill-one", 1)

    def test_half_die(self):
        # A survivor between two nodes that come back meets none while their states are compared, and the other survivors continue.
        self.holds("half-die", 1, leads={"sync": 60})

    def test_one_is_cut_off(self):
        self.holds("cut-off", 1, SILENT_MAX)

    def test_one_is_deaf(self):
        self.holds("deaf", 1, SILENT_MAX)

    def test_one_is_mute(self):
        self.holds("mute", 1, SILENT_MAX)

    def test_ten_kills(self):
        self.holds("ten-kills", 10)


def main():
    global SEED
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("P2PML_SEED") or random.randrange(1 << 32)))
    parser.add_argument("--long", action="store_true")
    known, rest = parser.parse_known_args()
    netns.skip_if_missing()
    SEED = known.seed
    print(f"P2PML_SEED={SEED}", flush=True)
    unittest.main(argv=[sys.argv[0], *(rest or ["SlowLinks" if known.long else "Short"])], verbosity=2)


if __name__ == "__main__":
    main()

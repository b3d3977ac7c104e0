"""Kill -9 at any moment: while a node starts, trains, averages, or writes a checkpoint. It resumes where it was, and loses no edge.

    test_kill_moments.py [--moments N] [--seed N] [options of unittest]

10 moments, or N. One of two nodes is killed again and again; it writes a checkpoint after each round."""

import argparse
import os
import random
import re
import sys
import time

from chaos import Cluster, unittest

MOMENTS = 10
NEAR = 8  # rounds that may have had no exchange
SETTINGS = {
    "model__kind": "mlp", "model__hidden": 128, "average__local_steps": 10, "checkpoint__every": "1ms", "data__takeover": "false",
    "train__optimizer": "adamw", "train__rate": 0.0005,
}
random_source = random.Random()


class KillMoments(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(2, network=False, disk=True, **SETTINGS)
        self.addCleanup(self.c.close)
        self.stays, self.dies = self.c.hosts
        self.boots, self.resumed = 0, 0

    def newest(self):
        steps = [int(re.search(r"\d+", name)[0]) for name in self.dies.checkpoints()]
        return max(steps, default=None)

    def look_at_boot(self):
        """The number of starts has grown. Many starts in a short time keep a node out of the graph for a while; that is not
        what is tested here, so the times are removed."""
        path = os.path.join(self.dies.directory, "boot")
        with open(path) as f:
            text = f.read()
        self.assertRegex(text, r"^\d+( \d+)*\n?$")
        number = int(text.split()[0])
        self.assertGreaterEqual(number, self.boots)
        self.boots = number
        with open(path, "w") as f:
            f.write(f"{number}\n")

    def resume(self):
        """It resumes from the newest checkpoint: a checkpoint gets its name only when it is complete."""
        there = self.newest()
        self.dies.start("--resume")
        if there is None:
            self.dies.wait_log(r"no checkpoint in")
        else:
            step = int(self.dies.wait_log(r"resume .*from step (\d+), round")[1])
            self.assertEqual(step, there)
            self.assertGreaterEqual(step, self.resumed)
            self.resumed = step
        self.assertNotIn("checkpoint_damaged", self.dies.log())

    def train(self):
        rows = len(self.dies.metrics())
        self.c.wait(lambda: len(self.dies.metrics()) >= rows + 2, f"rounds of {self.dies.name} after a restart")
        self.assertGreater(self.dies.metrics()[rows]["step"], self.resumed)

    def test_kill_at_random_moments(self):
        for host in self.c.hosts:
            host.start()
        self.c.wait_rounds()
        self.dies.kill()
        while_it_starts = 0
        for i in range(MOMENTS):
            if i % 3 == 0:  # at any moment of its start
                self.dies.start("--resume")
                while_it_starts += 1
            else:
                self.resume()
                self.train()
            time.sleep(random_source.uniform(0, 0.4))
            self.dies.kill()
            self.look_at_boot()
        self.resume()
        self.train()
        self.c.wait_together()
        self.c.wait_exchanges()
        print(f"{MOMENTS} moments, {while_it_starts} of them within 0.4 s of the start; {self.boots} boots; "
              f"the last one resumed from step {self.resumed}", flush=True)
        self.c.sane_losses("kill moments", 0)
        self.c.sane_logs()
        self.c.stop()
        left = [n for n in os.listdir(self.dies.directory) if re.search(r"tmp|temp|part", n)]
        self.assertEqual(left, [], "half-written files are left over")
        self.c.models_agree(0.1)


class KillKeepsEdges(unittest.TestCase):
    """A kill long after the latest checkpoint: the journal brings every edge back, and none begins again. Who was away for more than
    2 d/k rounds takes the model of another node, and begins its edges anew: 512 rounds here, many more than a start takes."""

    def setUp(self):
        self.c = Cluster(3, network=False, disk=True, **dict(SETTINGS, checkpoint__every="600s", average__local_steps=200, average__ratio="1/256"))
        self.addCleanup(self.c.close)

    def edges(self):
        return [(host.name, edge) for host in self.c.hosts for edge in host.status()["edges"]]

    def all_live(self):
        """Three nodes with two edges each. A node that waits to begin has no edge, and wait_exchanges() looks only at live ones."""
        self.c.wait(lambda: [edge["state"] for _, edge in self.edges()] == ["live"] * 6, "every edge live")

    def epochs(self):
        """A RESYNC raises that of its edge."""
        return {(name, edge["name"]): edge["epoch"] for name, edge in self.edges()}

    def test_no_edge_begins_again(self):
        for host in self.c.hosts:
            host.start()
        self.c.wait_together()
        self.c.wait_rounds()
        self.all_live()
        # One that has made no exchange yet would begin late: it is in no record.
        self.c.wait(lambda: all(edge["seq"] > 0 for _, edge in self.edges()), "an exchange over every edge")
        begun = self.epochs() # of nodes that started seconds apart an edge may begin with a RESYNC
        journals = []
        for _ in range(MOMENTS):
            dies = random_source.choice(self.c.hosts)
            time.sleep(random_source.uniform(0.1, 0.8))
            dies.kill()
            steps = {name: os.path.getsize(os.path.join(dies.directory, name)) for name in os.listdir(dies.directory)
                     if name.startswith("journal-")}
            journals.append(sum(steps.values()))
            path = os.path.join(dies.directory, "boot")
            with open(path) as f:
                number = f.read().split()[0]
            with open(path, "w") as f:
                f.write(f"{number}\n")
            before = dies.round()
            dies.start("--resume")
            records = dies.wait_log(r"resume .*?(\d+) records of the journal lead to round (\d+); (\d+) do not fit")
            self.assertEqual(int(records[3]), 0)
            self.assertGreaterEqual(int(records[2]) + NEAR, before, "the round that it had reached")
            self.c.wait_together()
            self.all_live()
            self.c.wait_exchanges(5)
        self.assertEqual(self.epochs(), begun)
        print(f"{MOMENTS} kills, 0 RESYNCs; journals of {min(journals)} to {max(journals)} bytes", flush=True)
        self.c.sane_losses("kills", 0)
        self.c.sane_logs()
        self.c.stop()
        self.c.models_agree(0.7)  # a round has 200 steps of AdamW, and sends 1 of 256 values


def main():
    global MOMENTS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=MOMENTS)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("P2PML_SEED") or random.randrange(1 << 32)))
    known, rest = parser.parse_known_args()
    MOMENTS = known.moments
    print(f"P2PML_SEED={known.seed}", flush=True)
    random_source.seed(known.seed)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()

"""Real nodes on a faulty network: killed, stopped, cut off, starved, restarted. The other nodes continue to train.

    test_chaos.py [--long] [--nodes N] [--rounds N] [--seed N] [options of unittest]

--long: 16 nodes, and every scenario three times. Needs root, iproute2 and nftables."""

import argparse
import os
import random
import subprocess
import sys
import time

from chaos import Cluster, netns, signal, unittest

EVIDENCE = 5.0    # seconds: a killed process is detected by evidence; by silence alone it would take longer
NODES, ROUNDS = 8, 1
random_source = random.Random()


class Chaos(unittest.TestCase):
    """One cluster for all tests of a class; after a failed test the next one gets a new cluster."""
    cluster = None
    settings = {}

    def setUp(self):
        if type(self).cluster is None:
            type(self).cluster = self.begin()
        self.c = type(self).cluster
        self.whole = False

    def begin(self):
        cluster = Cluster(NODES, **self.settings)
        try:
            begun = time.time()
            self.before(cluster)
            cluster.start()
            cluster.wait_together()
            cluster.wait_rounds(count=3)
            print(f"\n{NODES} nodes train after {time.time() - begun:.1f} s", flush=True)
            if cluster.deaths(0):
                raise AssertionError(f"declared dead at the start: {cluster.deaths(0)}")
        except BaseException:
            cluster.close()
            raise
        return cluster

    def before(self, cluster):
        pass

    def tearDown(self):
        if not self.whole:
            self.c.close()
            type(self).cluster = None

    @classmethod
    def tearDownClass(cls):
        cluster, cls.cluster = cls.cluster, None
        if cluster:
            try:
                cluster.wait_exchanges(100)
                cluster.stop()
                cluster.sane_logs()
                cluster.models_agree(0.1)
            finally:
                cluster.close()

    def often(self, scenario):
        for _ in range(ROUNDS):
            scenario()
        self.whole = True

    def some(self, part):
        return random_source.sample(self.c.hosts, max(1, round(part * len(self.c.hosts))))

    def killed(self, victims):
        """The victims are detected, the others continue to train, and the victims resume from their checkpoints."""
        c = self.c
        with c.chaos(f"kill -9 of {len(victims)}", may_die=victims):
            moment = time.time()
            for host in victims:
                host.kill()
            times = c.wait_told("dead", victims, moment)
            c.figure("detected by all after", max(times))
            c.figure("one view of all survivors after", c.wait_together() - moment)
            self.assertLess(max(times), EVIDENCE)
            c.wait_rounds()
            self.back(victims)

    def back(self, hosts):
        begun = time.time()
        for host in hosts:
            host.start("--resume")
        self.c.figure("together again after", self.c.wait_together() - begun)


class Kills(Chaos):
    settings = {"average__mode": "sync"}  # a round waits for a neighbour that does not answer

    def test_kill_one(self):
        self.often(lambda: self.killed(self.some(0)))

    def test_kill_a_quarter_at_once(self):
        self.often(lambda: self.killed(self.some(1 / 4)))


class Pauses(Chaos):
    def stopped(self, hosts, seconds):
        for host in hosts:
            host.signal(signal.SIGSTOP)
        time.sleep(seconds)
        woken = time.time() # before the signal: others may hear of it before this process runs again
        for host in hosts:
            host.signal(signal.SIGCONT)
        return woken

    def test_stop_an_eighth_for_6_s(self):
        def scenario():
            hosts = self.some(1 / 8)
            with self.c.chaos("SIGSTOP for 6 s", away=hosts):
                self.stopped(hosts, 6)
        self.often(scenario)

    def test_stop_one_for_30_s(self):
        def scenario():
            hosts, c = self.some(0), self.c
            pid = hosts[0].process.pid
            with c.chaos("SIGSTOP for 30 s", may_die=hosts, away=hosts) as begun:
                woken = self.stopped(hosts, 30)
                times = c.wait_told("dead", hosts, begun, patience=5)
                c.figure("a silent host is dead to all after", max(times))
                times = c.wait_told("alive", hosts, woken, before="dead")
                c.figure("alive again for all after", max(times))
                c.wait_rounds(hosts)
            self.assertEqual((hosts[0].process.pid, hosts[0].process.poll()), (pid, None))
            self.assertEqual([e for h in hosts for e in h.events(begun, "dead")], [], "it suspected others when it woke")
        self.often(scenario)

    def test_two_busy_loops(self):
        def scenario():
            with self.c.chaos("two busy loops"):
                loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
                try:
                    time.sleep(12)
                finally:
                    for loop in loops:
                        loop.kill()
                        loop.wait()
        self.often(scenario)


class Networks(Chaos):
    def test_partition_in_two_halves(self):
        def scenario():
            c = self.c
            order = random_source.sample(c.hosts, len(c.hosts))
            halves = order[:len(order) // 2], order[len(order) // 2:]
            with c.chaos("partition for 25 s", may_die=c.hosts, away=()) as begun:
                c.network.partition(*([h.index for h in half] for half in halves))
                times = c.wait_told("dead", halves[0], begun, by=halves[1]) + c.wait_told("dead", halves[1], begun, by=halves[0])
                c.figure("the other half is dead to all after", max(times))
                for half in halves:
                    c.wait(lambda h=half: c.agree(h), "one view of each half")
                time.sleep(max(0.0, begun + 25 - time.time()))
                c.wait_rounds()  # on both sides
                for half in halves:  # none of the same side
                    names = {h.name for h in half}
                    self.assertEqual([d for d in c.deaths(begun) if d[0] in names and d[1] in names], [])
                c.network.heal()
                healed = time.time()
                together = c.wait_together() - healed
                c.figure("healed: one view hash of all after", together)
                self.assertLess(together, 10.0)
        self.often(scenario)

    def lossy(self, percent, seconds):
        def scenario():
            with self.c.chaos(f"{percent}% of all datagrams lost"):
                self.c.network.lose(percent)
                time.sleep(seconds)
                self.c.wait_rounds()
                self.c.network.heal()
        self.often(scenario)

    def test_10_percent_loss(self):
        self.lossy(10, 10)

    def test_30_percent_loss(self):
        self.lossy(30, 20)


class WithoutDatagrams(Chaos):
    """UDP is blocked before the first node starts: everything goes over the streams."""

    def before(self, cluster):
        cluster.network.block_udp()

    def test_no_node_dies_falsely_and_a_death_is_detected(self):
        def scenario():
            with self.c.chaos("UDP blocked"):
                time.sleep(12)
            self.killed(self.some(0))
        self.often(scenario)


class Restarts(Chaos):
    def test_rolling_restart_of_all(self):
        def scenario():
            c = self.c
            with c.chaos("rolling restart", away=c.hosts) as begun:
                for host in c.hosts:
                    stopped = time.time()
                    host.running = False
                    host.signal(signal.SIGTERM)
                    host.wait_exit(0)
                    c.wait_told("left", [host], stopped)
                    host.start("--resume")
                    c.wait_told("alive", [host], stopped, before="left")
                    c.wait_together()
                c.figure("a node takes", (time.time() - begun) / len(c.hosts))
        self.often(scenario)

    def test_storm(self):
        """Half of the nodes are killed and started three times each, whatever they are doing."""
        def scenario():
            c = self.c
            hosts = self.some(1 / 2)
            plan = sorted((random_source.uniform(0, 8), i) for i in range(len(hosts)) for _ in range(3))
            with c.chaos("restart storm", may_die=hosts, away=hosts) as begun:
                for at, i in plan:
                    time.sleep(max(0.0, begun + at - time.time()))
                    hosts[i].kill()
                    hosts[i].start("--resume")
                over = time.time()
                c.figure("together again after", c.wait_together() - over)
        self.often(scenario)


def main():
    global NODES, ROUNDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("P2PML_SEED") or random.randrange(1 << 32)))
    known, rest = parser.parse_known_args()
    NODES = known.nodes or (16 if known.long else 8)
    ROUNDS = known.rounds or (3 if known.long else 1)
    netns.skip_if_missing()
    print(f"{NODES} nodes, each scenario {ROUNDS} times, P2PML_SEED={known.seed}", flush=True)
    random_source.seed(known.seed)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()

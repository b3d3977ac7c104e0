"""Monitoring: the lines of log.progress, /status and /metrics of real nodes; the dashboard and the alerts in deploy/, whose
metrics must all exist in a node; promtool; event files read by the tensorboard package.

promtool is searched in the path and in build/tools, tensorboard in this Python, P2PML_TEST_PYTHON and /usr/bin/python3.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

import cluster

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DASHBOARD, ALERTS = os.path.join(ROOT, "deploy/grafana/p2pml.json"), os.path.join(ROOT, "deploy/prometheus")


def get(node, path):
    address = next(c for c in node.command if c.startswith("node.http=")).split("=")[1]
    with urllib.request.urlopen(f"http://{address}{path}") as answer:
        return answer.read().decode()


def names_in(text):
    return set(re.findall(r"\bp2pml_[a-z0-9_]+", text))


def expressions():
    """{where: expression} of the dashboard and the alerts."""
    with open(DASHBOARD) as f:
        found = {f"panel '{p['title']}'": t["expr"] for p in json.load(f)["panels"] for t in p["targets"]}
    with open(os.path.join(ALERTS, "alerts.yml")) as f:
        rules = re.split(r"\n      - alert: ", f.read())[1:]
    for rule in rules:
        found["alert " + rule.split("\n")[0]] = re.search(r"expr:(.*?)\n        (?:for|labels):", rule, re.S).group(1)
        assert re.search(r"description: >-\n +\S.{100}", rule, re.S), rule
    return found


READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


class Monitoring(cluster.ClusterTest):
    def test_every_metric_of_dashboard_and_alerts_exists(self):
        nodes = self.cluster(2, http=True, train__steps=100_000_000, topology__kind="ring")
        regression = self.node("lone", *cluster.free_ports(2), train__steps=100_000_000, **self.table())
        for node in [*nodes, regression]:
            node.start()
        for node in [*nodes, regression]:
            node.wait_rows(1)
        asked = expressions()
        self.assertGreater(len(asked), 25)
        wanted = names_in(" ".join(asked.values()))
        self.assertGreater(len(wanted), 15)

        def missing():
            printed = names_in(re.sub(r"#.*", "", get(nodes[0], "/metrics") + get(regression, "/metrics")))
            left = wanted - printed
            return None if left else True
        try:
            cluster.wait_until(missing, "all metrics", patience=60)
        except AssertionError:
            printed = names_in(re.sub(r"#.*", "", get(nodes[0], "/metrics") + get(regression, "/metrics")))
            self.fail({where: sorted(names_in(e) - printed) for where, e in asked.items() if names_in(e) - printed})
        for name in re.findall(r'condition=~?"([a-z_|]+)"', " ".join(asked.values())):
            for word in name.split("|"):
                self.assertIn(f'p2pml_condition{{condition="{word}"}}', get(nodes[0], "/metrics"))

    def table(self):
        path = os.path.join(self.directory, "line.csv")
        with open(path, "w") as f:
            f.write("x,y\n" + "".join(f"{i / 100},{3 * i / 100}\n" for i in range(200)))
        return {"data__kind": "csv", "data__train_file": path, "model__loss": "mse", "model__kind": "softmax",
                "train__rate": "0.01", "data__train_count": 0, "data__test_count": 0}

    def test_the_alerts_fire_when_they_should(self):
        promtool = shutil.which("promtool", path=os.environ.get("PATH", "") + ":" + os.path.join(ROOT, "build/tools"))
        if not promtool:
            self.skipTest("promtool is not installed ('./setup.sh test' installs it)")
        for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
            done = subprocess.run([promtool, *arguments], cwd=ALERTS, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def progress_of(self, node, members):
        """The first complete line of progress of a node in which it has a rate and so many members."""
        lines = [json.loads(x) for x in node.log().split("\n")[:-1] if '"event":"progress"' in x]
        return next((x for x in lines if x["members"] == members and x["steps_per_s"] is not None), None)

    def test_the_log_shows_the_progress_of_training(self):
        ports = cluster.free_ports(4)
        peers = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        more = {"train__steps": 100_000_000, "peers": f"[{peers}]", "log__progress": "500ms"}
        text = self.node("a", ports[0], ports[2], **more).start()
        json_node = self.node("b", ports[1], ports[3], log__format="json", **more).start()
        text.wait_log(r"progress step \d+ of 100000000 \(0\.\d%\), loss \d+\.\d+, test accuracy \d+\.\d+%, [\d.]+ steps/s, "
                      r"\d.* left, 2 of 2 members, slowest [ab] \(")
        line = cluster.wait_until(lambda: self.progress_of(json_node, members=2), "b reports two members")
        self.assertEqual((line["steps"], line["condition"], line["node"]), (100_000_000, "fine", "b"))
        self.assertTrue(0 < line["step"] < 100_000_000 and line["steps_per_s"] > 0 and line["left_s"] > 0)
        status = json.loads(get(text, "/status"))
        self.assertEqual([status[k] for k in ("condition", "steps", "members_here", "members_known", "neighbours_linked")],
                         ["fine", 100_000_000, 2, 2, 1])
        self.assertEqual(sorted(m["http"] for m in status["members"]), sorted(f"127.0.0.1:{p}" for p in ports[2:]))
        self.assertTrue(all(m["step"] > 0 for m in status["members"]))
        json_node.end()
        text.wait_log(r"1 of 2 members; alone: None of 1 other node answers")

    def ready(self, node):
        try:
            return 200, get(node, "/healthz")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_a_neighbour_that_cannot_be_reached_is_named(self):
        """Of three on a ring, c drops what a sends, and the reverse; then what b sends, too."""
        faults = os.path.join(self.directory, "faults")
        nodes = self.cluster(3, http=True, train__steps=100_000_000, topology__kind="ring", node__fault_file=faults)
        nodes[2].command = [c.replace(faults, faults + "-2") for c in nodes[2].command]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_rows(3)
        status = [self.status(node) for node in nodes]
        self.assertEqual([s["condition"] for s in status], ["fine"] * 3)
        with open(faults + "-2", "w") as f:
            f.write(status[0]["id"] + "\n")
        nodes[2].signal(signal.SIGHUP)
        cluster.wait_until(lambda: self.status(nodes[0])["condition"] == "edge_down", "a says that an edge is down")
        text = self.status(nodes[0])["condition_text"]
        self.assertRegex(text, r"1 of 2 neighbours \(node-2\) has had no exchange for \d+ s: .*\.")
        self.assertEqual(self.ready(nodes[0]), (200, "ok\n"))
        self.assertEqual(self.status(nodes[1])["condition"], "fine")
        with open(faults + "-2", "a") as f:
            f.write(status[1]["id"] + "\n")
        nodes[2].signal(signal.SIGHUP)
        code, text = cluster.wait_until(lambda: (lambda r: r[0] == 503 and r)(self.ready(nodes[2])), "c is not ready")
        self.assertRegex(text, r"^(alone|minority): .*\.\n$")
        self.assertEqual(get(nodes[2], "/livez"), "ok\n")

    def test_a_node_that_was_suspended_to_the_end_says_so(self):
        nodes = self.cluster(3, http=True, train__steps=10_000, topology__kind="ring", train__alone="stop")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_rows(3)
        nodes[2].signal(signal.SIGSTOP)
        cluster.wait_until(lambda: nodes[0].rows()[-1]["step"] > 9_000, "the others are nearly done")
        nodes[2].signal(signal.SIGCONT)
        if nodes[2].process.wait(cluster.PATIENCE) == 0:  # 1: it got no model of those that had finished, and says that
            self.assertRegex(nodes[2].log(), r" (copied|apart) Training is done.*\.")
        for node in nodes[:2]:
            self.assertNotRegex(node.wait_exit(), r" (copied|apart) Training is done")

    def test_log_progress_can_be_turned_off(self):
        node = self.node("quiet", *cluster.free_ports(1), log__progress="0s").start()
        self.assertNotIn(" progress ", node.wait_exit())

    def test_files_that_cannot_be_written_are_reported(self):
        """Plays a full disk: the file of metrics cannot grow."""
        import resource

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
        node = self.node("full", *cluster.free_ports(2), train__steps=100_000_000, data__kind="digits")
        os.makedirs(node.directory)
        log = os.open(os.devnull, os.O_WRONLY)
        node.process = subprocess.Popen(node.command, stdout=log, stderr=log, env=node.environment, preexec_fn=small)
        os.close(log)

        def told():
            try:
                return json.loads(get(node, "/status"))["condition"] == "disk_full"
            except OSError:
                return False
        cluster.wait_until(told, "condition disk_full", patience=60)

    def test_nodes_look_at_their_neighbours(self):
        """average.robust: clip+probe. Honest ones on even data, so nobody is distrusted."""
        nodes = self.cluster(3, http=True, train__steps=100_000_000, train__batch=64, train__rate=0.05, average__local_steps=8,
                             topology__kind="ring", average__robust="clip+probe")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_log("training begins")

        def looked():
            edges = [e for node in nodes for e in self.status(node)["edges"]]
            return len(edges) == 6 and all(e["lost"] is not None and e["lost"] < 0.5 for e in edges) and edges
        for edge in cluster.wait_until(looked, "a look at each end of each edge that has found what this node knows"):
            self.assertIs(edge["distrusted"], False)
        self.assertRegex(get(nodes[0], "/metrics"), r"p2pml_edge_lost_ratio\{[^}]*\} -?[0-9.e-]+\n")

    def test_tensorboard_reads_its_events(self):
        board = os.path.join(self.directory, "board")
        node = self.node("tb", *cluster.free_ports(1), metrics__tensorboard=board).start()
        node.wait_exit()
        files = glob.glob(os.path.join(board, "tb", "events.out.tfevents.*"))
        self.assertEqual(len(files), 1)
        python = cluster.python_with("tensorboard")
        if not python:
            self.skipTest("no Python has tensorboard (pip install tensorboard; P2PML_TEST_PYTHON names one): unit.node_tensorboard "
                          "reads the format by itself")
        done = subprocess.run([python, "-c", READ_EVENTS, os.path.dirname(files[0])], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        scalars, rows = json.loads(done.stdout), node.rows()
        for tag in ("loss/train", "accuracy/test", "loss/test", "rate/learning", "bytes/sent", "bytes/received"):
            self.assertIn(tag, scalars)
        step, accuracy = scalars["accuracy/test"][-1]
        self.assertEqual(step, rows[-1]["step"])
        self.assertAlmostEqual(accuracy, rows[-1]["accuracy"], places=6)
        self.assertLessEqual({s for s, _ in scalars["loss/train"]}, {r["step"] for r in rows})


if __name__ == "__main__":
    unittest.main()

"""p2pml collect: the report of a running cluster from the address of one node; nodes that do not answer; wrong calls."""

import http.server
import json
import os
import re
import subprocess
import threading
import unittest

import cluster

PROGRAM = os.path.join(os.path.dirname(cluster.PROGRAM), "p2pml")


def collect(*arguments):
    return subprocess.run([PROGRAM, "collect", *arguments], capture_output=True, text=True, timeout=60, check=False)


def http_of(node):
    return next(c for c in node.command if c.startswith("node.http=")).split("=")[1]


class Advancing(http.server.BaseHTTPRequestHandler):
    """The page of a node that has gone on by ten steps at each request."""

    step = 0

    def do_GET(self):
        type(self).step += 10
        at = {"step": self.step, "round": self.step, "bytes_sent": self.step}
        status = {"id": "ab" * 32, "name": "fast", "condition": "fine", "state": "training", "steps": 1000, "members": [], **at}
        history = {"at": [0.0], "loss": [1.0], "accuracy": [None], **{key: [value] for key, value in at.items()}}
        text = json.dumps(status if self.path == "/status" else history).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


class Collect(cluster.ClusterTest):
    def test_a_node_that_trains_meanwhile_has_a_curve_that_never_falls(self):
        page = http.server.HTTPServer(("127.0.0.1", 0), Advancing)
        threading.Thread(target=page.serve_forever, daemon=True).start()
        out = os.path.join(self.directory, "report")
        done = collect(f"127.0.0.1:{page.server_port}", "-o", out)
        page.shutdown()
        page.server_close()
        self.assertEqual((done.returncode, done.stdout), (0, f"{out}/report.html: 1 node\n"), done.stderr)
        with open(os.path.join(out, "rounds.jsonl")) as f:
            points = [json.loads(line) for line in f]
        for key in ("time", "step", "round", "bytes"):
            values = [point[key] for point in points]
            self.assertEqual((len(values), values), (2, sorted(values)), key)

    def test_the_report_has_every_node_and_its_curve(self):
        nodes = self.cluster(3, http=True, train__steps=100_000_000, topology__kind="ring")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_log("training begins")
            node.wait_rows(20)
        for node in nodes:
            cluster.wait_until(lambda: (lambda s: s["exchanges"] > 0 and s["accuracy"] is not None)(self.status(node)), f"exchanges of {node.name}")
        out = os.path.join(self.directory, "report")
        done = collect(http_of(nodes[1]), "-o", out)
        self.assertEqual((done.returncode, done.stdout), (0, f"{out}/report.html: 3 nodes\n"), done.stderr)
        with open(os.path.join(out, "summary.json")) as f:
            summary = json.load(f)
        self.assertEqual((summary["status"], summary["nodes"], summary["kind"]), ("running", 3, "collect"))
        self.assertEqual([one["name"] for one in summary["per_node"]], ["node-0", "node-1", "node-2"])
        self.assertEqual(sorted(map(tuple, summary["graph"]["edges"])), [(0, 1), (0, 2), (1, 2)])
        self.assertTrue(all(one["own_steps"] > 0 and one["exchanges"] > 0 for one in summary["per_node"]))
        with open(os.path.join(out, "rounds.jsonl")) as f:
            points = [json.loads(line) for line in f]
        self.assertGreater(len(points), 2)
        for key in ("time", "step", "round", "bytes"):
            values = [point[key] for point in points]
            self.assertEqual(values, sorted(values), key)
            self.assertGreater(values[-1], 0)
        self.assertEqual(points[-1]["nodes"], 3)
        self.assertIsNotNone(points[-1]["mean"])
        with open(os.path.join(out, "report.html")) as f:
            page = f.read()
        self.assertIn("From the pages of 3 nodes", page)
        nodes[2].end()
        nodes[0].wait_log("node-2 is dead")
        again = collect(http_of(nodes[0]), "-o", out)  # replaces the report of a cluster that still trained
        self.assertEqual((again.returncode, again.stdout), (0, f"{out}/report.html: 2 nodes\n"), again.stderr)

    def test_a_member_without_a_page_is_named(self):
        nodes = self.cluster(2, http=True, train__steps=100_000_000)
        nodes[1].command[nodes[1].command.index(f"node.http={http_of(nodes[1])}")] = "node.http="
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_rows(1)
        out = os.path.join(self.directory, "report")
        done = collect(http_of(nodes[0]), "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(out, "summary.json")) as f:
            summary = json.load(f)
        self.assertEqual((summary["status"], summary["nodes"]), ("incomplete", 1))
        with open(os.path.join(out, "report.html")) as f:
            self.assertIn("From the pages of 1 node; no answer from node-1", f.read())

    def test_wrong_calls_are_explained(self):
        port = cluster.free_ports(1)[0]
        out = os.path.join(self.directory, "report")
        done = collect(f"127.0.0.1:{port}", "-o", out)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"no p2pml-node answers at 127.0.0.1:{port}; expected", done.stderr)
        self.assertFalse(os.path.exists(out))
        for arguments in ([], ["a:1"], ["-o", out], ["nowhere", "-o", out], ["a:1", "b:2", "-o", out], ["--ou", "a:1"]):
            done = collect(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertTrue(re.search(r"p2pml collect: ", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""What one sees of programs: the address of the page, progress without an end, and the report of a cluster of programs."""

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import unittest
import urllib.request

import p2pml
from loops import Loop, small
from p2pml import _command
from processes import patience


class Pages(Loop):
    def get(self, node, path):
        with urllib.request.urlopen(node.page + path, timeout=patience()) as answer:
            return answer.read().decode()

    def test_the_address_is_printed_once_and_progress_has_no_end(self):
        model, optimizer = small()
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            attachment = self.attach(model, optimizer, every=1)
            self.step(model, optimizer, 20)
            node = attachment.node
            status = json.loads(self.get(node, "status"))
        self.assertEqual(said.getvalue().count(node.page), 1, said.getvalue())
        self.assertIsNone(status["steps"])  # the page then says "step 20, trains until it is stopped"
        self.assertIsNone(status["left_s"])
        told = json.loads(self.get(node, "rounds/5"))
        self.assertIn("trains until it is stopped", self.get(node, "page.js"))
        with open(os.path.join(self.folder, "node", "metrics.jsonl"), encoding="utf-8") as f:  # p2pml why reads either
            rows = [json.loads(line) for line in f]
        self.assertEqual(told["rows"], [row for row in rows if 4 <= row["round"] <= 6])

    def test_a_node_without_a_page_prints_nothing(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            model, optimizer = small()
            attachment = p2pml.attach(self.join(node__http=""), model, optimizer)
        self.assertEqual((attachment.node.page, said.getvalue()), (None, ""))

    @unittest.skipUnless(importlib.util.find_spec("jax"), "no jax in this Python")
    def test_what_a_program_in_jax_reports_is_shown(self):
        import jax.numpy as jnp
        import p2pml.jax
        node = self.join("jax")
        together, params = p2pml.jax.attach(node, {"w": jnp.ones(4)}, every=1)
        shown = {}
        while shown.get("accuracy") != 0.5 or shown.get("loss") is None:
            together.report(loss=jnp.asarray(3.0), accuracy=0.5, perplexity=7)
            together.report(loss=2.0)
            together.report(loss=float("inf"))
            params = together.step(params, 0.1)
            shown = node.status()
            self.assertIn(shown["loss"], (None, 2.5))  # the mean of a round
        with open(os.path.join(self.folder, "jax", "reported.jsonl"), encoding="utf-8") as f:
            row = json.loads(f.readline())
        self.assertEqual((row["step"], row["accuracy"], row["perplexity"]), (0, 0.5, 7))

    def test_the_report_of_a_cluster_has_what_the_programs_report(self):
        out, done = os.path.join(self.folder, "report"), []

        def program(i):
            model, optimizer = small()
            yield model, optimizer
            attachment = optimizer._p2pml
            while not done:
                attachment.report(loss=1.0 + i, accuracy=0.5 + i / 4)
                self.step(model, optimizer)
                status = attachment.node.status()
                if i == 1 and status["exchanges"] and status["accuracy"] is not None:
                    done.append(subprocess.run([_command.program(), "collect", attachment.node.page[len("http://"):].rstrip("/"), "-o", out],
                                               env=_command.environment(), capture_output=True, text=True, check=False))
                yield
        self.together([program] * 2, 1)
        self.assertEqual(done[0].returncode, 0, done[0].stderr)
        with open(os.path.join(out, "summary.json"), encoding="utf-8") as f:
            summary = json.load(f)
        self.assertEqual((summary["nodes"], summary["status"]), (2, "running"), summary)
        self.assertEqual(summary["node"]["best"]["accuracy"], 0.75)
        losses = {one["training_loss"] for one in summary["per_node"]}
        self.assertTrue(losses <= {1.0, 2.0, None} and losses != {None}, losses)
        self.assertTrue(os.path.exists(os.path.join(out, "report.html")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
